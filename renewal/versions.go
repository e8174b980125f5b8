package renewal

import (
	"cmp"
	"slices"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// DropVersion ends a version of a share that depots keep beside a later one, at all depots or at one, and returns the depots to
// be visited for that. The latest that a depot has whole stays.
func (s *Service) DropVersion(x share.ID, at peers.ID, now time.Time) (visit []peers.ID) {
	for id, d := range s.depots {
		h := d.holds[x]
		if h == nil || at != "" && id != at || s.needs(h) != nil || slices.ContainsFunc(s.owners(h), func(w *Want) bool { return w.Share == x || s.newer(w, h, true) == 0 }) {
			continue
		}
		d.drop(x)
		h.Want, h.Also, h.Lapses = 0, nil, false
		d.enter(h)
		s.Hurry(id, now)
		visit = append(visit, id)
	}
	return visit
}

// DropShare ends what keeps a share at one depot or, without one, at any: the wants of it, or this depot's part in them, and that it
// is an earlier version. It returns the depots to be visited for that.
func (s *Service) DropShare(x share.ID, at peers.ID, now time.Time) (visit []peers.ID) {
	told := false
	for _, w := range slices.Clone(s.byShare[x]) {
		if at != "" && !slices.Contains(w.Depots, at) {
			continue
		}
		told = true
		less := *w
		if less.Depots = slices.DeleteFunc(slices.Clone(w.Depots), func(id peers.ID) bool { return at == "" || id == at }); len(less.Depots) == 0 {
			s.Unwant(w.ID, now)
		} else {
			s.Want(less, now)
		}
		for id, d := range s.depots { // no other that is to take it over
			if (at == "" || id == at) && d.some(func(h *Hold) bool { return h.Want == w.ID }) {
				visit = append(visit, id)
			}
		}
	}
	if !told || s.remains(x) { // an earlier version of what is kept, or what was to end before
		visit = append(visit, s.DropVersion(x, at, now)...)
	}
	return visit
}

// remains reports whether a depot is to keep a share, or its lease there is to lapse.
func (s *Service) remains(x share.ID) bool {
	for _, d := range s.depots {
		if h := d.holds[x]; h != nil && (h.Lapses || s.fate(h) == keep) {
			return true
		}
	}
	return false
}

// earlier returns the shares that a Want had before it turns to next, the latest last, as far as depots have them for it.
func (s *Service) earlier(w *Want, next share.ID) []share.ID {
	was := append(slices.Clone(w.Was), w.Share)
	return slices.DeleteFunc(was, func(x share.ID) bool { return x == next || !s.has(w, x) })
}

// has reports whether a depot has a hold of a share for a Want.
func (s *Service) has(w *Want, x share.ID) bool {
	for _, d := range s.depots {
		if h := d.holds[x]; h != nil && h.Of(w.ID) {
			return true
		}
	}
	return false
}

// resumed adds to what a Want was the versions of it that a book from before Was names.
func (s *Service) resumed(w *Want) {
	var found []*Hold
	for _, d := range s.depots {
		for _, h := range d.versions[w.ID] {
			if h.Share != w.Share && !slices.Contains(w.Was, h.Share) {
				found = append(found, h)
			}
		}
	}
	slices.SortFunc(found, func(a, b *Hold) int { return cmp.Or(a.Since.Compare(b.Since), a.Share.Compare(b.Share)) })
	var before []share.ID
	for _, h := range found {
		if !slices.Contains(before, h.Share) {
			before = append(before, h.Share)
		}
	}
	w.Was = append(before, w.Was...)
}

// newer counts the versions of a Want's share that are newer than h and that its depot has whole, or, if the Want has left that
// depot, a chosen one has. While they are no more than Keep h is kept; so the latest that is whole always is.
func (s *Service) newer(w *Want, h *Hold, chosen bool) int {
	found := map[share.ID]bool{}
	count := func(d *depot) {
		if o := d.holds[w.Share]; o != nil && o.State == Stable {
			found[w.Share] = true
		}
		for _, o := range d.versions[w.ID] {
			if o.State == Stable && w.after(o.Share, h.Share) {
				found[o.Share] = true
			}
		}
	}
	count(s.depots[h.Depot])
	if !chosen {
		for _, id := range w.At {
			count(s.depots[id])
		}
	}
	return len(found)
}

// after reports whether a share became that of a Want after another.
func (w *Want) after(x, y share.ID) bool {
	return y != w.Share && (x == w.Share || slices.Index(w.Was, x) > slices.Index(w.Was, y))
}

// onlyThere reports whether a depot that a Want has left has an earlier version that no chosen depot has, and that none can get any more.
func (s *Service) onlyThere(w *Want, h *Hold) bool {
	return slices.Contains(w.Depots, h.Depot) && !slices.ContainsFunc(w.At, func(id peers.ID) bool {
		o := s.depots[id].holds[h.Share]
		return o != nil && o.State == Stable
	})
}

// enter adds a hold.
func (d *depot) enter(h *Hold) {
	d.holds[h.Share] = h
	d.file(h)
}

// file notes for which wants a hold is.
func (d *depot) file(h *Hold) {
	for _, id := range append(slices.Clone(h.Also), h.Want) {
		if !slices.Contains(d.versions[id], h) {
			d.versions[id] = append(d.versions[id], h)
		}
	}
}

// drop forgets a hold.
func (d *depot) drop(x share.ID) {
	h := d.holds[x]
	delete(d.holds, x)
	for _, id := range append(slices.Clone(h.Also), h.Want) {
		if d.versions[id] = slices.DeleteFunc(d.versions[id], func(o *Hold) bool { return o == h }); len(d.versions[id]) == 0 {
			delete(d.versions, id)
		}
	}
}
