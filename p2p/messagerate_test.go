package p2p

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

// A second stream replaces the first, and is read no faster: otherwise a peer that opens one after the other would be
// read as fast as it likes. Nor is one message of each stream free.
func TestMessagesOfOnePeerAreReadAtARateOverAllItsStreams(t *testing.T) {
	inBubble(t, func(t *testing.T, n *packets) {
		a, b := n.two(t, Config{}, Config{MessageRate: 1 << 20})
		var got atomic.Int64
		b.OnMessages(func(_ peers.ID, frame []byte) { got.Add(minMessage) }, func(peers.ID) {})
		start := time.Now()
		for range 100 {
			s := rawStream(t, a, b, wire.MessageProtocol)
			for range 64 { // more than may come while it is open
				s.Write(wire.AppendFrame(nil, nil))
			}
			time.Sleep(10 * time.Millisecond)
			s.Reset()
		}
		if d := time.Since(start); got.Load() > 1<<20+int64(d.Seconds()*(1<<20))+minMessage {
			t.Errorf("%d bytes of messages were read in %v, at a rate of 1 MiB/s after a burst of 1 MiB", got.Load(), d)
		}
	})
}
