package actors

import (
	"errors"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/wire"
)

// A kill after the depot has answered, and before the book is written: what was paid counts in the month all the same, and once.
func TestAPaymentBeforeAKillBetweenTwoWritesCountsInTheBudget(t *testing.T) {
	h := newHeld(t, nil)
	granted, paid, killed := h.answer, int64(0), errors.New("killed")
	h.answer = func(id peers.ID, q any) any {
		switch m := q.(type) {
		case wire.Hold:
			if paid == 0 {
				return wire.Held{Share: m.Share, Refused: uint8(depot.Unpaid), Room: 1 << 10}
			}
			return nil
		case wire.Pay:
			paid = h.purse
			h.fault = killed // the purse enters the answer, and then nothing is written
			return wire.Paid{}
		}
		return granted(id, q)
	}
	h.s.Send(h.pid, SetBudget{Depot: "d", Units: 1500})
	h.keep(1, "d")
	if paid != 1<<10 {
		t.Fatal(paid)
	}
	h.fault, killed = nil, nil
	h.s.Send(h.pid, "panic") // it reads the book again
	h.w.Run(time.Second)
	var l HoldList
	h.s.Hear(h.pid, HoldsQuery{}, func(a any) { l, _ = a.(HoldList) })
	h.w.Run(time.Second)
	if want := (renewal.Budget{Units: 1500, Left: 1500 - 1<<10}); l.Budgets["d"] != want {
		t.Errorf("%d units were paid: %+v", paid, l.Budgets["d"])
	}
	if len(h.begun) > 0 {
		t.Errorf("it is sent again: %+v", h.begun)
	}
}
