package scenarios

import (
	"fmt"
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/simnet"
)

// Sources that are slow and honest bring their blocks also where more of them are known than may be used at once.
func TestSlowSourcesBringTheirBlocksWhereMoreAreKnown(t *testing.T) {
	rig.OneGoroutine(t)
	for _, x := range []struct{ known, most, mib int }{{8, 8, 2}, {24, 8, 2}, {100, 64, 16}}[:rig.Most(3, 2)] {
		s := &simnet.Scenario{Name: "slow", Set: func(r *simnet.Run) {
			c := r.File("film", x.mib*mib)
			var from []*simnet.Node
			for i := range x.known {
				from = append(from, r.Add(simnet.NodeConfig{Name: fmt.Sprint("source", i), Line: even(simnet.Mbit/25, 15*time.Millisecond)}).Seed(c))
			}
			cfg := actors.TransferConfig{Verifiers: 2, MaxSources: x.most, Anonymous: true}
			r.Add(simnet.NodeConfig{Name: "node", Line: even(80*simnet.Mbit, 10*time.Millisecond)}).FetchWith(c, simnet.FetchOptions{Config: cfg, Manifest: true}, from...)
		}}
		if r := s.Run(1, 0); !r.OK() {
			t.Errorf("%d known, %d at once, %d MiB:\n%s", x.known, x.most, x.mib, r.Report())
		}
	}
}
