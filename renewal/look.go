package renewal

import (
	"cmp"
	"slices"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// Standing is one hold as shown to people.
type Standing struct {
	Hold
	Left time.Duration // until it lapses; 0: it has lapsed
	Next time.Time     // when its depot is visited next
	Why  string        // why the last visit failed, or did not do its task for this hold
	Kept bool          // it is needed; else it ends, or is released when possible
	// OnBy is the latest moment at which this node must run again and reach the
	// depot, or the lease lapses.
	OnBy time.Time
	// Late: it should have been renewed, and was not; or it will not be, as the depot does not know us any more.
	Late bool
	// Lacking is for how long its depot has not had all of it.
	Lacking time.Duration
}

// Holds returns all holds, those that lapse first at the front.
func (s *Service) Holds(now time.Time) []Standing {
	var out []Standing
	for _, d := range s.depots {
		why := d.Why
		for _, h := range d.holds {
			if h.Why == why { // one hold was refused; its own Why says so
				why = ""
			}
		}
		for _, h := range d.holds {
			left, kept := max(h.Expires.Sub(now), 0), s.fate(h) == keep
			x := Standing{
				Hold: *h, Left: left, Next: d.Next, Why: cmp.Or(h.Why, why), Kept: kept, OnBy: h.Expires,
				Late: kept && h.State != Unknown && (left <= s.tooLittle(h) || d.barred),
			}
			if !h.Lacks.IsZero() {
				x.Lacking = max(now.Sub(h.Lacks), 0)
			}
			out = append(out, x)
		}
	}
	slices.SortFunc(out, func(a, b Standing) int {
		return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.Depot, b.Depot), a.Share.Compare(b.Share))
	})
	return out
}

// Account returns our account at a depot.
func (s *Service) Account(id peers.ID) Account {
	if d := s.depots[id]; d != nil {
		return d.Account
	}
	return Account{Depot: id}
}

// Accounts returns our accounts at all depots, in the order of the depots.
func (s *Service) Accounts() []Account {
	var out []Account
	for _, d := range s.depots {
		out = append(out, d.Account)
	}
	slices.SortFunc(out, func(a, b Account) int { return cmp.Compare(a.Depot, b.Depot) })
	return out
}

// A Due is a renewal that has to be paid.
type Due struct {
	Key
	Expires time.Time // of the lease
	Units   int64     // its cost
	At      time.Time // when it begins
	Fleet   bool      // only the fleet wants it: another member may pay
}

// Dues returns the renewals that are paid with passes and due before until, those of the
// earliest leases first, so that a lack of passes is known before a lease lapses.
func (s *Service) Dues(until, now time.Time) (all []Due) {
	credits := map[peers.ID]Credit{}
	s.renewals(now, func(x Standing, d *depot, at time.Time) {
		if at.After(until) {
			return
		}
		credit, ok := credits[x.Depot]
		if !ok {
			credit = d.Credit
		}
		units, left := Cost(s.size(&x.Hold), Added(x.Expires, at.Add(s.lasts(d.holds[x.Share])), at), credit)
		credits[x.Depot] = left
		all = append(all, Due{x.Key, x.Expires, units, at, s.ofFleet(&x.Hold)})
	})
	return all
}
