package actors

import (
	"errors"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

// A depot that was paid, and says so again whatever it is asked, is not asked without end, also while the book cannot be written.
func TestADepotThatSaysAgainThatItWasPaidIsNotAskedWithoutEnd(t *testing.T) {
	h := newHeld(t, nil)
	granted, offers, payment := h.answer, 0, wire.Paid{}
	h.answer = func(id peers.ID, q any) any {
		switch m := q.(type) {
		case wire.Hold:
			if offers++; offers == 1 {
				return wire.Held{Share: m.Share, Refused: uint8(depot.Unpaid), Room: 1 << 10}
			}
			return payment
		case wire.Pay:
			payment.ID = m.ID
			h.fault = errors.New("a full disk")
			return wire.Paid{}
		}
		return granted(id, q)
	}
	h.keep(1, "d")
	if h.w.Run(time.Minute); offers > maxPaysPerTask {
		t.Errorf("it was asked %d times within a minute for one lease", offers)
	}
}
