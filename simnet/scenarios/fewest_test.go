package scenarios

import (
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
)

// A scenario refuses the numbers of nodes with which its story makes no sense, and holds with the fewest that it takes.
func TestScenariosHoldWithTheFewestNodes(t *testing.T) {
	rig.Slow(t)
	rig.OneGoroutine(t)
	for _, s := range All() {
		if s.Nodes == 0 || s.Fewest >= 2*fewNodes {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			for nodes := max(s.Fewest, 1); nodes <= min(max(s.Fewest, 1)+2, s.Nodes); nodes++ {
				for seed := range uint64(3) {
					if r := s.Run(1+seed, nodes); !r.OK() {
						t.Errorf("%d nodes, seed %d: %v", nodes, 1+seed, r.Faults[0])
						break
					}
				}
			}
		})
	}
}
