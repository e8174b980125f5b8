package scenarios

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/simnet"
)

// tried runs a scenario once, and fails if it does not end well.
func tried(t *testing.T, s *simnet.Scenario, seed uint64, nodes int) {
	t.Helper()
	r := s.Run(seed, nodes)
	if !r.OK() {
		t.Error(r.Report())
	}
	before, _, _ := strings.Cut(r.Timeline.All(), " copies entered the fleet")
	t.Logf("%s, seed %d, %d nodes: %v virtual, %s copies entered, %d thousand steps", s.Name, seed, nodes, r.Virtual, before[strings.LastIndexByte(before, ' ')+1:], r.Steps/1000)
}

// TestEveryWayOfBeingCutOff is the table of all combinations in which three members
// cannot reach the store or each other; without SIM_SEEDS every seventh of them.
func TestEveryWayOfBeingCutOff(t *testing.T) {
	rig.OneGoroutine(t)
	t.Parallel()
	all, step := everyCut(), 28/rig.Most(4, 1)
	if os.Getenv("SIM_SEEDS") != "" {
		step = 1
	}
	for i := 0; i < len(all); i += step {
		tried(t, all[i], 1, 0)
	}
}

// TestFleetsOfAllSizes has three members, and with SIM_LARGE=1, as in CI, also 30 and 60: 1.02 copies enter.
// FLEET_NODES, FLEET_SEEDS and SIM_FROM say otherwise: FLEET_NODES=300 takes five minutes of CPU a seed. The share is 24 MiB in
// 384 pieces, of which those killed lose up to six, 0.016; what is told to each member adds to that, so more than 60 fetch 48 MiB.
func TestFleetsOfAllSizes(t *testing.T) {
	rig.OneGoroutine(t)
	if os.Getenv("SIM_LARGE")+os.Getenv("FLEET_NODES")+os.Getenv("FLEET_SEEDS") == "" {
		rig.Slow(t)
	}
	t.Parallel()
	sizes, from, seeds := []int{3}, rig.Number("SIM_FROM", 1), rig.Number("FLEET_SEEDS", 1)
	if os.Getenv("SIM_LARGE") != "" {
		sizes = []int{3, 30, 60}
	}
	if n := rig.Number("FLEET_NODES", 0); n > 0 {
		sizes = []int{n}
	}
	for _, nodes := range sizes {
		for seed := range uint64(seeds) {
			s := *Find("election-fleet")
			pieces := 384
			if nodes > 60 {
				pieces = 768
			}
			s.Set = func(r *simnet.Run) { fleetOfMany(r, pieces, 1.02) }
			tried(t, &s, uint64(from)+seed, nodes)
		}
	}
}

// A bound on how long it takes until another coordinator is elected does not hold if there never is one.
func TestATakeoverThatNeverComesIsAFault(t *testing.T) {
	s := &simnet.Scenario{Name: "no takeover", Set: func(r *simnet.Run) {
		f := joined(r, 4, 3, 8*simnet.Mbit)
		r.After(2*time.Second, func() {
			x := f.store.Holder()
			f.store.Stop() // nobody can be elected
			x.Freeze()
			f.takeover(2*fleet.DefaultHeartbeat + time.Second)
			r.After(10*time.Second, x.Thaw)
			r.After(11*time.Second, f.store.Start)
		})
		f.copies(1.1)
	}}
	if r := s.Run(1, 0); r.OK() {
		t.Error("the coordinator stood still for ten seconds, nobody else was elected, and the scenario holds")
	}
}
