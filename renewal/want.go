package renewal

import (
	"cmp"
	"slices"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Want is a request of the owner: that some depots keep a share, until the Want is
// dropped.
type Want struct {
	ID     int64
	Share  share.ID      // the share to keep now
	Bytes  int64         // size of a lease of it
	Length time.Duration // length of its leases; 0: Config.Length
	Depots []peers.ID    // the depots that may keep it, the preferred first
	Copies int           // how many of them keep it; 0: all
	// At are the depots chosen from them. One that cannot keep the share is replaced by
	// another.
	At []peers.ID

	Name  string // what the owner calls it
	Entry int64  // the entry of the owner's catalog that it follows; 0: none
	Pin   bool   // it keeps its Share, whatever happens to the entry
	Keep  int    // how many earlier versions a depot that has them keeps beside the Share
	Fleet bool   // others want the same with the same account: only one of them at a time makes and renews its leases
	// Released says when each depot that the fleet's list had for this Want was last released for the fleet before; zero: never. One that it
	// does not name was not on the list yet. The Service only keeps it.
	Released map[peers.ID]time.Time `json:",omitempty"`
	// Was are the shares before, the latest last, as far as depots have them for it. The Service
	// keeps it.
	Was []share.ID `json:",omitempty"`
}

func (w *Want) copies() int {
	return min(cmp.Or(w.Copies, len(w.Depots)), len(w.Depots))
}

// Want enters what the owner wants, or changes it. Depots that do not have it yet are due at
// once.
func (s *Service) Want(w Want, now time.Time) {
	w.Was = nil
	if had := s.wants[w.ID]; had != nil {
		for _, id := range had.At { // what it has is of an earlier version from now on, also if another Want made that
			d := s.depots[id]
			if h := d.holds[had.Share]; h != nil && !h.Of(had.ID) {
				h.Also = append(slices.Clone(h.Also), had.ID)
				d.file(h)
			}
		}
		w.Was = s.earlier(had, w.Share)
		if had.Share != w.Share { // what was an earlier version may be the latest again
			for _, d := range s.depots {
				if h := d.holds[w.Share]; h != nil {
					h.Since = now
				}
			}
		}
		s.forget(had)
		s.hurryAll(had, now)
		s.hurryAll(&w, now)
		defer s.replan(had.Share, now)
	}
	s.plan(s.enter(w, now), now)
}

// enter adds a Want whose ID is new; it is planned later.
func (s *Service) enter(w Want, now time.Time) *Want {
	w.Depots, w.At = slices.Clone(w.Depots), slices.Clone(w.At)
	for i, id := range w.Depots {
		if slices.Index(w.Depots, id) < i {
			w.Depots[i] = ""
		}
	}
	w.Depots = slices.DeleteFunc(w.Depots, func(id peers.ID) bool { return id == "" })
	w.At = slices.DeleteFunc(w.At, func(id peers.ID) bool { return !slices.Contains(w.Depots, id) })
	s.wants[w.ID], s.last = &w, max(s.last, w.ID)
	s.byShare[w.Share] = append(s.byShare[w.Share], &w)
	for _, id := range w.Depots {
		s.depot(id, now)
	}
	return &w
}

// NextID returns an ID that no Want had before.
func (s *Service) NextID() int64 { return s.last + 1 }

// Unwant drops a Want. Leases that nothing needs any more are released at once, or when their
// depots answer again.
func (s *Service) Unwant(id int64, now time.Time) {
	w := s.wants[id]
	if w == nil {
		return
	}
	s.forget(w)
	for _, d := range s.hurryAll(w, now) {
		for _, h := range d.versions[id] {
			h.Name = w.Name
		}
		delete(d.versions, id)
		s.tidy(d, now)
	}
	s.replan(w.Share, now)
}

// Lapse drops a Want as Unwant does, but leases that nothing needs any more are not released: they lapse. What was to be released before
// is.
func (s *Service) Lapse(id int64, now time.Time) {
	for _, d := range s.depots {
		for _, h := range d.versions[id] {
			h.Lapses = h.Lapses || s.fate(h) != release // until a Want needs it, see plan
		}
	}
	s.Unwant(id, now)
}

// replan plans the wants of a share that another Want has left: they take over its holds.
func (s *Service) replan(x share.ID, now time.Time) {
	for _, o := range s.byShare[x] {
		s.plan(o, now)
	}
}

// At are the depots that were chosen for a Want.
func (s *Service) At(want int64) []peers.ID {
	if w := s.wants[want]; w != nil {
		return slices.Clone(w.At)
	}
	return nil
}

func (s *Service) forget(w *Want) {
	delete(s.wants, w.ID)
	s.byShare[w.Share] = slices.DeleteFunc(s.byShare[w.Share], func(o *Want) bool { return o == w })
	if len(s.byShare[w.Share]) == 0 {
		delete(s.byShare, w.Share)
	}
}

// Wants returns all wants, in the order of their IDs.
func (s *Service) Wants() (out []Want) {
	for _, w := range s.wants {
		out = append(out, *w)
	}
	slices.SortFunc(out, func(a, b Want) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Hurry has a depot visited at once, if there is anything to ask.
func (s *Service) Hurry(id peers.ID, now time.Time) {
	if d := s.depots[id]; d != nil && len(d.holds) > 0 {
		if d.busy {
			d.again = true
		} else {
			d.Next = now
		}
	}
}

// hurryAll makes the depots of a Want due at once, and those that still have a hold for it.
func (s *Service) hurryAll(w *Want, now time.Time) (all []*depot) {
	for id, d := range s.depots {
		if slices.Contains(w.Depots, id) || len(d.versions[w.ID]) > 0 {
			s.Hurry(id, now)
			all = append(all, d)
		}
	}
	return all
}

// plan chooses the depots of a Want, and enters the holds to be made. An existing hold that
// its own Want does not need belongs to this Want from now on.
func (s *Service) plan(w *Want, now time.Time) {
	for i, id := range w.At {
		if s.hopeless(w, id, now) {
			if spare := s.spare(w, now); spare != "" {
				w.At[i] = spare
			}
		}
	}
	for len(w.At) < w.copies() {
		next := s.spare(w, now)
		if next == "" { // all the others have failed lately: ask them anyway
			next = w.Depots[slices.IndexFunc(w.Depots, func(id peers.ID) bool { return !slices.Contains(w.At, id) })]
		}
		w.At = append(w.At, next)
	}
	w.At = w.At[:min(len(w.At), w.copies())]
	for _, id := range w.At {
		d := s.depot(id, now)
		h := d.holds[w.Share]
		if h != nil {
			h.Lapses = false
		}
		switch {
		case h == nil:
			d.enter(&Hold{Key: Key{id, w.Share}, Want: w.ID, Since: now, Bytes: w.Bytes, Size: w.Bytes})
			d.looks = 0
		case h.Want != w.ID && !s.wants[h.Want].at(h.Key):
			h.Also = append(slices.DeleteFunc(slices.Clone(h.Also), func(id int64) bool { return id == w.ID || s.wants[id] == nil }), h.Want)
			h.Want = w.ID
			d.file(h)
		default:
			continue
		}
		s.Hurry(id, now)
	}
}

// at reports whether a Want needs a hold; w may be nil.
func (w *Want) at(k Key) bool {
	return w != nil && w.Share == k.Share && slices.Contains(w.At, k.Depot)
}

// moveBack makes a depot that was visited keep a share that was moved elsewhere but is not there
// yet, when the lease here would end before the next visit: this may be the only whole copy.
func (s *Service) moveBack(d *depot, now time.Time) {
	for _, h := range d.holds {
		if s.fate(h) != leave || h.State != Stable || h.Expires.Sub(now) > s.of(d, s.cfg.longest()) {
			continue
		}
		for _, w := range append(s.owners(h), s.byShare[h.Share]...) { // the Want that it was for may have lapsed: then the first that has no copy gets it
			may := h.Of(w.ID) || s.fate(h) == leave && !slices.ContainsFunc(w.At, func(id peers.ID) bool { return s.stable(w, id) })
			if may && s.fateBy(w, h) == leave && slices.Contains(w.Depots, d.Depot) {
				w.At[slices.IndexFunc(w.At, func(id peers.ID) bool { return !s.stable(w, id) })] = d.Depot
				d.again = true
			}
		}
	}
}

// takeBack makes the depot of a hold keep the share again that this member of a fleet has moved elsewhere, as others have renewed the lease
// here meanwhile: the copy is where it was, and what was to replace it ends.
func (s *Service) takeBack(h *Hold, now time.Time) {
	for _, w := range s.byShare[h.Share] {
		i := slices.IndexFunc(w.At, func(id peers.ID) bool {
			o := s.depots[id].holds[h.Share]
			return o != nil && o.Since.After(h.Since)
		})
		if w.Fleet && !w.at(h.Key) && slices.Contains(w.Depots, h.Depot) && i >= 0 {
			s.Hurry(w.At[i], now)
			w.At[i] = h.Depot
		}
	}
}

// owners returns the wants that a hold is or was for.
func (s *Service) owners(h *Hold) (out []*Want) {
	for _, id := range append(slices.Clone(h.Also), h.Want) {
		if w := s.wants[id]; w != nil {
			out = append(out, w)
		}
	}
	return out
}

// hopeless reports whether a depot cannot be relied on to keep the share of a Want: it does not know us any more, has nothing
// of it, or the lease ends soon and more visits in a row have failed than may.
func (s *Service) hopeless(w *Want, id peers.ID, now time.Time) bool {
	d := s.depots[id]
	if d == nil || d.busy || d.Failed == 0 || d.holds[w.Share] == nil {
		return false
	}
	h := d.holds[w.Share]
	return d.barred || h.State == Missing || h.State == Unknown || d.Failed > s.cfg.Misses && h.Expires.Sub(now) <= s.window(h)/2
}

// spare returns a depot that may keep the share of a Want and is not asked to yet; empty if
// there is none.
func (s *Service) spare(w *Want, now time.Time) peers.ID {
	for _, id := range w.Depots {
		d := s.depots[id]
		if !slices.Contains(w.At, id) && (d == nil || d.Failed == 0 || !now.Before(d.Next)) {
			return id
		}
	}
	return ""
}

// fate is what happens to a hold.
type fate uint8

const (
	keep    fate = iota // it is needed: renewed, and made again if it was lost
	leave               // it is to lapse, or was moved elsewhere, and its replacement is not there yet: not renewed unless moved back
	release             // nothing needs it
)

func (s *Service) fate(h *Hold) fate {
	if s.needs(h) != nil {
		return keep
	}
	what := release
	for _, w := range s.owners(h) {
		what = min(what, s.fateBy(w, h))
	}
	if h.Lapses {
		what = min(what, leave)
	}
	return what
}

// fateBy returns the fate of a hold, as far as a Want that no longer needs it as it is decides.
func (s *Service) fateBy(w *Want, h *Hold) fate {
	chosen := slices.Contains(w.At, h.Depot)
	if h.Share != w.Share && (chosen || s.onlyThere(w, h)) && h.State != Coming && h.State != Unknown && s.newer(w, h, chosen) <= w.Keep {
		return keep
	}
	if chosen {
		return release
	}
	for _, id := range w.At {
		if !s.stable(w, id) {
			return leave
		}
	}
	return release
}

// needs returns a Want that needs a hold as it is, nil if none does.
func (s *Service) needs(h *Hold) (found *Want) {
	for _, w := range s.byShare[h.Share] {
		if w.at(h.Key) && (found == nil || w.ID < found.ID) {
			found = w
		}
	}
	return found
}

// ofFleet reports whether no Want of this node alone is behind a hold.
func (s *Service) ofFleet(h *Hold) bool {
	alone := func(w *Want) bool { return !w.Fleet && (w.at(h.Key) || h.Of(w.ID)) }
	return !slices.ContainsFunc(s.byShare[h.Share], alone) && !slices.ContainsFunc(s.owners(h), alone)
}

// stable reports whether a depot has all of the share of a Want.
func (s *Service) stable(w *Want, id peers.ID) bool {
	d := s.depots[id]
	return d != nil && d.holds[w.Share] != nil && d.holds[w.Share].State == Stable
}

// tidy forgets holds that have ended anyway, and a depot that has no tasks left.
func (s *Service) tidy(d *depot, now time.Time) {
	if d == nil || d.busy {
		return
	}
	for x, h := range d.holds {
		if !h.Expires.After(now) && !h.Maybe.After(now) && s.fate(h) != keep {
			d.drop(x)
		}
	}
	for _, w := range s.wants {
		if slices.Contains(w.Depots, d.Depot) {
			return
		}
	}
	if len(d.holds) == 0 && d.Budget == 0 && len(d.Counted) == 0 { // what was paid counts, also for what is held there next; and it counts once
		delete(s.depots, d.Depot)
	}
}
