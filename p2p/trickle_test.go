package p2p

import (
	"cmp"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
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

// A child takes a byte of its reply each second, which is cheaper for it than to take the reply. It holds a slot no longer
// than one that takes nothing, and is not cut: a run would take it three days.
func TestAChildThatTakesNextToNothingLosesItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &counted{Stream: &trickle{}, all: &counters{}, peer: &traffic{}}
		var parked time.Duration
		began := time.Now()
		if err := writePatiently(s, make([]byte, 1000), defaultTimeouts.Stall, defaultTimeouts.Park, func(int) { parked = cmp.Or(parked, time.Since(began)) }); err != nil {
			t.Errorf("it was cut: %v", err)
		}
		if parked == 0 || parked > 2*defaultTimeouts.Park {
			t.Errorf("it lost its turn after %s", parked)
		}
	})
}
