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

// A payment for a large lease that a depot does not answer, and takes when it is to be paid for a small one, counts for the large one:
// for that it is not paid again and again.
func TestAPaymentCountsForTheLeaseForWhichItWasBegun(t *testing.T) {
	h := newHeld(t, nil)
	granted, large, taken, paid := h.answer, share.IDOf([]byte{1}), false, int64(0)
	h.answer = func(id peers.ID, q any) any {
		switch m := q.(type) {
		case wire.Hold:
			taken = m.Share != large
			if taken {
				return wire.Held{Share: m.Share, Refused: uint8(depot.Unpaid), Room: 1}
			}
			return wire.Held{Share: m.Share, Refused: uint8(depot.Unpaid), Room: 1 << 10}
		case wire.Pay:
			if !taken {
				return wire.Paid{Refused: uint8(depot.Away)}
			}
			paid += h.purse
			return wire.Paid{}
		}
		return granted(id, q)
	}
	h.keep(1, "d")
	for id := range int64(9) {
		small := renewal.Want{ID: id + 2, Share: share.IDOf([]byte{byte(id + 2)}), Bytes: 9 << 20, Depots: []peers.ID{"d"}}
		h.s.Send(h.pid, KeepHold{Want: small, Depots: []peers.Addr{{ID: "d"}}})
	}
	const days = 31
	h.w.Run(days * 24 * time.Hour)
	if most := int64(1<<10+9*9) * (days/31 + 4); paid > most || paid < 1<<10 {
		t.Errorf("%d units in %d days, %d are the most", paid, days, most)
	}
	for _, x := range h.r.core.Holds(h.s.Wall()) {
		if x.Share != large && x.Cost > 9*(days/31+4) {
			t.Errorf("for a lease of 9 units %d are said to have been paid", x.Cost)
		}
	}
}
