package actors

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/piecelease/fetcher/renewal"
)

// A payment that the purse enters while the book is read again, after a fault, counts.
func TestAPaymentThatEndsWhileTheBookIsReadCounts(t *testing.T) {
	h := newHeld(t, nil)
	payOnce(t, h, func() {
		h.w.TaskDelay = func(*rand.Rand) time.Duration { return 10 * time.Second } // until the wallet is written
	})
	h.w.TaskDelay = func(*rand.Rand) time.Duration { return 20 * time.Second }
	h.s.Send(h.pid, "panic")
	h.w.Run(time.Minute)
	if a := h.r.core.Account("d"); a.Spent != 1<<10 || a.Credit != renewal.Paid(1<<10) {
		t.Errorf("the account is %+v", a)
	}
}
