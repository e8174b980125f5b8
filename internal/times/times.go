// Package times compares times of which some may not be set. It promises nothing to
// outsiders.
package times

import "time"

// Earliest returns the first of some times; zero ones do not count.
func Earliest(times ...time.Time) (first time.Time) {
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}
