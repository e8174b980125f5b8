package renewal

import (
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// What a depot kept only until another has the share is released at once when that has it, and not when the depot would be visited anyway.
func TestWhatWasReplacedIsReleasedAtOnce(t *testing.T) {
	t.Parallel()
	s, x := New(Config{}, 1), shareID(1)
	for _, id := range []peers.ID{"old", "new"} {
		hold(s, Hold{Key: Key{id, x}, Want: 1, Bytes: 1, Expires: epoch.Add(30 * day), State: Coming}, epoch)
	}
	s.Want(Want{ID: 1, Share: x, Bytes: 1, Depots: []peers.ID{"new"}}, epoch)
	now := epoch.Add(time.Second)
	visit := func(id peers.ID, is State) []Task {
		t.Helper()
		s.Hurry(id, now)
		s.Due(now)
		tasks := s.Visited(id, []Heard{{Share: x, State: is, Bytes: 1, Left: 30 * day}}, now)
		return tasks
	}
	if tasks := visit("old", Coming); len(tasks) > 0 {
		t.Fatalf("nobody else has it, and this is to be done: %+v", tasks)
	}
	visit("new", Stable)
	if due := s.Due(now.Add(time.Second)); !slices.Contains(due, "old") {
		t.Errorf("these are due when another depot has it: %v", due)
	}
}
