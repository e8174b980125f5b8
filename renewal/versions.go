package renewal

import (
	"slices"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// DropVersion ends a version of a share that depots keep beside a later one, at all depots or at one. The latest that a depot
// has whole stays.
func (s *Service) DropVersion(x share.ID, at peers.ID, now time.Time) {
	for id, d := range s.depots {
		h := d.holds[x]
		if h == nil || at != "" && id != at || s.needs(h) != nil || slices.ContainsFunc(s.owners(h), func(w *Want) bool { return s.newer(w, h, true) == 0 }) {
			continue
		}
		d.drop(x)
		h.Want, h.Also = 0, nil
		d.enter(h)
		s.Hurry(id, now)
	}
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
			if o.State == Stable && o.Since.After(h.Since) {
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

// since is when a version of a Want is entered: after those before it, also if the clock was set back.
func (d *depot) since(want int64, now time.Time) time.Time {
	for _, h := range d.versions[want] {
		if !now.After(h.Since) {
			now = h.Since.Add(1)
		}
	}
	return now
}
