package actors

import (
	"fmt"
	"testing"
	"time"
)

// A fetch from one source that shares the limit of the node with one from many is slow, and is not given up because of that.
func TestAFetchThatSharesALowLimitIsNotGivenUp(t *testing.T) {
	sw := newSwarm(t, 1)
	big, bytes := testShare(t, 32<<20)
	small, content := testFolder(t, 60_000, 60_001, 60_002, 60_003)
	var many []*simNode
	for i := range 30 {
		many = append(many, sw.add(fmt.Sprint("source", i), 1e6).seed(big, bytes))
	}
	one := sw.add("one", 1e6).seed(small, content)
	n := sw.add("node", 1e6, func(d *Deps) { d.DownloadRate = 16 << 10 }) // a block each 4 s
	n.fetch(big.ID(), many...)
	sw.w.Run(10 * time.Second)
	n.fetch(small.ID(), one)
	sw.w.Run(3 * time.Minute)
	for _, e := range n.events {
		if e, ok := e.(Ended); ok && e.Err != nil {
			t.Errorf("a fetch that waits for nothing but its turn at the limit ends: %v", e.Err)
		}
	}
}
