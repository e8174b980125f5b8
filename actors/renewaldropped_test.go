package actors

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// What the owner has released before its depot heard of it is neither asked for nor paid.
func TestWhatIsReleasedDuringAVisitIsNotPaid(t *testing.T) {
	h := newHeld(t, nil)
	granted, dropped, asked, paid := h.answer, share.ID{}, 0, int64(0)
	h.answer = func(id peers.ID, q any) any {
		switch m := q.(type) {
		case wire.Hold:
			if dropped.IsZero() { // the first of two
				id := int64(1)
				if m.Share == share.IDOf([]byte{1}) {
					id = 2
				}
				dropped = share.IDOf([]byte{byte(id)})
				h.s.Send(h.pid, DropHold{Want: id})
			}
			if m.Share != dropped {
				break
			}
			if asked++; paid == 0 {
				return wire.Held{Share: m.Share, Refused: uint8(depot.Unpaid), Room: 1 << 10}
			}
		case wire.Pay:
			paid += h.purse
			return wire.Paid{}
		}
		return granted(id, q)
	}
	for id := range int64(2) {
		h.s.Send(h.pid, KeepHold{Want: renewal.Want{ID: id + 1, Share: share.IDOf([]byte{byte(id + 1)}), Bytes: 1 << 30, Depots: []peers.ID{"d"}}, Depots: []peers.Addr{{ID: "d"}}})
	}
	h.w.Run(time.Minute)
	if paid > 0 || asked > 0 {
		t.Errorf("what was released is asked for %d times, and %d units are paid for it", asked, paid)
	}
}
