package renewal

import (
	"cmp"
	"time"
)

// length returns the length of lease to request for a hold: the longest that a Want which needs it asks for.
func (s *Service) length(h *Hold) (longest time.Duration) {
	for _, w := range s.byShare[h.Share] {
		if w.at(h.Key) {
			longest = max(longest, cmp.Or(w.Length, s.cfg.Length))
		}
	}
	if w := s.wants[h.Want]; longest == 0 && w != nil {
		longest = w.Length
	}
	return cmp.Or(longest, s.cfg.Length)
}

// lasts returns how long a lease of a hold lasts: what its depot grants, if that is less than is requested, but no less than a thousandth.
// A depot that grants less is visited more often: what it grants is its own affair, what we do for it is ours. What it
// has granted to other members of a fleet alone is not known: no more than Config.Length is expected.
func (s *Service) lasts(h *Hold) time.Duration {
	length := s.length(h)
	switch {
	case h.Granted > 0:
		return max(min(length, h.Granted), length/1000)
	case s.ofFleet(h):
		return min(length, s.cfg.Length)
	}
	return length
}

// window returns how much of a lease is left when its renewal begins.
func (s *Service) window(h *Hold) time.Duration { return s.scaled(s.cfg.renewWithin(), s.lasts(h)) }

// tooLittle returns how much of a lease is left when it should have been renewed by any visit.
func (s *Service) tooLittle(h *Hold) time.Duration {
	return s.scaled(s.cfg.renewWithin()-s.cfg.longest(), s.lasts(h))
}

// scaled scales a time of the Config to leases of a length.
func (s *Service) scaled(t, length time.Duration) time.Duration {
	return time.Duration(float64(t) * (float64(length) / float64(s.cfg.Length)))
}

// of scales a time of the Config to the shortest lease at a depot: by that it is visited.
func (s *Service) of(d *depot, t time.Duration) time.Duration {
	shortest := time.Duration(0)
	for _, h := range d.holds {
		if s.fate(h) != keep {
			continue
		}
		if lasts := s.lasts(h); shortest == 0 || lasts < shortest {
			shortest = lasts
		}
	}
	return s.scaled(t, cmp.Or(shortest, s.cfg.Length))
}

// sample draws the time of the next visit of a depot.
func (s *Service) sample(d *depot, now time.Time) time.Time {
	low, between := s.of(d, s.cfg.Mean-s.cfg.Range/2), s.of(d, s.cfg.Range)
	return now.Add(low + time.Duration(s.rng.Int64N(int64(between)+1)))
}
