// Package words writes numbers in words for people, and reads those that they write. It promises nothing to
// outsiders.
package words

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Error returns an error whose whole text is a sentence, and that wraps class.
func Error(class error, sentence string, args ...any) error {
	return saying{fmt.Sprintf(sentence, args...), class}
}

type saying struct {
	text  string
	class error
}

func (e saying) Error() string { return e.text }
func (e saying) Unwrap() error { return e.class }

// Count is n things: "1 piece", "3 pieces", "3 passes".
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	if strings.HasSuffix(thing, "s") {
		thing += "e"
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Duration formats a duration: "250 ms", "3 s", "75 s", "3 min", "24 h", "31 d". A
// negative one is "0 s".
func Duration(d time.Duration) string {
	switch {
	case d <= 0:
		return "0 s"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	if d < 96*time.Hour {
		return fmt.Sprintf("%.0f h", d.Hours())
	}
	return fmt.Sprintf("%.0f d", d.Hours()/24)
}

// Date is when something was or will be, where people are: "2026-04-05 06:07".
func Date(t time.Time) string { return t.Local().Format("2006-01-02 15:04") }

const maxDays = 36_600

// ParseDuration reads a duration as people write it: in days, such as "31d", or as
// time.ParseDuration does; at most 36,600 days.
func ParseDuration(s string) (time.Duration, error) {
	tooLong := fmt.Errorf("a time is at most %dd, not %q", maxDays, s)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 64); err == nil && n <= maxDays {
			return time.Duration(n) * 24 * time.Hour, nil
		} else if err == nil || errors.Is(err, strconv.ErrRange) {
			return 0, tooLong
		}
	}
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("give a time such as 30s, 36h or 7d, not %q", s)
	case d > maxDays*24*time.Hour:
		return 0, tooLong
	}
	return d, nil
}

// ParseRate reads a number of bytes per second as people write it: with K, M or G for
// powers of 1,000. Anything else, or a number not from 1 to 10^15, is not ok.
func ParseRate(s string) (rate int64, ok bool) {
	digits := strings.TrimRight(s, "kKmMgG")
	unit, ok := map[string]float64{"": 1, "K": 1e3, "M": 1e6, "G": 1e9}[strings.ToUpper(s[len(digits):])]
	n, err := strconv.ParseFloat(digits, 64)
	if n *= unit; !ok || err != nil || !(n >= 1 && n <= 1e15) {
		return 0, false
	}
	return int64(n), true
}
