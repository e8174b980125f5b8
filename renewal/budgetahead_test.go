package renewal

import (
	"testing"
	"time"
)

// A clock was ahead for one visit, in which all of a month's budget was paid, and was set right. The month is over when it has passed since then, and the
// next one has all of its budget, also at the time that the clock had shown once: nothing was paid in it, and depots were visited all the time.
func TestAMonthThatAWrongClockHasShownOnceHasAllOfItsBudget(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{20 * day, 45 * day} {
		s := budgeted(10, 300*day)
		s.depots["d"].spend(10, epoch.Add(ahead))
		for now := epoch; now.Before(epoch.Add(ahead + UnitTime)); now = now.Add(2 * day) {
			s.Hurry("d", now)
			s.Due(now)
			s.Visited("d", []Heard{{Share: shareID(0), State: Stable, Bytes: 31 << 20, Left: 300 * day}}, now)
			if b := s.Budgets(now)["d"]; now.Sub(epoch) >= UnitTime && b.Left != 10 {
				t.Errorf("ahead by %v: %v after it was set right %d of 10 are left", ahead, now.Sub(epoch), b.Left)
				break
			}
		}
	}
}
