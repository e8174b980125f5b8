package actors

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/wire"
)

// A payment that the purse enters while the book is read again, after a fault, counts.
func TestAPaymentThatEndsWhileTheBookIsReadCounts(t *testing.T) {
	h := newHeld(t, nil)
	granted, paid := h.answer, int64(0)
	h.answer = func(id peers.ID, q any) any {
		switch m := q.(type) {
		case wire.Hold:
			if paid == 0 {
				return wire.Held{Share: m.Share, Refused: uint8(depot.Unpaid), Room: 1 << 10}
			}
			return nil
		case wire.Pay:
			paid = h.purse
			h.w.TaskDelay = func(*rand.Rand) time.Duration { return 10 * time.Second } // until the wallet is written
			return wire.Paid{}
		}
		return granted(id, q)
	}
	h.s.Send(h.pid, SetBudget{Depot: "d", Units: 1500})
	h.keep(1, "d")
	if paid != 1<<10 {
		t.Fatal(paid)
	}
	h.w.TaskDelay = func(*rand.Rand) time.Duration { return 20 * time.Second }
	h.s.Send(h.pid, "panic")
	h.w.Run(time.Minute)
	if a := h.r.core.Account("d"); a.Spent != 1<<10 || a.Credit != renewal.Paid(1<<10) {
		t.Errorf("%d units were paid: %+v", paid, a)
	}
}
