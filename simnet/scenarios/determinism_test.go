package scenarios

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
)

// twins are the runs that are compared in every detail; among them are lies, kills, power cuts,
// one-way cuts, floods, full disks, losses and clocks.
var twins = []struct {
	scenario string
	nodes    int
}{
	{"rotten-swarm", 8},
	{"churn", 6},
	{"asymmetric-cuts", 4},
	{"power-cuts", 0},
	{"small-disk", 0},
	{"far-and-lossy", 0},
	{"clocks-jump", 0},
	{"missing-piece", 3},
	{"behind-nat", 0},
	{"killed-in-every-edge", 0},
}

// detailed returns everything that can be observed of the twins, or of those that do not take long.
func detailed(few bool) string {
	var b strings.Builder
	for i, w := range twins {
		if few && i < 3 {
			continue
		}
		r := Find(w.scenario).Run(uint64(100+i), w.nodes)
		fmt.Fprintf(&b, "%s: trace %016x, %d steps, %v, %d bytes fetched, %d twice\n", w.scenario, r.Trace, r.Steps, r.Virtual, r.Fetched, r.Twice)
		for _, x := range r.Net.Nodes() {
			fmt.Fprintf(&b, "  %s sent %d, received %d\n", x.ID(), x.Sent(), x.Received())
		}
		b.WriteString(r.Timeline.All())
	}
	return b.String()
}

// In another process, on one core, with another rhythm of the garbage collector, and
// beside other runs, everything is the same to the nanosecond. The effect of two cores and of
// the race detector is compared in .ci/run, with SIM_PRINT.
func TestSameSeedSameRunEverywhere(t *testing.T) {
	rig.Slow(t)
	if rig.Raced || testing.Short() {
		t.Skip("compared by .ci/run")
	}
	want := detailed(true)
	if strings.Contains(want, "FAULT") {
		t.Errorf("a run did not hold:\n%s", want)
	}
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "SIM_PRINT=few", "GOMAXPROCS=1", "GOGC=20")
	got, err := c.Output()
	if err != nil {
		t.Error(err)
	} else if string(got) != want {
		t.Error(firstDifference(string(got), want))
	}
}

func TestRunsSideBySideDoNotKnowOfEachOther(t *testing.T) {
	s := Find("garbled")
	want := s.Run(1, 0).Trace
	var done sync.WaitGroup
	for range max(4, 2*runtime.GOMAXPROCS(0)) {
		done.Go(func() {
			if got := s.Run(1, 0).Trace; got != want {
				t.Errorf("trace %x, alone %x", got, want)
			}
		})
	}
	done.Wait()
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d is\n%s\nand here\n%s", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, and here %d", len(g), len(w))
}
