package renewal

import (
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// A depot that answers again when its lease nearly ends gets a share back, or has it on a lease that lapses. Another request of the owner for the share
// has never chosen it, and another depot is fetching the share for that, or has it: it stays there, and its copy is not released.
func TestWhatADepotGetsBackTakesNoCopyFromAnotherRequest(t *testing.T) {
	t.Parallel()
	for what, lapses := range map[string]bool{"moved": false, "lapses": true} {
		d := newDesk(t)
		x := shareID(1)
		d.s.Want(Want{ID: 1, Share: x, Bytes: 9, Depots: []peers.ID{"a", "b"}, Copies: 1}, d.now)
		d.visits()
		d.arrive("a", x)
		d.pass(time.Hour)
		d.away["a"] = true
		for !slices.Contains(d.s.At(1), "b") {
			d.pass(time.Hour)
		}
		w := Want{ID: 2, Share: x, Bytes: 9, Depots: []peers.ID{"c", "a"}, Copies: 1}
		if lapses { // one of two copies is whole already
			w = Want{ID: 2, Share: x, Bytes: 9, Depots: []peers.ID{"c", "b", "a"}, Copies: 2}
		}
		d.s.Want(w, d.now)
		d.visits()
		if lapses {
			d.arrive("c", x)
			d.s.Lapse(1, d.now)
			d.visits()
		}
		for d.has[Key{"a", x}].Left > day {
			d.pass(time.Hour)
		}
		at := d.s.At(2)
		d.away["a"], d.did = false, nil
		d.s.Hurry("a", d.now)
		d.visits()
		if !slices.Equal(d.s.At(2), at) {
			t.Errorf("%s: what was to be kept at %v is to be at %v; at the depots was done %v", what, at, d.s.At(2), d.did)
		}
	}
}
