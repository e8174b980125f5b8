package bubble

import (
	"cmp"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/piecelease/fetcher/simnet"
)

// Run runs a scenario with whole nodes in a bubble of its own, as part of the
// test, which fails if something does not hold: it prints the seed, the faults, why
// each missing piece is missing, the timeline, and how to run the scenario with
// modelled links. nodes is as in simnet.Scenario.Run. It skips a scenario that is
// not for whole nodes.
func Run(t *testing.T, s *simnet.Scenario, seed uint64, nodes int) *simnet.Result {
	t.Helper()
	if s.Only != "" {
		t.Skip("not with whole nodes:", s.Only)
	}
	res := play(t, s, seed, nodes)
	if !res.OK() {
		t.Errorf("%s%s", res.Report(), twin(s, seed, nodes))
	}
	return res
}

// play is Run that leaves judging the result to the caller.
func play(t *testing.T, s *simnet.Scenario, seed uint64, nodes int) (res *simnet.Result) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		n := newNet(seed, dir)
		defer func() {
			if err := n.close(); err != nil && res != nil {
				t.Errorf("%v\n%s", err, res.Report())
			} else if err != nil {
				t.Error(err)
			}
		}()
		res = s.RunOn(newTier(n).sim, nodes)
	})
	return res
}

// twin says how to repeat a run with modelled links, where a seed replays
// exactly. It may well hold there.
func twin(s *simnet.Scenario, seed uint64, nodes int) string {
	again := fmt.Sprintf("fetcher sim run %s --seed %d", s.Name, seed)
	if s.Nodes > 0 {
		again += fmt.Sprintf(" --nodes %d", cmp.Or(nodes, s.Nodes))
	}
	return "no seed decides the order of goroutines, so this run cannot be repeated exactly; with modelled links, this seed gives the same run each time:\n  " + again
}
