package renewal

import (
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// What a depot kept only until another has the next version of the share is released at once when that has it, as what was replaced by the same version is.
func TestWhatWasReplacedElsewhereByTheNextVersionIsReleasedAtOnce(t *testing.T) {
	t.Parallel()
	s, x, y := New(Config{}, 1), shareID(1), shareID(2)
	hold(s, Hold{Key: Key{"old", x}, Bytes: 1, Expires: epoch.Add(30 * day), State: Stable}, epoch)
	s.Want(Want{ID: 1, Share: y, Bytes: 1, Copies: 1, Depots: []peers.ID{"old", "new"}, At: []peers.ID{"new"}}, epoch)
	now := epoch.Add(time.Second)
	visit := func(id peers.ID, said Heard) []Task {
		s.Hurry(id, now)
		s.Due(now)
		return s.Visited(id, []Heard{said}, now)
	}
	if tasks := visit("old", Heard{Share: x, State: Stable, Bytes: 1, Left: 30 * day}); len(tasks) > 0 {
		t.Fatalf("the other has nothing yet, and this is to be done: %+v", tasks)
	}
	visit("new", Heard{Share: y, State: Stable, Bytes: 1, Left: 30 * day})
	if due := s.Due(now.Add(time.Second)); !slices.Contains(due, "old") {
		t.Errorf("these are due when the other depot has the next version: %v", due)
	}
}
