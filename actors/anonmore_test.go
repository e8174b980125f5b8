package actors

import (
	"slices"
	"testing"
	"time"
)

// Who has served a part of a share on, and fetches the rest so that nobody is told of it, is named to nobody after that.
func TestWhoServesOnAndFetchesMoreAnonymouslyIsNotNamed(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testFolder(t, 1<<20, 1<<20)
	a := sw.add("a", 4e6).seed(m, content)
	n := sw.add("node", 1e6)
	n.fetchSome(m.ID(), TransferConfig{Keep: true}, firstFile, a)
	sw.run(time.Minute, n)
	n.end = nil
	n.fetchWith(m.ID(), TransferConfig{Keep: true, Anonymous: true}, a)
	sw.run(time.Minute, n)
	n.complete(content)
	sw.w.Run(time.Minute)
	if named := sw.named(a, m.ID()); slices.Contains(named, n.id) {
		t.Errorf("named are %v", named)
	}
}
