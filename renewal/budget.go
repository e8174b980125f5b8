package renewal

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/piecelease/fetcher/internal/times"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
)

// A BudgetError says that a payment would exceed what the owner lets a depot be paid in a month.
type BudgetError struct {
	Budget int64 // units a month
	Left   int64 // of it
	Units  int64 // to be paid
	Until  time.Time
}

func (e *BudgetError) Error() string {
	return fmt.Sprintf("the lease costs %s, and of this depot's budget of %s in 31 days, only %d may be spent before %s",
		words.Count(int(e.Units), "pass"), words.Count(int(e.Budget), "pass"), e.Left, words.Date(e.Until))
}

// SetBudget sets how many units a depot may be paid in a month; 0: any number.
func (s *Service) SetBudget(id peers.ID, units int64, now time.Time) {
	s.depot(id, now).Budget = units
	s.Hurry(id, now)
}

// A Budget is what a depot may be paid.
type Budget struct {
	Units int64 // in a month
	Left  int64 // of it
}

// Budgets returns the budgets of the depots that have one.
func (s *Service) Budgets(now time.Time) map[peers.ID]Budget {
	out := map[peers.ID]Budget{}
	for id, d := range s.depots {
		if d.Budget > 0 {
			left, _ := d.left(now)
			out[id] = Budget{d.Budget, left}
		}
	}
	return out
}

// left returns what a budget leaves, and when the next month begins.
func (a *Account) left(now time.Time) (units int64, until time.Time) {
	began, spent := a.month(now)
	return max(a.Budget-spent, 0), began.Add(UnitTime)
}

// month returns when the month of now began, and what was paid in it. A month is UnitTime, from the first payment in it.
func (a *Account) month(now time.Time) (began time.Time, spent int64) {
	switch {
	case a.Spent > 0 && now.Before(a.Month.Add(UnitTime)):
		return a.Month, a.Spent
	case a.WasSpent > 0 && !now.Before(a.WasMonth) && now.Before(a.WasMonth.Add(UnitTime)): // the clock was behind
		return a.WasMonth, max(a.Spent, a.WasSpent)
	}
	return now, 0
}

// spend counts units that were paid.
func (a *Account) spend(units int64, now time.Time) {
	a.monthBack(now)
	began, spent := a.month(now)
	switch {
	case spent == 0:
		a.WasMonth, a.WasSpent = a.Month, a.Spent
	case !began.Equal(a.Month):
		a.WasSpent = 0
	}
	a.Month, a.Spent = began, spent+units
}

// monthBack corrects a month that began while the clock was ahead. The one before goes on, if it is not over. The corrected one
// is remembered: perhaps the clock is behind only now.
func (a *Account) monthBack(now time.Time) {
	month, spent := a.Month, a.Spent
	if !month.After(now) {
		return
	}
	a.Month = now
	if a.WasMonth.After(month) {
		return
	}
	if a.WasSpent > 0 && now.Before(a.WasMonth.Add(UnitTime)) {
		a.Month, a.Spent = times.Earliest(a.WasMonth, now), spent+a.WasSpent
	}
	a.WasMonth, a.WasSpent = month, spent
}

// InBudget returns a *BudgetError if paying units to a depot would exceed its budget.
func (s *Service) InBudget(id peers.ID, units int64, now time.Time) error {
	a := s.Account(id)
	if left, until := a.left(now); a.Budget > 0 && units > left {
		return &BudgetError{Budget: a.Budget, Left: left, Units: units, Until: until}
	}
	return nil
}

// renewals calls f with each lease that is renewed for passes and when that begins, those that end first at the front.
func (s *Service) renewals(now time.Time, f func(x Standing, d *depot, at time.Time)) {
	for _, x := range s.Holds(now) {
		if d := s.depots[x.Depot]; d.Paid && x.Kept && x.State != Missing && x.State != Unknown {
			f(x, d, later(x.Expires.Add(-s.window(d.holds[x.Share])), now))
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Lapses returns the leases whose next renewal the budgets of their depots do not pay for, each with its cost, those that end first
// at the front.
func (s *Service) Lapses(now time.Time) (all []Due) {
	dues := map[*depot][]Due{}
	s.renewals(now, func(x Standing, d *depot, at time.Time) {
		if d.Budget > 0 {
			dues[d] = append(dues[d], Due{Key: x.Key, Expires: x.Expires, At: at})
		}
	})
	for d, due := range dues {
		all = append(all, s.lapses(d, due)...)
	}
	slices.SortFunc(all, func(x, y Due) int {
		return cmp.Or(x.Expires.Compare(y.Expires), cmp.Compare(x.Depot, y.Depot), x.Share.Compare(y.Share))
	})
	return all
}

// lapses pays the renewals at one depot as its visits will, and returns those for which there is no budget in time. What begins first takes
// it, and what ends first of what is paid at the next visit, or waits for the same month.
func (s *Service) lapses(d *depot, dues []Due) (all []Due) {
	a, moment := d.Account, s.of(d, s.cfg.RetryMin) // nothing is paid in the moment between a month and the end of a lease
	for i, x := range dues {
		dues[i].At = later(x.At, times.Earliest(d.Next, x.Expires.Add(-moment)))
	}
	for len(dues) > 0 {
		slices.SortFunc(dues, func(x, y Due) int {
			return cmp.Or(x.At.Compare(y.At), x.Expires.Compare(y.Expires), x.Share.Compare(y.Share))
		})
		var wait []Due
		for _, x := range dues {
			if len(wait) > 0 && !x.At.Before(wait[0].At) {
				wait = append(wait, x)
				continue
			}
			h := d.holds[x.Share]
			units, credit := Cost(s.size(h), Added(x.Expires, x.At.Add(s.lasts(h)), x.At), a.Credit)
			x.Units = cmp.Or(x.Units, units)
			switch left, opens := a.left(x.At); {
			case units <= left:
				a.Credit = credit
				a.spend(units, x.At)
			case opens.Before(x.Expires.Add(-moment)):
				x.At = opens
				wait = append(wait, x)
			default:
				all = append(all, x)
			}
		}
		dues = wait
	}
	return all
}
