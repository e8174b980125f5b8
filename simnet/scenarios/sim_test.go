package scenarios

import (
	"cmp"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/simnet"
)

// Besides `go test`, which runs every scenario but the dearest on one seed:
//
//	SIM_SEEDS=200   so many seeds of each scenario
//	SIM_SEEDS=ci    200 seeds up to 5 nodes, 50 up to 20 nodes, 10 above; but no more
//	                than take a million steps in all, though 6 at least; of depots
//	                100, and half a million steps
//	BUDGET=4m       after that, no more seeds of a scenario that was tried on 3
//	SIM_FROM=1000   the first seed; default 1
//	SIM_NODES=8     so many nodes, where a scenario has no fixed roles
//	SIM_LARGE=1     a thousand nodes in TestThousandNodes
//	SIM_PRINT=1     no test: print what a few runs do to the last detail, and exit
//
// With -v it prints what was tried, how long it took in virtual time, and what took
// longest.

func TestMain(m *testing.M) {
	system.Lean()
	if os.Getenv("GOGC") == "" { // a sixth of the time went into collections
		debug.SetGCPercent(400)
		debug.SetMemoryLimit(3 << 30)
	}
	if os.Getenv("SIM_PRINT") != "" {
		fmt.Print(detailed(os.Getenv("SIM_PRINT") == "few"))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// seedsFor returns how many seeds of a scenario, perhaps of depots, are tried if a run of it
// has that many nodes and steps.
func seedsFor(nodes int, steps uint64, depots bool) int {
	switch env := os.Getenv("SIM_SEEDS"); {
	case env == "ci" && depots:
		return int(max(fewSeeds, min(100, 500_000/max(1, steps)))) // their databases take time
	case env == "ci":
		return min(ciSeeds(nodes), int(max(fewSeeds, 1_000_000/max(1, steps))))
	case env != "":
		return rig.Number("SIM_SEEDS", 1)
	}
	return 1
}

// fewSeeds of each scenario are tried in CI, and leastSeeds however long that takes.
const fewSeeds, leastSeeds = 6, 3

// fewNodes are a crowd that does not take long; CI has larger ones.
const fewNodes = 10

// ciSeeds returns how many seeds of a scenario with that many nodes CI tries at most.
func ciSeeds(nodes int) int {
	switch {
	case nodes <= 5:
		return 200
	case nodes <= 20:
		return 50
	}
	return 10
}

// dear are scenarios that take more than four fifths of the time of all.
var dear = []string{"flood", "election-fleet", "rotten-swarm", "flash-crowd-leaving", "election-paused", "election-late-large",
	"crowd-free-riders", "rolling-partitions", "many-shares", "many-announcements", "flash-crowd", "one-owner", "source-leaves", "freezes", "rare-pieces",
	"asymmetric-cuts", "restarts", "crowd-one-by-one", "crowd-false-mirrors", "greedy-child", "two-offices", "sync-fails-upstream", "coordinator-found-again",
	"sources-slow-down", "lines-change", "three-offices", "fleet-holds", "fleet-troubles", "power-cuts", "wrong-places", "kills-lose-little",
	"election-upstart", "held-versions", "sources-take-turns", "election-sources", "election-store-away", "election-store-parted",
	"alone-and-joined", "bad-day", "asymmetric-lines", "partition-at-99", "missing-piece", "change-of-mind", "asleep-every-night", "short-queues", "busy-office",
	"withdrawn", "behind-nat", "whole-and-back", "churn-100", "held-folder-edited", "coordinator-cut-off", "database-lost", "reading-ahead",
	"disk-full-while-coming", "edited-partial", "member-slanders", "deaf-children", "election-found-late", "many-small-files", "two-faced",
	"coordinator-killed", "chain", "bit-rot-found-and-mended", "election-killed",
	"flapping-source", "mixed-speeds", "power-cuts-lose-little", "resets", "last-holder-stalls", "election-store-older", "election-parted",
	"election-late", "power-cuts-unsynced", "one-sync-fails", "election-leaves", "two-fetches", "election-takeover", "election-clock-ahead",
	"clocks-jump", "mute-sources", "stopped-and-resumed", "oversize-frames", "lying-beacon", "election-answers-lost", "clocks-drift", "disk-full",
	"all-withdrawn", "trickle", "pieces-lost", "lies-at-the-end", "inventions", "fleet-leaves", "disk-not-mounted"}

// TestScenarios runs scenarios side by side: no world knows of another.
func TestScenarios(t *testing.T) {
	var all tally
	t.Cleanup(func() { all.print(t) })
	for i, s := range All() {
		if rig.Raced && os.Getenv("SIM_SEEDS") == "" && i%8 != 0 {
			continue // a world is played by one goroutine at a time: a few show what worlds share
		}
		t.Run(s.Name, func(t *testing.T) {
			if os.Getenv("SIM_SEEDS") == "" && slices.Contains(dear, s.Name) {
				t.Skip("only with SIM_SEEDS, as in .ci/run")
			}
			t.Parallel()
			tried := line{name: s.Name}
			from, failed := rig.Number("SIM_FROM", 1), 0
			nodes := rig.Number("SIM_NODES", 0)
			if small := rig.Raced || os.Getenv("SIM_SEEDS") == ""; small && nodes == 0 && s.Nodes >= 2*fewNodes {
				nodes = max(fewNodes, s.Fewest)
			}
			for seed, last := from, from; seed <= last && (seed < from+leastSeeds || rig.TimeLeft()); seed++ {
				began := time.Now()
				r := s.Run(uint64(seed), nodes)
				tried.add(r, time.Since(began))
				last = from + seedsFor(r.Nodes, r.Steps, slices.Contains(keeping, s)) - 1
				if r.OK() {
					continue
				}
				if failed++; failed == 1 {
					t.Error(r.Report())
				} else if failed < 10 {
					t.Errorf("seed %d as well: %v", seed, r.Faults[0])
				}
			}
			all.add(tried)
		})
	}
}

// line is what was tried of one scenario.
type line struct {
	name    string
	seeds   int
	steps   uint64
	virtual time.Duration
	took    time.Duration
	fetched int64
	twice   int64
}

func (l *line) add(r *simnet.Result, took time.Duration) {
	l.seeds++
	l.steps += r.Steps
	l.virtual += r.Virtual
	l.took += took
	l.fetched += r.Fetched
	l.twice += r.Twice
}

// tally is what was tried of all.
type tally struct {
	mu    sync.Mutex
	lines []line
}

func (a *tally) add(l line) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines = append(a.lines, l)
}

func (a *tally) print(t *testing.T) {
	var sum line
	for _, l := range a.lines {
		sum.seeds += l.seeds
		sum.virtual += l.virtual
		sum.steps += l.steps
		sum.took += l.took
		sum.fetched += l.fetched
	}
	slices.SortFunc(a.lines, func(a, b line) int { return cmp.Compare(b.took, a.took) })
	var b strings.Builder
	fmt.Fprintf(&b, "S1: %d scenarios, %d runs, %.2f virtual hours, %d million steps, %.1f GB fetched, %.0f s of all runs together\n",
		len(a.lines), sum.seeds, sum.virtual.Hours(), sum.steps/1e6, float64(sum.fetched)/1e9, sum.took.Seconds())
	fmt.Fprintf(&b, "  %-22s %6s %10s %10s %10s %8s\n", "the slowest", "runs", "virtual s", "real s", "steps/run", "twice")
	for i, l := range a.lines {
		if i == 12 && os.Getenv("SIM_ALL") == "" {
			break
		}
		fmt.Fprintf(&b, "  %-22s %6d %10.0f %10.1f %10d %7.2f%%\n", l.name, l.seeds, l.virtual.Seconds(), l.took.Seconds(), l.steps/uint64(l.seeds),
			100*float64(l.twice)/float64(max(1, l.fetched)))
	}
	t.Log(b.String())
}
