package renewal

import (
	"cmp"
	"slices"
	"time"

	"github.com/piecelease/fetcher/internal/times"
)

// Book is the state of a Service, to be kept over a restart.
type Book struct {
	Wants    []Want
	Holds    []Hold
	Accounts []Account
	Last     int64 // the greatest ID of a Want so far
}

// Resume restores the state from before a restart, in a new Service. What became due meanwhile is
// due at once.
func (s *Service) Resume(b Book, now time.Time) {
	for _, a := range b.Accounts {
		s.Know(a, now)
	}
	for _, h := range b.Holds {
		s.add(h, now)
	}
	for _, w := range b.Wants {
		s.resumed(s.enter(w, now))
	}
	s.planAll(now)
	for _, d := range s.depots {
		d.Next = times.Earliest(d.Next, now.Add(s.of(d, s.cfg.longest())))
	}
	s.last = max(s.last, b.Last)
	for _, h := range b.Holds { // whose Want may have been dropped before it was ever written
		s.last = max(s.last, h.Want, slices.Max(append([]int64{0}, h.Also...)))
	}
}

// Know enters our account at a depot.
func (s *Service) Know(a Account, now time.Time) { s.depot(a.Depot, now).Account = a }

// add enters a hold from before a restart; the wants are entered later. If the depot has said
// nothing about the hold yet, it is visited at once, otherwise within the longest time
// between visits, whatever was planned before.
func (s *Service) add(h Hold, now time.Time) {
	d := s.depot(h.Depot, now)
	d.enter(&h)
	if h.Covered.IsZero() {
		h.Covered = h.Expires
	}
	if h.State == Unknown {
		d.Next = times.Earliest(d.Next, now)
	}
	d.Next = times.Earliest(d.Next, now.Add(s.cfg.longest()))
}

// Book returns what a restart needs.
func (s *Service) Book() Book {
	b := Book{Wants: s.Wants(), Accounts: s.Accounts(), Last: s.last}
	for _, d := range s.depots {
		for _, h := range d.holds {
			b.Holds = append(b.Holds, *h)
		}
	}
	slices.SortFunc(b.Holds, func(x, y Hold) int {
		return cmp.Or(cmp.Compare(x.Depot, y.Depot), x.Share.Compare(y.Share))
	})
	return b
}
