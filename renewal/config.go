package renewal

import (
	"fmt"
	"time"

	"github.com/piecelease/fetcher/internal/bounds"
	"github.com/piecelease/fetcher/internal/words"
)

// DefaultLength is the length of leases unless said otherwise.
const DefaultLength = 31 * 24 * time.Hour

// Config says when visits are made. The zero value is the default; fields that are not
// set follow from Length.
type Config struct {
	// Length is the length of leases, from the day of the renewal. For a depot that grants
	// less, the other times are shorter in proportion. Default DefaultLength.
	Length time.Duration
	// Mean and Range give the time from one visit of a depot to the next: from
	// Mean - Range/2 to Mean + Range/2, uniformly distributed. Defaults Length/15 and
	// Length/30.
	Mean, Range time.Duration
	// RetryMin and RetryMax bound the back-off after a visit that failed; it doubles
	// from one to the other. Defaults 10 min and 6 h, for a Length of 31 days.
	RetryMin, RetryMax time.Duration
	// Misses is how many visits in a row may fail, at the worst times and without any
	// retry, before a lease lapses. Default 2.
	Misses int
}

func (c Config) withDefaults() Config {
	bounds.Default(&c.Length, DefaultLength)
	bounds.Default(&c.Mean, c.Length/15)
	bounds.Default(&c.Range, c.Length/30)
	bounds.Default(&c.RetryMin, scaled(10*time.Minute, c.Length))
	bounds.Default(&c.RetryMax, scaled(6*time.Hour, c.Length))
	bounds.Default(&c.Misses, 2)
	return c
}

// scaled is d, a time for DefaultLength, scaled to length.
func scaled(d, length time.Duration) time.Duration {
	return max(time.Duration(float64(d)*float64(length)/float64(DefaultLength)), time.Millisecond)
}

// renewWithin is how much of a lease is left when its renewal begins: the last third.
func (c Config) renewWithin() time.Duration { return c.Length / 3 }

// longest is the longest time between two visits.
func (c Config) longest() time.Duration { return c.Mean + c.Range/2 }

// backOff is the delay after the n-th failure in a row; the first delay is first.
func (c Config) backOff(first time.Duration, n int) time.Duration {
	d := first
	for ; n > 1 && d < c.RetryMax; n-- {
		d *= 2
	}
	return min(d, c.RetryMax)
}

// A CoverageError says that leases could lapse: Misses failed visits and one that succeeds
// may take longer than the last third of a lease, in which it is renewed.
type CoverageError struct {
	Length time.Duration // of a lease
	Window time.Duration // from the start of its renewal to its end
	Needs  time.Duration // (Misses + 1) times the longest time between visits
	Misses int
}

func (e *CoverageError) Error() string {
	return fmt.Sprintf("leases of %v could lapse: they are renewed in their last %v, and %s and a good one may take %v; visit more often, or ask for longer leases",
		e.Length, e.Window, words.Count(e.Misses, "failed visit"), e.Needs)
}

// Validate returns an error that names the fields that are out of range, or a *CoverageError
// if leases could lapse. New requires a Config that Validate accepts.
func (c Config) Validate() error {
	var f bounds.Fields
	bounds.In(&f, "Length", c.Length, time.Second, 366*24*time.Hour)
	bounds.In(&f, "Mean", c.Mean, time.Millisecond, 366*24*time.Hour)
	bounds.In(&f, "Range", c.Range, 0, 366*24*time.Hour)
	bounds.In(&f, "RetryMin", c.RetryMin, time.Millisecond, 24*time.Hour)
	bounds.In(&f, "RetryMax", c.RetryMax, time.Millisecond, 24*time.Hour)
	bounds.In(&f, "Misses", c.Misses, 1, 100)
	if err := f.Err(); err != nil {
		return err
	}
	d := c.withDefaults()
	if d.Range > 2*d.Mean {
		return fmt.Errorf("%s is %v: it must be at most %v, twice Mean, or a delay could be negative", "Range", d.Range, 2*d.Mean)
	}
	if d.RetryMax < d.RetryMin {
		return fmt.Errorf("%s is %v: it must be at least RetryMin, %v", "RetryMax", d.RetryMax, d.RetryMin)
	}
	if needs := time.Duration(d.Misses+1) * d.longest(); needs > d.renewWithin() {
		return &CoverageError{Length: d.Length, Window: d.renewWithin(), Needs: needs, Misses: d.Misses}
	}
	return nil
}
