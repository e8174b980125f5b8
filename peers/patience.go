package peers

import (
	"time"

	"github.com/piecelease/fetcher/internal/bounds"
)

// Patience is how long nothing may come from a source before it counts as late. Its pool
// applies it to every request, and the lease manager to every lease, besides the time that
// the bytes under way take at the source's rate. The zero value of each field means its
// default.
type Patience struct {
	// First is the patience with a source that has not been measured. Default 5 s.
	First time.Duration
	// Slack is the patience with a measured one, besides Trips round trips. Default 2 s.
	Slack time.Duration
	// Trips is the number of round trips that a measured source may be late. Default 4.
	Trips int
}

// Of is the patience with a source: one that has been measured is a round trip away.
func (p Patience) Of(measured bool, trip time.Duration) time.Duration {
	if !measured {
		return p.First
	}
	return p.Slack + time.Duration(p.Trips)*trip
}

// Validate names the fields that are out of range, with their ranges.
func (p Patience) Validate() error {
	var f bounds.Fields
	bounds.In(&f, "First", p.First, 100*time.Millisecond, time.Hour)
	bounds.In(&f, "Slack", p.Slack, 10*time.Millisecond, time.Hour)
	bounds.In(&f, "Trips", p.Trips, 1, 1000)
	return f.Err()
}

// WithDefaults returns p with the defaults in place of zero values.
func (p Patience) WithDefaults() Patience {
	bounds.Default(&p.First, 5*time.Second)
	bounds.Default(&p.Slack, 2*time.Second)
	bounds.Default(&p.Trips, 4)
	return p
}
