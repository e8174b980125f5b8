package rig

import (
	"os"
	"time"
)

// until is when the time of BUDGET is over: a duration, from the start of this process of
// tests. Without it there is no end.
var until = func() (at time.Time) {
	if d, err := time.ParseDuration(os.Getenv("BUDGET")); err == nil {
		at = time.Now().Add(d)
	}
	return at
}()

// TimeLeft says whether there is time to try more seeds of something, of which a few were.
func TimeLeft() bool { return until.IsZero() || time.Now().Before(until) }
