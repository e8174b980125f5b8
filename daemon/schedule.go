package daemon

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/piecelease/fetcher/internal/bounds"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
)

// Slot is a time of the week in which other limits apply: from From to To on Days, and past
// midnight if To is not after From. If several apply, the first counts.
type Slot struct {
	Days     []time.Weekday // the days on which it begins; none: every day
	From, To time.Duration  // since midnight, local time
	Up, Down int64          // bytes per second; 0 is none
}

// holds reports whether the slot applies at now.
func (s Slot) holds(now time.Time) bool {
	day := func(d time.Weekday) bool { return len(s.Days) == 0 || slices.Contains(s.Days, d) }
	at := time.Duration(now.Hour())*time.Hour + time.Duration(now.Minute())*time.Minute + time.Duration(now.Second())*time.Second
	if s.From < s.To {
		return day(now.Weekday()) && s.From <= at && at < s.To
	}
	return day(now.Weekday()) && at >= s.From || day((now.Weekday()+6)%7) && at < s.To
}

// rates is a limit each way, in bytes per second; 0 is none.
type rates struct{ up, down int64 }

// limitsAt returns the limits at now, base unless a slot applies, and when to check again.
func limitsAt(base rates, slots []Slot, now time.Time) (r rates, scheduled bool, next time.Time) {
	for _, s := range slots {
		if s.holds(now) {
			r, scheduled = rates{s.Up, s.Down}, true
			break
		}
	}
	if !scheduled {
		r = base
	}
	if len(slots) == 0 {
		return r, false, time.Time{}
	}
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	next = midnight.AddDate(0, 0, 1)
	for _, s := range slots {
		for _, edge := range []time.Duration{s.From, s.To} {
			at := time.Date(now.Year(), now.Month(), now.Day(), int(edge/time.Hour), int(edge/time.Minute)%60, 0, 0, now.Location())
			if at.After(now) && at.Before(next) {
				next = at
			}
		}
	}
	return r, scheduled, next
}

// number is how words.ParseRate reads one.
const number = "a number with K, M, G or none of them, such as 500K or 10M, and at most 1000000G"

// ParseRate parses bytes per second, as words.ParseRate does. Empty and 0 mean no limit.
func ParseRate(s string) (int64, error) {
	if s == "" || s == "0" {
		return 0, nil
	}
	rate, ok := words.ParseRate(s)
	switch {
	case !ok:
		return 0, fmt.Errorf("%q is not a limit: give bytes per second as %s", s, number)
	case rate < 1<<10:
		return 0, fmt.Errorf("a limit is at least 1024 bytes per second, and %q is %d", s, rate)
	}
	return rate, nil
}

// checkRate says that a limit, which was not parsed here, cannot be.
func checkRate(f *bounds.Fields, name string, rate int64) {
	const least, most = int64(1 << 10), int64(1 << 50)
	if rate != 0 && (rate < least || rate > most) {
		f.Add(name, fmt.Errorf("it must be from %d bytes to %s a second, or 0 for no limit, not %d", least, share.Size(most), rate))
	}
}

// ParseSize parses a number of bytes such as 500M or 10G; empty is 0.
func ParseSize(s string) (int64, error) {
	if s == "" || s == "0" {
		return 0, nil
	}
	n, ok := words.ParseRate(strings.TrimSuffix(s, "B"))
	if !ok {
		return 0, fmt.Errorf("%q is not a size: give bytes as %s", s, number)
	}
	return n, nil
}

// ParseTime parses a time such as 36h or 7d, from 1 s to a year; empty is 0.
func ParseTime(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	t, err := words.ParseDuration(s)
	if err == nil && (t < time.Second || t > 366*24*time.Hour) {
		err = fmt.Errorf("give a time from 1 s to 366 d, such as 36h or 7d, not %q", s)
	}
	return t.Truncate(time.Second), err
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

func parseDays(names []string) (out []time.Weekday, err error) {
	for _, n := range names {
		i := slices.Index(weekdays, strings.ToLower(n))
		if i < 0 {
			return nil, fmt.Errorf("a day is one of %s, not %q", strings.Join(weekdays, ", "), n)
		}
		out = append(out, time.Weekday(i))
	}
	return out, nil
}

// parseClock parses a time of day, such as 08:30; 24:00 is the end of the day.
func parseClock(s string) (time.Duration, error) {
	if s == "24:00" {
		return 24 * time.Hour, nil
	}
	t, err := time.Parse("15:04", s)
	if err != nil {
		return 0, errors.New("give a time of day such as 08:30, not " + strconv.Quote(s))
	}
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, nil
}
