package renewal

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// What was to be released at a depot that has not answered since is released there, also if the rest of its Want lapses meanwhile, as it
// does when a later request for the fleet fails.
func TestWhatIsToBeReleasedDoesNotLapseWithTheRest(t *testing.T) {
	t.Parallel()
	s, x := New(Config{}, 1), shareID(1)
	for _, id := range []peers.ID{"away", "here"} {
		hold(s, Hold{Key: Key{id, x}, Want: 1, Bytes: 1, Expires: epoch.Add(300 * day), State: Stable}, epoch)
	}
	w := Want{ID: 1, Share: x, Bytes: 1, Fleet: true, Depots: []peers.ID{"away", "here"}}
	s.Want(w, epoch)
	s.DropShare(x, "away", epoch)
	s.Lapse(1, epoch)
	w.ID, w.Depots = s.NextID(), []peers.ID{"here"}
	s.Want(w, epoch)
	s.Hurry("away", epoch)
	s.Due(epoch)
	now := epoch.Add(time.Second)
	if tasks := s.Visited("away", []Heard{{Share: x, State: Stable, Bytes: 1, Left: 300 * day}}, now); len(tasks) != 1 || tasks[0].Verb != Release {
		t.Errorf("when the depot answers again, this is to be done: %+v", tasks)
	}
}
