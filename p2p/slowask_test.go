package p2p

import (
	"io"
	"testing"
	"time"

	"github.com/piecelease/fetcher/wire"
)

// A frame has ten seconds from its first byte, and a stream on which nothing was asked for ten minutes.
func TestAnAskerMayTakeItsTimeBeforeItAsks(t *testing.T) {
	x := newMemory(t, 1<<20)
	inBubble(t, func(t *testing.T, n *packets) {
		src, h := n.two(t, Config{}, Config{})
		src.Serve(toAll(x), everybody{})
		for _, protocol := range []string{wire.PieceProtocol, wire.ManifestProtocol} {
			s := rawStream(t, h, src, protocol)
			s.Read(nil) // negotiates
			time.Sleep(2 * defaultTimeouts.Request)
			if protocol == wire.PieceProtocol {
				askFor(s, x, 1, 0)
			} else {
				s.Write(wire.AppendFrame(nil, wire.AppendManifestRequest(nil, wire.ManifestRequest{Share: x.m.ID()})))
			}
			s.CloseWrite()
			if b, err := io.ReadAll(s); err != nil || len(b) == 0 {
				t.Errorf("%s: %d bytes, %v", protocol, len(b), err)
			}
		}
	})
}
