package actors

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/wire"
)

// What was paid in a visit that a crash ends counts in the month, and no more is paid than the budget.
func TestAPaymentBeforeACrashCountsInTheBudget(t *testing.T) {
	h := newHeld(t, nil)
	payOnce(t, h, func() {})
	h.s.Send(h.pid, "panic")
	h.w.Run(time.Second)
	spentOnce(t, h)
}

// payOnce has depot d ask for 1,024 units of a budget of 1,500, and answer no request for a lease any more once they are paid. then is
// called with the payment.
func payOnce(t *testing.T, h *heldWorld, then func()) {
	t.Helper()
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
			then()
			return wire.Paid{}
		}
		return granted(id, q)
	}
	h.s.Send(h.pid, SetBudget{Depot: "d", Units: 1500})
	h.keep(1, "d")
	if paid != 1<<10 {
		t.Fatal(paid)
	}
}

// spentOnce fails unless the payment of payOnce is what was spent of the budget.
func spentOnce(t *testing.T, h *heldWorld) {
	t.Helper()
	var l HoldList
	h.s.Hear(h.pid, HoldsQuery{}, func(a any) { l, _ = a.(HoldList) })
	h.w.Run(time.Second)
	if want := (renewal.Budget{Units: 1500, Left: 1500 - 1<<10}); l.Budgets["d"] != want {
		t.Errorf("of the budget there is left: %+v", l.Budgets["d"])
	}
}
