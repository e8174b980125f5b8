package scenarios

import (
	"flag"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/simnet"
)

var (
	update = flag.Int("update", 0, "measure the worst of this many seeds of each scenario, fewer of large ones, and write worst.txt")
	only   = flag.String("only", "", "with -update: measure these scenarios, a,b, on as many seeds whatever their size, and keep the rows of all others")
)

// sizes are the numbers of nodes with which a scenario is measured: its own, and the
// smaller one of a plain go test. Depots' scenarios are not measured: their clocks decide how
// long they take.
func sizes(s *simnet.Scenario) []int {
	if slices.Contains(keeping, s) {
		return nil
	}
	if s.Nodes >= 2*fewNodes {
		return []int{fewNodes, s.Nodes}
	}
	return []int{s.Nodes}
}

// TestWorst checks that the table has every scenario and no other; with -update it
// makes the table.
func TestWorst(t *testing.T) {
	if *update > 0 {
		if err := os.WriteFile("worst.txt", []byte(measure(t, *update)), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	table := parseWorst(measured)
	for _, s := range All() {
		var have []int
		for _, w := range table[s.Name] {
			have = append(have, w.Nodes)
		}
		if !slices.Equal(have, sizes(s)) {
			t.Errorf("worst.txt has %s with %v nodes, and it is tried with %v: go test ./simnet/scenarios -run TestWorst -update 200 -only %s", s.Name, have, sizes(s), s.Name)
		}
		delete(table, s.Name)
	}
	for name := range table {
		t.Errorf("worst.txt has %s, which is no scenario", name)
	}
}

// measure returns the table of that many seeds, with fewer of large scenarios, as many
// as CI tries, unless -only names them.
func measure(t *testing.T, seeds int) string {
	type job struct {
		s       *simnet.Scenario
		nodes   int
		worst   simnet.Worst
		measure bool
	}
	var jobs []*job
	for _, s := range All() {
		if *only != "" && !slices.Contains(strings.Split(*only, ","), s.Name) {
			for _, w := range s.Worst {
				jobs = append(jobs, &job{s: s, worst: w})
			}
			continue
		}
		for _, n := range sizes(s) {
			free := *s
			free.Worst = nil
			jobs = append(jobs, &job{s: &free, nodes: n, measure: true})
		}
	}
	todo := make(chan *job)
	var work sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		work.Go(func() {
			for j := range todo {
				j.worst = simnet.Worst{Nodes: j.nodes, Seeds: seeds}
				for seed := 1; seed <= j.worst.Seeds; seed++ {
					r := j.s.Run(uint64(seed), j.nodes)
					if !r.OK() {
						t.Errorf("%s, seed %d: %v", j.s.Name, seed, r.Faults[0])
					}
					j.worst = j.worst.With(r)
					if *only == "" {
						j.worst.Seeds = min(seeds, ciSeeds(r.Nodes))
					}
				}
			}
		})
	}
	for _, j := range jobs {
		if j.measure {
			todo <- j
		}
	}
	close(todo)
	work.Wait()
	b := head + "\n"
	for _, j := range jobs {
		b += formatWorst(j.s.Name, j.worst)
	}
	return b
}

func TestTheTableIsReadAsItIsWritten(t *testing.T) {
	table := parseWorst(measured)
	b := head + "\n"
	for _, s := range All() {
		for _, w := range table[s.Name] {
			b += formatWorst(s.Name, w)
		}
	}
	if b != measured {
		t.Errorf("it is\n%s\nand would be written as\n%s", measured, b)
	}
	if !strings.Contains(measured, "\none-source ") {
		t.Error("the table lacks one-source")
	}
}

// A run that is worse than any before by more than the margin does not hold, and says in what.
func TestWhatIsWorseThanItEverWasIsAFault(t *testing.T) {
	rig.Slow(t)
	rig.OneGoroutine(t)
	t.Parallel()
	worse := func(s simnet.Scenario, change func(*simnet.Worst)) (rules []string) {
		s.Worst = slices.Clone(s.Worst)
		change(&s.Worst[0])
		for _, f := range s.Run(1, 0).Faults {
			rules = append(rules, f.Rule+": "+f.Text)
		}
		return rules
	}
	liars, cuts, nat, bad := *Find("liars-mute-honest"), *Find("asymmetric-cuts"), *Find("behind-nat"), *Find("bad-day")
	if got := worse(bad, func(w *simnet.Worst) { *w = simnet.Worst{Nodes: w.Nodes, Seeds: 0} }); len(got) > 0 {
		t.Error("seeds that were not measured are bounded:", got)
	}
	for want, got := range map[string][]string{
		"it took ":             worse(liars, func(w *simnet.Worst) { w.Virtual = 0 }),
		" leases were given ":  worse(liars, func(w *simnet.Worst) { w.Leases.Returned = 0 }),
		" leases expired":      worse(cuts, func(w *simnet.Worst) { w.Leases.Expired = 0 }),
		" leases were revoked": worse(nat, func(w *simnet.Worst) { w.Leases.Revoked = 0 }),
		" of all bytes came ":  worse(nat, func(w *simnet.Worst) { w.Twice = -1 }),
	} {
		if len(got) != 1 || !strings.HasPrefix(got[0], "worse: ") || !strings.Contains(got[0], want) {
			t.Errorf("want one fault with %q, got %v", want, got)
		}
	}
}
