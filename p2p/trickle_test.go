package p2p

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/piecelease/fetcher/wire"
)

// trickle is a stream whose reader takes a byte in each second.
type trickle struct {
	network.Stream
	until time.Time
}

func (s *trickle) SetWriteDeadline(t time.Time) error { s.until = t; return nil }
func (s *trickle) Write(b []byte) (n int, err error) {
	for ; n < len(b); n++ {
		if left := time.Until(s.until); left < time.Second {
			time.Sleep(left)
			return n, os.ErrDeadlineExceeded
		}
		time.Sleep(time.Second)
	}
	return n, nil
}

// A child takes a byte of its reply each second, which is cheaper for it than to take the reply. It holds a slot, and memory, no longer
// than one that takes nothing: a run would take it three days, and as many children as have all slots have nobody else served.
func TestAChildThatTakesNextToNothingLosesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counted{Stream: &trickle{}, all: &counters{}, peer: &traffic{}}
		parked := false
		over := make(chan struct{})
		go func() {
			defer close(over)
			writePatiently(s, make([]byte, wire.MaxRun), defaultTimeouts.Stall, defaultTimeouts.Park, func(int) { parked = true })
		}()
		select {
		case <-over:
		case <-time.After(10 * time.Minute):
			if !parked {
				t.Error("it has its turn for 10 minutes, in which it took 600 bytes")
			}
			<-over
		}
	})
}
