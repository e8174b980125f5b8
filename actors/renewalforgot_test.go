package actors

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/wire"
)

// fullPurse is one whose disk is full when payments are counted.
type fullPurse struct {
	*heldWorld
	full bool
}

func (p *fullPurse) Counted(ctx context.Context, payments [][wire.PaymentID]byte) error {
	if p.full {
		return errors.New("a full disk")
	}
	return p.heldWorld.Counted(ctx, payments)
}

// A payment that is counted, and that the wallet could not drop at once, is over also when its depot keeps nothing any more before the
// wallet is told again: it is not sent, and does not count once more, when that is to keep something later.
func TestAPaymentCountsOnceAlsoWhenItsDepotIsForgotten(t *testing.T) {
	h := newHeld(t, nil)
	p := &fullPurse{heldWorld: h, full: true}
	h.r.cfg.Purse = p
	granted, paid := h.answer, 0
	h.answer = func(id peers.ID, q any) any {
		switch m := q.(type) {
		case wire.Hold:
			if paid == 0 {
				return wire.Held{Share: m.Share, Refused: uint8(depot.Unpaid), Room: 1 << 10}
			}
		case wire.Pay:
			paid++
			return wire.Paid{}
		}
		return granted(id, q)
	}
	h.keep(1, "d")
	if paid != 1 || len(h.begun) != 1 {
		t.Fatal(paid, h.begun)
	}
	h.s.Send(h.pid, DropHold{Want: 1})
	h.w.Run(time.Minute)
	p.full = false
	h.w.Run(40 * 24 * time.Hour) // in another month
	h.s.Send(h.pid, SetBudget{Depot: "d", Units: 1500})
	h.keep(2, "d")
	h.w.Run(time.Minute)
	if paid > 1 || len(h.begun) > 0 {
		t.Errorf("it is sent %d times, and %d payments go on", paid, len(h.begun))
	}
	if b := h.r.core.Budgets(h.s.Wall())["d"]; b != (renewal.Budget{Units: 1500, Left: 1500}) {
		t.Errorf("nothing was paid in this month: %+v", b)
	}
}
