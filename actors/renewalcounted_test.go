package actors

import (
	"errors"
	"testing"
	"time"
)

// A kill after the depot has answered, and before the book is written: what was paid counts in the month all the same, and once.
func TestAPaymentBeforeAKillBetweenTwoWritesCountsInTheBudget(t *testing.T) {
	h := newHeld(t, nil)
	killed := errors.New("killed")
	payOnce(t, h, func() { h.fault = killed }) // the purse enters the answer, and then nothing is written
	h.fault, killed = nil, nil
	h.s.Send(h.pid, "panic") // it reads the book again
	h.w.Run(time.Second)
	spentOnce(t, h)
	if len(h.begun) > 0 {
		t.Errorf("it is sent again: %+v", h.begun)
	}
}
