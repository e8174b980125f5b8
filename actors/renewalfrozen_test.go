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

// A depot that does not trust its clock stands still for leases, and what it is asked for is longer by what a visit takes. It asks for what that
// costs, and is paid.
func TestADepotWhoseClockStandsIsPaid(t *testing.T) {
	h := newHeld(t, nil)
	at, credit := h.s.Wall().Unix(), renewal.Credit(0)
	h.answer = func(id peers.ID, q any) any {
		switch m := q.(type) {
		case wire.Hold:
			missing, left := renewal.Cost(m.Bytes, time.Duration(m.Until-at)*time.Second, credit)
			if missing > 0 {
				return wire.Held{Share: m.Share, At: at, Refused: uint8(depot.Unpaid), Room: missing}
			}
			credit = left
			return wire.Held{Share: m.Share, At: at, State: uint8(depot.Stable), Bytes: m.Bytes, Expires: m.Until, Added: m.Until - at}
		case wire.Pay:
			credit += renewal.Paid(h.purse)
			h.w.After(2*time.Second, func() { h.s.Send(h.pid, DepotAnswer{Depot: id, Answer: wire.Paid{ID: m.ID}}) })
			return nil
		}
		return wire.HoldingsPage{At: at}
	}
	h.keep(1, "d")
	h.w.Run(time.Minute)
	if why := h.r.errs[renewal.Key{Depot: "d", Share: share.IDOf([]byte{1})}].err; why != nil || credit >= renewal.Paid(1) {
		t.Errorf("%d units were paid and are not used: %v", credit/renewal.Paid(1), why)
	}
}
