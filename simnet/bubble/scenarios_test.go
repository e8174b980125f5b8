package bubble

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/simnet"
	"github.com/piecelease/fetcher/simnet/scenarios"
)

// Besides `go test`, which runs two small scenarios on one seed:
//
//	SIM_S2=all      every scenario that whole nodes can play
//	SIM_S2=a,b      these
//	SIM_SEEDS=3     so many seeds of each
//	BUDGET=2m       after that, one
//	SIM_FROM=1000   the first seed; default 1
//	SIM_NODES=50    at most so many nodes, where a scenario has no fixed roles; default 12

// small are the scenarios of go test with LONG=1; without it, it plays the first two.
var small = []string{"one-source", "kills-at-rename", "far-and-lossy"}

func chosen(s *simnet.Scenario) bool {
	switch env := os.Getenv("SIM_S2"); env {
	case "":
		if !rig.Long() {
			return slices.Contains(small[:2], s.Name)
		}
		return slices.Contains(small, s.Name)
	case "all":
		return true
	default:
		return slices.Contains(strings.Split(env, ","), s.Name)
	}
}

func TestScenarios(t *testing.T) {
	var all tally
	t.Cleanup(func() { all.print(t) })
	for _, s := range scenarios.All() {
		if !chosen(s) {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			rig.Beside(t)
			from := rig.Number("SIM_FROM", 1)
			for seed := from; seed < from+rig.Number("SIM_SEEDS", 1) && (seed == from || rig.TimeLeft()); seed++ {
				began := time.Now()
				r := Run(t, s, uint64(seed), min(s.Nodes, rig.Number("SIM_NODES", 12)))
				all.add(r, time.Since(began))
			}
		})
	}
}

// tally is what was tried.
type tally struct {
	mu      sync.Mutex
	runs    int
	fetched int64
	virtual time.Duration
	took    map[string]time.Duration
}

func (a *tally) add(r *simnet.Result, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.took == nil {
		a.took = map[string]time.Duration{}
	}
	a.runs++
	a.fetched += r.Fetched
	a.virtual += r.Virtual
	a.took[r.Scenario] += took
}

func (a *tally) print(t *testing.T) {
	var names []string
	for name := range a.took {
		names = append(names, name)
	}
	slices.SortFunc(names, func(x, y string) int { return int(a.took[y] - a.took[x]) })
	var b strings.Builder
	fmt.Fprintf(&b, "S2: %d scenarios, %d runs, %.2f virtual hours, %.1f GB fetched; the slowest:", len(names), a.runs, a.virtual.Hours(), float64(a.fetched)/1e9)
	for _, name := range names[:min(8, len(names))] {
		fmt.Fprintf(&b, " %s %.1f s,", name, a.took[name].Seconds())
	}
	t.Log(strings.TrimSuffix(b.String(), ","))
}
