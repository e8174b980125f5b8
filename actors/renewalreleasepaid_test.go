package actors

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// The end of a lease costs nothing, whatever a depot says.
func TestNothingIsPaidForARelease(t *testing.T) {
	h := newHeld(t, nil)
	granted, held, paid := h.answer, false, int64(0)
	h.answer = func(id peers.ID, q any) any {
		at := h.s.Wall().Unix()
		switch m := q.(type) {
		case wire.Hold:
			held = true
		case wire.Holdings:
			if held {
				return wire.HoldingsPage{At: at, Items: []wire.Holding{{Share: share.IDOf([]byte{1}), State: uint8(depot.Stable), Bytes: 1 << 30, Expires: at + 30*86400}}}
			}
		case wire.Release:
			return wire.Held{Share: m.Share, At: at, Refused: uint8(depot.Unpaid), Room: 1 << 10}
		case wire.Pay:
			paid += h.purse
			return wire.Paid{}
		}
		return granted(id, q)
	}
	h.keep(1, "d")
	h.s.Send(h.pid, DropHold{Want: 1})
	h.w.Run(time.Hour)
	if paid > 0 {
		t.Errorf("%d units were paid to end a lease", paid)
	}
}
