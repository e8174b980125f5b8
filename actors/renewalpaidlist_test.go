package actors

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

// A depot that answers the question what it keeps as if that were a payment has not done what the visit was for, and is visited again.
func TestADepotThatDoesNotSayWhatItKeepsIsVisitedAgain(t *testing.T) {
	h := newHeld(t, nil)
	granted, asked := h.answer, 0
	h.answer = func(id peers.ID, q any) any {
		if _, ok := q.(wire.Holdings); ok {
			asked++
			return wire.Paid{Refused: 1}
		}
		return granted(id, q)
	}
	h.keep(1, "d")
	h.w.Run(24 * time.Hour)
	if a := h.r.core.Account("d"); a.Failed == 0 || asked < 2 {
		t.Errorf("it was asked %d times in a day: %+v", asked, a)
	}
}
