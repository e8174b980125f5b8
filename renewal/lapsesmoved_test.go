package renewal

import (
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// One of two depots is to keep a share for a fleet; it was away, and the other is still fetching the share. A later request for the fleet fails, so that
// what was wanted lapses and is wanted anew as it was before. The first depot, which answers again when its lease nearly ends, still has the only whole
// copy, and keeps it.
func TestTheOnlyCopyIsMovedBackAlsoIfItsWantLapsedAndIsWantedAnew(t *testing.T) {
	t.Parallel()
	for what, lapses := range map[string]bool{"wanted all the time": false, "wanted anew": true} {
		s, x := New(Config{}, 1), shareID(1)
		s.Want(Want{ID: 1, Share: x, Bytes: 1, Fleet: true, Copies: 1, Depots: []peers.ID{"old", "new"}}, epoch)
		s.Due(epoch)
		s.Visited("old", nil, epoch)
		s.Renewed("old", Heard{Share: x, State: Stable, Bytes: 1, Left: 31 * day, Added: 31 * day}, epoch)
		now := s.Wake()
		for ; !slices.Contains(s.Due(now), "new"); now = s.Wake() {
			s.Failed("old", "it does not answer", now)
		}
		s.Failed("old", "it does not answer", now)
		s.Visited("new", nil, now)
		s.Renewed("new", Heard{Share: x, State: Coming, Bytes: 1, Left: 31 * day, Added: 31 * day}, now)
		if lapses {
			w := s.Wants()[0]
			s.Lapse(1, now)
			w.ID = s.NextID()
			s.Want(w, now)
		}
		var tasks []Task
		for now = epoch.Add(30 * day); now.Before(epoch.Add(30*day + time.Minute)); now = now.Add(30 * time.Second) { // what a visit decides the next does
			s.Hurry("old", now)
			s.Due(now)
			tasks = s.Visited("old", []Heard{{Share: x, State: Stable, Bytes: 1, Left: day}}, now)
		}
		if len(tasks) != 1 || tasks[0].Verb != Renew {
			t.Errorf("%s: at the depot with the only copy, a day before that ends, this is to be done: %+v", what, tasks)
		}
	}
}
