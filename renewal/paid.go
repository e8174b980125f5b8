package renewal

import (
	"slices"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// What a lease may cost is known without its depot: the size of the share, the time that has passed, and
// what was paid. A depot is believed when it asks for less.

// size returns the size of a lease by our own account; one that is not known is what the depot says.
func (s *Service) size(h *Hold) int64 {
	if w := s.needs(h); w != nil && w.Bytes > 0 {
		return w.Bytes
	}
	if h.Size > 0 {
		return h.Size
	}
	return h.Bytes
}

// room returns for how much more time of a hold something may be paid. Of a hold no more time is ever paid than has passed, and two
// lengths of its lease and the time in which that is renewed: a depot that has lost the latest renewal is paid for it
// again, but one that says so again and again is not.
func (s *Service) room(h *Hold, now time.Time) time.Duration {
	return 2*s.length(h) + s.cfg.renewWithin() - max(h.Covered.Sub(now), 0)
}

// MayCost returns how many units may be paid at most for a task of a visit.
func (s *Service) MayCost(k Key, length time.Duration, now time.Time) int64 {
	d := s.depots[k.Depot]
	if d == nil || d.holds[k.Share] == nil {
		return 0
	}
	h := d.holds[k.Share]
	room := s.room(h, now)
	price, _ := Cost(s.size(h), min(length, room), 0)
	if room < length {
		return max(price-1, 0) // else rounding up would be paid at each visit
	}
	return price
}

// Count notes that a payment to a depot is counted, and reports whether it was not before: a wallet sends it until it is told
// that the book has it.
func (s *Service) Count(id peers.ID, payment [16]byte) bool {
	d := s.depots[id]
	if d == nil || slices.Contains(d.Counted, payment) {
		return false
	}
	d.Counted = append(slices.Clone(d.Counted), payment)
	return true
}

// Over forgets payments that the wallet does not have any more.
func (s *Service) Over(payments [][16]byte, now time.Time) {
	for _, d := range s.depots {
		if len(d.Counted) == 0 {
			continue
		}
		d.Counted = slices.DeleteFunc(slices.Clone(d.Counted), func(p [16]byte) bool { return slices.Contains(payments, p) })
		s.tidy(d, now)
	}
}

// Bank enters units that were paid for a hold, if it is known for which. They are credit until something is granted for them.
func (s *Service) Bank(k Key, units int64, now time.Time) {
	d := s.depots[k.Depot]
	if d == nil || units < 1 {
		return
	}
	d.Paid = true
	d.spend(units, now)
	if h := d.holds[k.Share]; h != nil {
		most := s.length(h)
		if h.Granted > 0 {
			most = s.lasts(h)
		}
		cost, rest := Cost(s.size(h), Added(h.Expires, now.Add(most+jitter), now), 0)
		has := Paid(min(cost-units+1, int64(MaxCredit)/unit)) - rest - 1 // at most, or it would ask for less
		s.lost(d, d.Credit-max(has, 0), now)
		h.Cost += units
		h.Ahead += Paid(units)
	}
	d.Credit += Paid(units)
}

// lost writes off credit that a depot has lost, or denies. That counts as time that was paid of the holds for which it was paid: a depot
// that forgets credit is not paid again and again, and what it forgot of one lease does not end another.
func (s *Service) lost(d *depot, credit Credit, now time.Time) {
	if credit <= 0 {
		return
	}
	d.Credit -= credit
	for _, h := range d.holds {
		if paid := min(h.Ahead, credit); paid > 0 {
			h.Ahead -= paid
			seconds := int64(paid) / ((max(s.size(h), 1)-1)/UnitBytes + 1)
			h.cover(now, time.Duration(min(seconds, maxCovered))*time.Second)
		}
	}
}

// without returns the credit without what it pays of a lease that lasts longer by added.
func (d *depot) without(size int64, added time.Duration) Credit {
	missing, left := Cost(size, added, d.Credit)
	if missing > 0 {
		return 0
	}
	return left
}

// use sets the credit that is left once a lease lasts longer.
func (d *depot) use(left Credit) {
	d.Credit = left
	for _, h := range d.holds {
		h.Ahead = min(h.Ahead, left)
	}
}

const maxCovered = 100 * 366 * 24 * 3600 // s, that fit a time.Duration

// cover adds a time to what is paid for.
func (h *Hold) cover(now time.Time, added time.Duration) {
	if now.After(h.Covered) {
		h.Covered = now
	}
	h.Covered = h.Covered.Add(added)
}

// reported takes what a depot says of a lease. In the report of a visit, time that is new was paid when nobody here
// heard of it: the answer was lost, or another member of a fleet did it.
func (s *Service) reported(d *depot, h *Hold, said Heard, now time.Time, visit bool) {
	d.Heard = later(d.Heard, now)
	arrived := h.State != Stable && said.State == Stable
	h.is(said.State, now)
	if arrived {
		s.replaced(h, now)
	}
	h.Bytes, h.Expires = said.Bytes, now.Add(max(said.Left, 0))
	length := s.length(h)
	if added := Added(h.Covered, now.Add(min(said.Left, length)), now); added > 0 {
		if visit && added > jitter {
			d.use(d.without(min(h.Bytes, s.size(h)), added))
		}
		h.cover(now, added)
	}
	if most := now.Add(2*length + s.cfg.renewWithin()); h.Covered.After(most) { // the clock was set back
		h.Covered = most
	}
}

// replaced makes the other depots due at once that had kept a share, or an earlier version of it, until a hold that took their place is whole.
func (s *Service) replaced(by *Hold, now time.Time) {
	over := func(h *Hold) bool { return h != nil && h.State != Missing && s.fate(h) == release }
	for id, d := range s.depots {
		some := over(d.holds[by.Share])
		for _, w := range s.byShare[by.Share] {
			some = some || w.at(by.Key) && slices.ContainsFunc(d.versions[w.ID], over)
		}
		if some && id != by.Depot {
			s.Hurry(id, now)
		}
	}
}

// is enters what a depot has of a hold.
func (h *Hold) is(state State, now time.Time) {
	h.State = state
	if state == Stable {
		h.Lacks = time.Time{}
	} else if h.Lacks.IsZero() {
		h.Lacks = now
	}
}

// setBack corrects what was entered of a depot while the clock was ahead, once it is visited by a clock that was set back. The time by
// which it was ahead was not paid for. A length of each lease stays covered: that much is renewed in time anyway, and a depot that
// is paid for more than it grants gains nothing by a clock that goes back again and again.
func (s *Service) setBack(d *depot, now time.Time) {
	d.monthBack(now)
	ahead := d.Heard.Sub(now)
	d.Heard = now
	for _, h := range d.holds {
		if most := now.Add(s.length(h)); ahead > 0 && h.Covered.After(most) {
			h.Covered = later(h.Covered.Add(-ahead), most)
		}
	}
}

// jitter is by how much reports of one end of a lease may differ: clocks drift, and answers take time.
const jitter = time.Minute
