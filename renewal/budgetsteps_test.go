package renewal

import (
	"testing"
	"time"
)

// A clock is set back by eight days after all of a month's budget was paid, and is set right in two steps of four days. Each is shorter than the time that
// two visits may be apart; they open no budget before the month is over all the same.
func TestAClockThatWasSetRightInTwoShortStepsOpensNoBudget(t *testing.T) {
	t.Parallel()
	s := budgeted(10, 300*day)
	hear(s, epoch)
	s.depots["d"].spend(10, epoch)
	for _, behind := range []time.Duration{8 * day, 4 * day} {
		hear(s, epoch.Add(time.Hour-behind))
	}
	for at := 2 * time.Hour; at < UnitTime; at += day {
		if left := hear(s, epoch.Add(at)); left > 0 {
			t.Fatalf("%v after all was paid %d are left", at, left)
		}
	}
}
