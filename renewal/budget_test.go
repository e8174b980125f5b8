package renewal

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/share"
)

// budgeted is a depot with a budget and a lease of 31 MiB for each of left: a day of it costs a pass.
func budgeted(budget int64, left ...time.Duration) *Service {
	s := New(Config{}, 1)
	for i, l := range left {
		hold(s, Hold{Key: Key{"d", shareID(i)}, Bytes: 31 << 20, Expires: epoch.Add(l), State: Stable}, epoch)
	}
	s.SetBudget("d", budget, epoch)
	return s
}

func TestLapsesAreWhatABudgetDoesNotPayFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		budget int64
		left   []time.Duration
		spent  int64 // of the month that began ten days ago
		want   []int
	}{
		{"none", 0, []time.Duration{day, day}, 0, nil},
		{"all", 47, []time.Duration{5 * day, 10 * day}, 0, nil}, // 26 + 21
		{"the first comes first", 46, []time.Duration{10 * day, 5 * day}, 0, []int{0}},
		{"the next month comes too late", 26, []time.Duration{5 * day, 6 * day, 30 * day}, 0, []int{1, 2}},
		{"the next month pays", 27, []time.Duration{5 * day, 6 * day, 30 * day}, 1, []int{1}},
		{"nothing pays for it", 20, []time.Duration{9 * day}, 0, []int{0}},
		{"used up, and it lapses before the next month", 100, []time.Duration{5 * day}, 100, []int{0}},
		{"used up, and there is time", 100, []time.Duration{5 * day, 22 * day}, 100, []int{0}},
		{"used up, and it lapses in a moment of the next month", 30, []time.Duration{21*day + time.Second}, 30, []int{0}},
		{"the rest of the month", 100, []time.Duration{5 * day}, 74, nil},
		{"one too few", 100, []time.Duration{5 * day}, 75, []int{0}},
	} {
		s := budgeted(c.budget, c.left...)
		d := s.depots["d"]
		d.Month, d.Spent = epoch.Add(-10*day), c.spent
		var got []int
		for _, due := range s.Lapses(epoch) {
			i := slices.IndexFunc(c.left, func(l time.Duration) bool { return due.Expires.Equal(epoch.Add(l)) })
			got = append(got, i)
			if due.Units < 1 || due.Share != shareID(i) {
				t.Errorf("%s: %+v", c.name, due)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v lapse, not %v", c.name, got, c.want)
		}
	}
}

// spender visits a depot for a while, paying what its budget allows.
type spender struct {
	s    *Service
	now  time.Time
	ends map[share.ID]time.Time
	paid map[time.Time]int64
}

func (x *spender) pass(t *testing.T, until time.Time) (lapsed []share.ID) {
	for {
		x.now = later(x.s.Wake(), x.now)
		if x.now.After(until) {
			return lapsed
		}
		x.s.Due(x.now)
		var said []Heard
		for id, end := range x.ends {
			if end.After(x.now) {
				said = append(said, Heard{Share: id, State: Stable, Bytes: x.s.depots["d"].holds[id].Bytes, Left: end.Sub(x.now)})
			} else if !slices.Contains(lapsed, id) {
				lapsed = append(lapsed, id)
			}
		}
		for _, task := range x.s.Visited("d", said, x.now) {
			k := Key{"d", task.Share}
			if task.Verb != Renew { // it has lapsed, and stays away
				x.s.Refused(k, "gone", x.now)
				continue
			}
			if err := x.s.InBudget("d", task.Units, x.now); err != nil {
				if over := (*BudgetError)(nil); !errors.As(err, &over) || over.Units != task.Units || !over.Until.After(x.now) {
					t.Error(err)
				}
				x.s.Refused(k, err.Error(), x.now)
				continue
			}
			x.paid[x.now] += task.Units
			renewed(x.s, k, task.Length, x.now)
			x.ends[task.Share] = x.now.Add(task.Length)
		}
	}
}

// Whatever is held, no month costs more than the budget; and what is said to lapse does, and nothing else, in the month that
// has begun.
func TestABudgetIsKept(t *testing.T) {
	t.Parallel()
	some, none := 0, 0
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		x := &spender{s: New(Config{}, seed), now: epoch, ends: map[share.ID]time.Time{}, paid: map[time.Time]int64{}}
		for i := range 1 + rng.IntN(8) {
			id := shareID(i)
			x.ends[id] = epoch.Add(4*day + time.Duration(rng.Int64N(int64(6*day)))) // all are due
			hold(x.s, Hold{Key: Key{"d", id}, Bytes: int64(1+rng.IntN(99)) << 20, Expires: x.ends[id], State: Stable}, epoch)
		}
		budget := int64(1 + rng.IntN(300))
		x.s.SetBudget("d", budget, epoch)
		d := x.s.depots["d"]
		d.Month, d.Spent = epoch.Add(-day), min(budget, 1+rng.Int64N(budget))
		var want []share.ID
		for _, due := range x.s.Lapses(epoch) {
			want = append(want, due.Share)
		}
		got := x.pass(t, epoch.Add(29*day))
		slices.SortFunc(want, share.ID.Compare)
		slices.SortFunc(got, share.ID.Compare)
		if !slices.Equal(got, want) {
			t.Errorf("seed %d: %d leases lapse, and %d were said to", seed, len(got), len(want))
		}
		if len(want) > 0 {
			some++
		} else {
			none++
		}
		x.pass(t, epoch.AddDate(0, 4, 0))
		for from := range x.paid { // a month begins with a payment
			sum := int64(0)
			for at, units := range x.paid {
				if !at.Before(from) && at.Before(from.Add(UnitTime)) {
					sum += units
				}
			}
			if sum > 2*budget { // that of two months, as one may begin within
				t.Errorf("seed %d: %d passes in 31 days, with a budget of %d", seed, sum, budget)
			}
		}
		if d.Spent > budget {
			t.Errorf("seed %d: %d of %d in a month", seed, d.Spent, budget)
		}
	}
	if some < 5 || none < 5 {
		t.Errorf("%d had leases that lapse, %d had none", some, none)
	}
}

