package simnet

import (
	"testing"
	"time"
)

// A node that stops waits for the replies that it is sending, and neither for those of other
// nodes nor for one that its child does not want any more.
func TestWhoLeavesWaitsForItsOwnRepliesAlone(t *testing.T) {
	slow := Line{Up: 0.2 * Mbit, Down: 0.2 * Mbit, Latency: 20 * time.Millisecond}
	for name, leaves := range map[string]bool{"whose child leaves as well": true, "that serves nobody": false} {
		var gone time.Duration
		s := &Scenario{Name: "leaving", Set: func(r *Run) {
			c := r.File("film", 1<<20)
			source := r.Add(NodeConfig{Name: "source", Line: slow}).Seed(c)
			x := source
			if !leaves {
				x = r.Add(NodeConfig{Name: "idle"})
			}
			x.cfg.Closed = func() { gone = r.Elapsed() }
			f := r.Add(NodeConfig{Name: "node"}).Fetch(c, source)
			r.After(4*time.Second, x.Stop)
			if leaves {
				r.After(5*time.Second, f.Stop)
			}
			r.AtLeast(12 * time.Second)
			r.Patience(-1)
		}}
		s.Run(1, 0)
		if gone < 4*time.Second || gone > 6*time.Second {
			t.Errorf("a node %s was told to leave after 4 s, and was gone after %v", name, gone)
		}
	}
}
