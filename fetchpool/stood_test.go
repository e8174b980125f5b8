package fetchpool

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// Whether a source was connected when its link was lost is known from what ended the link.
func TestWhetherALostSourceWasConnected(t *testing.T) {
	for name, c := range map[string]struct {
		lose func(h *hand)
		want bool
	}{
		"its stream ended":        {func(h *hand) { h.p.Lost(fmt.Errorf("closed: %w", peers.ErrStream), h.now) }, true},
		"its connection did":      {func(h *hand) { h.p.Lost(fmt.Errorf("closed: %w", peers.ErrLost), h.now) }, false},
		"it cannot be reached":    {func(h *hand) { h.p.Lost(errors.New("refused"), h.now) }, false},
		"it owes and is silent":   {func(h *hand) { h.grant(0); h.after(time.Minute) }, true},
		"another works meanwhile": {func(h *hand) { h.p.Lost(peers.ErrStream, h.now); h.after(time.Minute); h.p.Lost(peers.ErrLost, h.now) }, false},
	} {
		h := ready(t, Config{}, 8<<20)
		c.lose(h)
		h.next()
		if h.p.Stood() != c.want || h.p.LastLoss() == "" {
			t.Errorf("%s: it is said that it was connected: %v, lost: %q", name, h.p.Stood(), h.p.LastLoss())
		}
	}
	h := byHand(t, Config{}, 1)
	h.next()
	h.p.Opened(time.Millisecond, h.now)
	h.next()
	h.after(time.Minute)
	if !h.p.Stood() {
		t.Error("it was connected, and did not answer the subscription")
	}
}

func TestASourceIsBusyUntilItSends(t *testing.T) {
	h := ready(t, Config{}, 8<<20)
	todo := h.grant(0)
	if h.p.Busy() {
		t.Error("it is said to be busy before it says so")
	}
	h.p.Failed(todo.Requests[0].ID, Busy, 0, h.now)
	for range 3 {
		if h.after(time.Second); !h.p.Busy() {
			t.Error("it is no longer busy, and has sent nothing")
		}
	}
	requests := todo.Requests[1:]
	for range 10 {
		for _, r := range requests {
			h.p.Arrived(r.ID, r.Bytes, h.now)
			h.p.Finished(r.ID, h.now)
		}
		requests = h.after(time.Second).Requests
	}
	if h.p.Busy() {
		t.Error("it is said to be busy, and sends")
	}
}
