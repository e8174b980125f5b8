package scenarios

import (
	"fmt"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/simnet"
)

// slowTail is a fetch of 32 MiB from sources of 20 Mbit/s. When part of it is there, lines become slow.
func slowTail(t *testing.T, sources int, part float64, soon time.Duration, slow func(node *simnet.Node, from []*simnet.Node)) {
	t.Helper()
	rig.OneGoroutine(t)
	for seed := range uint64(2) {
		s := &simnet.Scenario{Name: "slow-tail", Set: func(r *simnet.Run) {
			c := r.File("film", 32*mib)
			var from []*simnet.Node
			for i := range sources {
				from = append(from, r.Add(simnet.NodeConfig{Name: fmt.Sprint("source", i), Line: even(20*simnet.Mbit, 20*time.Millisecond)}).Seed(c))
			}
			x := r.Add(simnet.NodeConfig{Name: "node"})
			f := x.FetchWith(c, simnet.FetchOptions{Config: patient()}, from...)
			var at time.Duration
			r.When(func() bool { return f.Part() >= part }, func() { at = r.Elapsed(); slow(x, from) })
			r.Finally(func() {
				copies := float64(x.Received()) / float64(c.Bytes())
				r.Expect(f.EndedAt()-at < soon && copies < 1.2, "the end took %v, and %.2f copies of the share came", f.EndedAt()-at, copies)
			})
		}}
		if r := s.Run(seed+1, 0); !r.OK() {
			t.Errorf("seed %d: %.200s", seed+1, r.Report())
		}
	}
}

// The line of the node itself becomes slow: no source is faster than the others, whatever was measured before.
func TestSlowLineOfItsOwnDoesNotKeepANodeFromTheEnd(t *testing.T) {
	for _, x := range []struct {
		sources int
		kB      float64       // a second, for all together
		soon    time.Duration // 1.6 MiB are missing
	}{{4, 96, 30 * time.Second}, {4, 192, 15 * time.Second}, {6, 144, 30 * time.Second}} {
		slowTail(t, x.sources, 0.95, x.soon, func(node *simnet.Node, _ []*simnet.Node) { node.SetLine(even(x.kB*1000, 20*time.Millisecond)) })
	}
}
