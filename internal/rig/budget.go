package rig

import (
	"os"
	"time"
)

// until is when the time of BUDGET, a duration from the start of this test process, is
// over. Without it there is no end.
var until = func() (at time.Time) {
	if d, err := time.ParseDuration(os.Getenv("BUDGET")); err == nil {
		at = time.Now().Add(d)
	}
	return at
}()

// TimeLeft says whether there is time to try more seeds of something, after the first few.
func TimeLeft() bool { return until.IsZero() || time.Now().Before(until) }
