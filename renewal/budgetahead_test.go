package renewal

import (
	"testing"
	"time"
)

// hear visits the depot of budgeted, and returns what is left of its budget.
func hear(s *Service, now time.Time) int64 {
	s.Hurry("d", now)
	s.Due(now)
	s.Visited("d", []Heard{{Share: shareID(0), State: Stable, Bytes: 31 << 20, Left: 300 * day}}, now)
	return s.Budgets(now)["d"].Left
}

// A clock was ahead for one visit, in which all of a month's budget was paid, and was set right. It may have been right, and be behind only now: at the time
// that it has shown once nothing is left either, until that month is over.
func TestAMonthThatAClockHasShownOnceCounts(t *testing.T) {
	t.Parallel()
	s := budgeted(10, 300*day)
	s.depots["d"].spend(10, epoch.Add(20*day))
	for after := time.Duration(0); after < 60*day; after += day {
		if left := hear(s, epoch.Add(after)); (left == 10) != (after >= 20*day+UnitTime) {
			t.Fatalf("%v after it was set right %d of 10 are left", after, left)
		}
	}
}

// A lease that ends in such a month is said to lapse.
func TestALeaseInAMonthThatAClockHasShownIsSaidToLapse(t *testing.T) {
	t.Parallel()
	for left, lapses := range map[time.Duration]int{50 * day: 1, 52 * day: 0} {
		s := budgeted(31, left)
		s.depots["d"].spend(31, epoch.Add(20*day))
		s.Hurry("d", epoch)
		s.Due(epoch)
		s.Visited("d", []Heard{{Share: shareID(0), State: Stable, Bytes: 31 << 20, Left: left}}, epoch)
		if due := s.Lapses(epoch); len(due) != lapses {
			t.Errorf("with %v left: %+v", left, due)
		}
	}
}

// A clock is set back after all of a month's budget was paid, and is set right later, between two visits or in one. Till the month is over nothing is left
// of it, by whichever clock, and then all is.
func TestAClockThatWasSetBackOpensNoBudget(t *testing.T) {
	t.Parallel()
	for _, behind := range []time.Duration{time.Hour, day, 3 * day, 15 * day, 30 * day, 365 * day} {
		for wrong := time.Duration(0); wrong < UnitTime; wrong += 7 * day {
			for _, every := range []time.Duration{6 * time.Hour, 40 * time.Hour, 8 * day} {
				for _, within := range []bool{false, true} {
					s := budgeted(10, 300*day)
					hear(s, epoch)
					s.depots["d"].spend(10, epoch)
					at := time.Minute // since then
					for ; at <= wrong+time.Minute; at += every {
						if left := hear(s, epoch.Add(at-behind)); left > 0 {
							t.Fatalf("behind by %v for %v, visits each %v: %d are left", behind, at, every, left)
						}
					}
					if within {
						s.Renewed("d", Heard{Share: shareID(0), State: Stable, Bytes: 31 << 20, Left: 300 * day}, epoch.Add(at-every+time.Second))
					}
					for ; at < UnitTime; at += every {
						if left := hear(s, epoch.Add(at)); left > 0 {
							t.Fatalf("behind by %v for %v, visits each %v: %v after all was paid %d are left", behind, wrong, every, at, left)
						}
					}
					if left := hear(s, epoch.Add(UnitTime)); left != 10 {
						t.Fatalf("behind by %v for %v, visits each %v: a month after all was paid %d are left", behind, wrong, every, left)
					}
				}
			}
		}
	}
}

// Nor does one that was set back, and then almost right, before it was right: far, or by less than two visits may be apart.
func TestAClockThatWasSetRightInTwoStepsOpensNoBudget(t *testing.T) {
	t.Parallel()
	for _, behind := range [][]time.Duration{{365 * day, 100 * day}, {8 * day, 4 * day}} {
		s := budgeted(10, 300*day)
		hear(s, epoch)
		s.depots["d"].spend(10, epoch)
		for _, b := range behind {
			hear(s, epoch.Add(time.Hour-b))
		}
		for at := 2 * time.Hour; at < UnitTime; at += day {
			if left := hear(s, epoch.Add(at)); left > 0 {
				t.Fatalf("behind by %v: %v after all was paid %d are left", behind, at, left)
			}
		}
	}
}
