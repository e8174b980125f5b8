package actors

import (
	"testing"
	"time"
)

func TestPeersWhoseIDsEndAlikeAreSources(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 4<<20)
	a := sw.add("one-and-the-same-end", 4e6).seed(m, content)
	b := sw.add("two-and-the-same-end", 4e6).seed(m, content)
	n := sw.add("node", 1e6)
	n.fetch(m.ID(), a, b)
	sw.run(20*time.Second, n)
	n.complete(content)
}