// What is paid counts, whatever it is paid for and whatever the clock does.
func TestWhatIsPaidCounts(t *testing.T) {
	t.Parallel()
	s, k := paying(100 << 20)
	s.SetBudget("d", 100, epoch)
	s.Bank(Key{Depot: "d"}, 30, epoch)
	s.Bank(k, 30, epoch.Add(day))
	s.Bank(k, 30, epoch.Add(2*day))
	s.Renewed("d", Heard{Share: k.Share, State: Stable, Bytes: 100 << 20, Left: day, Added: day}, epoch.Add(2*day))
	for now, ok := range map[time.Time]bool{epoch.Add(3 * day): false, epoch.Add(31*day - 1): false, epoch.Add(31 * day): true, epoch.Add(-40 * day): false} {
		if err := s.InBudget("d", 11, now); (err == nil) != ok {
			t.Errorf("at %v: %v", now.Sub(epoch), err)
		}
		if err := s.InBudget("d", 10, now); err != nil {
			t.Errorf("at %v: %v", now.Sub(epoch), err)
		}
	}
	if err := s.InBudget("e", 1<<40, epoch); err != nil {
		t.Error("a depot without a budget:", err)
	}
	s.Bank(k, 1, epoch.Add(-40*day))
	if left, until := s.depots["d"].left(epoch.Add(-40 * day)); left != 9 || !until.Equal(epoch.Add(-9*day)) {
		t.Errorf("the clock was set back: %d are left until %v", left, until.Sub(epoch))
	}
	s.Unwant(1, epoch)
	if a := s.Account("d"); a.Budget != 100 || a.Spent != 91 {
		t.Errorf("once nothing is held there: %+v", a)
	}
	book := s.Book()
	again := New(Config{}, 2)
	again.Resume(book, epoch)
	if a := again.Account("d"); a.Budget != 100 || a.Spent != 91 {
		t.Errorf("after a restart: %+v", a)
	}
}

// A budget that was spent while the clock was a year ahead is open again a month after the clock was seen to be right.
func TestABudgetSpentWhileTheClockWasAhead(t *testing.T) {
	t.Parallel()
	s := budgeted(10, 300*day)
	s.depots["d"].spend(10, epoch.Add(365*day))
	s.Hurry("d", epoch)
	s.Due(epoch)
	s.Visited("d", nil, epoch)
	for after, want := range map[time.Duration]int64{0: 0, UnitTime - 1: 0, UnitTime: 10} {
		if b := s.Budgets(epoch.Add(after))["d"]; b.Left != want {
			t.Errorf("after %v: %+v, want %d left", after, b, want)
		}
	}
}

// A payment while the clock was ahead by more than a month does not open the budget of the month that goes on.
func TestAMonthGoesOnAfterAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	for spent, left := range map[int64]int64{0: 6, 5: 1, 9: 0} {
		s := budgeted(10, 300*day)
		d := s.depots["d"]
		d.spend(spent, epoch.Add(-day))
		d.spend(4, epoch.Add(45*day))
		s.Hurry("d", epoch)
		s.Due(epoch)
		s.Visited("d", nil, epoch)
		if b := s.Budgets(epoch)["d"]; b.Left != left {
			t.Errorf("%d and 4 were spent of 10: %d are left, not %d", spent, b.Left, left)
		}
		if b := s.Budgets(epoch.Add(UnitTime))["d"]; b.Left != 10 {
			t.Errorf("after that month %d are left", b.Left)
		}
	}
}

// A visit by a clock that was behind, as that of a machine without a battery is before it asks for the time, does not open the budget.
func TestAMonthGoesOnAfterAClockThatWasBehind(t *testing.T) {
	t.Parallel()
	s := budgeted(10, 300*day)
	s.depots["d"].spend(10, epoch)
	wrong, now := epoch.Add(-365*day), epoch.Add(day)
	s.Hurry("d", wrong)
	s.Due(wrong)
	s.Visited("d", nil, wrong)
	if b := s.Budgets(now)["d"]; b.Left != 0 {
		t.Errorf("all was spent, and %d are left", b.Left)
	}
}
