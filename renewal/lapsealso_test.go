package renewal

import (
	"testing"

	"github.com/piecelease/fetcher/peers"
)

// Whoever has a share kept no more at all ends also what was to lapse, at whatever depot.
func TestWhatIsToLapseIsReleasedWithWhatIsKeptElsewhere(t *testing.T) {
	d := newDesk(t)
	x := shareID(1)
	for id, at := range map[int64]peers.ID{1: "a", 2: "b"} {
		d.s.Want(Want{ID: id, Share: x, Bytes: 9, Depots: []peers.ID{at}}, d.now)
	}
	d.visits()
	d.arrive("a", x)
	d.arrive("b", x)
	d.s.Lapse(1, d.now)
	d.visits()
	d.expect(x, "a", "b")
	d.s.DropShare(x, "", d.now)
	d.visits()
	d.expect(x)
	if h := d.s.Holds(d.now); len(h) > 0 {
		t.Errorf("%+v", h)
	}
}
