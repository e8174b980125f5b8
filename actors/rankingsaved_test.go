package actors

import (
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// A ban that comes while an earlier one is being written outlives the node, though it ends before that is written.
func TestABanThatComesWhileTheRankingIsWrittenIsKept(t *testing.T) {
	sw := newSwarm(t, 1)
	var known []peers.ID
	n := sw.add("node", 1e6, func(d *Deps) {
		d.Remember = func(records []peers.Record) {
			known = nil
			for _, r := range records {
				if !r.Until.IsZero() {
					known = append(known, r.ID)
				}
			}
		}
	})
	sw.w.Settle()
	for _, liar := range []peers.ID{"a", "b"} { // the second while the first is being written
		n.program.s.Send(n.program.node, PeerLied{Peer: liar, Proof: true})
		sw.w.Run(time.Nanosecond)
	}
	closeNode(t, n.program.s)
	if want := []peers.ID{"a", "b"}; !slices.Equal(known, want) {
		t.Errorf("when the node has ended %v are remembered as banned, want %v", known, want)
	}
}
