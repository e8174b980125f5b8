package scenarios

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/simnet"
)

// TestThousandNodes spreads a share over a thousand whole nodes, of which some are
// killed and come back, with SIM_LARGE=1; without, over fewer.
func TestThousandNodes(t *testing.T) {
	nodes := rig.Most(60, 20)
	if os.Getenv("SIM_LARGE") != "" {
		nodes = 1000
	}
	began := time.Now()
	r := large.Run(1, nodes)
	if !r.OK() {
		t.Error(r.Report())
	}
	if r.Copies > 3 {
		t.Errorf("the source sent %.2f copies", r.Copies)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	whole := 0
	for _, x := range r.Net.Nodes() {
		for _, f := range x.Fetches() {
			if done, err := f.Done(); done && err == nil {
				whole++
			}
		}
	}
	t.Logf("%d nodes, %d whole: %v virtual in %v, %d million steps, %.2f copies from the source, %d MiB of memory from the system",
		r.Nodes, whole, r.Virtual.Round(time.Second), time.Since(began).Round(time.Second/10), r.Steps/1e6, r.Copies, m.Sys>>20)
}

// large is a crowd in which nobody knows more than a few others.
var large = &simnet.Scenario{
	Name:  "large",
	Says:  "A share spreads over a thousand nodes, of which every twentieth is killed and comes back.",
	Nodes: 1000,
	Set: func(r *simnet.Run) {
		c := r.Folder("pictures", 16, 64<<10)
		rng := r.Rand("large")
		nodes := []*simnet.Node{r.Add(simnet.NodeConfig{Name: "source", Line: even(100*simnet.Mbit, 10*time.Millisecond)}).Seed(c)}
		cfg := actors.TransferConfig{Verifiers: 1, MaxSources: 6, Stall: time.Hour}
		for i := range r.Nodes {
			x := r.Add(simnet.NodeConfig{Name: fmt.Sprint("node", i), Line: simnet.Line{Up: 20 * simnet.Mbit, Down: 50 * simnet.Mbit, Latency: time.Duration(5+rng.IntN(60)) * time.Millisecond}})
			from := []*simnet.Node{nodes[rng.IntN(len(nodes))], nodes[rng.IntN(len(nodes))], nodes[0]}
			at := time.Duration(i) * 20 * time.Millisecond
			r.After(at, func() { x.FetchWith(c, simnet.FetchOptions{Config: cfg}, from...) })
			if i%20 == 7 {
				r.After(at+time.Duration(200+rng.IntN(2000))*time.Millisecond, x.Kill)
				r.After(at+time.Duration(2500+rng.IntN(3000))*time.Millisecond, x.Start)
			}
			nodes = append(nodes, x)
		}
		r.AtLeast(time.Duration(r.Nodes)*20*time.Millisecond + 5500*time.Millisecond) // then all have come back
		r.Patience(45 * time.Second)
	},
}
