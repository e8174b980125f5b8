package renewal

import "time"

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

// MayCost returns how many units may be paid at most for a task of a visit. Of a hold no more time is ever
// paid than has passed, and two lengths of its lease and the time in which that is renewed: a depot that has lost
// the latest renewal is paid for it again, but one that says so again and again is not.
func (s *Service) MayCost(k Key, length time.Duration, now time.Time) int64 {
	d := s.depots[k.Depot]
	if d == nil || d.holds[k.Share] == nil {
		return 0
	}
	h := d.holds[k.Share]
	size, ahead := s.size(h), max(h.Covered.Sub(now), 0)
	price, _ := Cost(size, length, 0)
	if d.Credit > Paid(min(2*price, int64(MaxCredit)/unit)) { // that was paid, and no lease granted for it
		return 0
	}
	if room := 2*s.length(h) + s.cfg.renewWithin() - ahead; room < length {
		whole, _ := Cost(size, room, 0)
		return max(whole-1, 0) // else rounding up would be paid at each visit
	}
	return price
}

// Bank enters units that were paid for a task that the depot has not granted.
func (s *Service) Bank(k Key, units int64, now time.Time) {
	if d := s.depots[k.Depot]; d != nil && d.Paid && units > 0 {
		d.spend(units, now)
		if h := d.holds[k.Share]; h != nil {
			d.deposit(h, units, s.size(h), s.length(h), now)
		} else {
			d.Credit += Paid(units)
		}
	}
}

// deposit enters units that were paid to have a lease of size bytes last longer by added. What our credit
// should have covered, but for less than a unit, counts as time that was paid: a depot that forgets credit is not
// paid again and again.
func (d *depot) deposit(h *Hold, units, size int64, added time.Duration, now time.Time) {
	credit := d.Credit
	if credit < Credit(unit) {
		credit = 0
	}
	lacks, _ := Cost(size, added, credit)
	excess := max(units-lacks, 0)
	d.Credit += Paid(units - excess)
	if excess > 0 {
		seconds := excess * unit / ((max(size, 1)-1)/UnitBytes + 1)
		h.cover(now, min(time.Duration(seconds), maxCovered)*time.Second)
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
	h.is(said.State, now)
	h.Bytes, h.Expires = said.Bytes, now.Add(max(said.Left, 0))
	length := s.length(h)
	if added := Added(h.Covered, now.Add(min(said.Left, length)), now); added > 0 {
		if visit && added > jitter {
			missing, left := Cost(min(h.Bytes, s.size(h)), added, d.Credit)
			if missing > 0 {
				left = 0
			}
			d.Credit = left
		}
		h.cover(now, added)
	}
	if most := now.Add(2*length + s.cfg.renewWithin()); h.Covered.After(most) { // the clock was set back
		h.Covered = most
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
