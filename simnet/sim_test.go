package simnet

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

func envInt(name string, def int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return def
}

// open are scenarios that do not hold yet. SIM_OPEN=1 runs them all the same.
var open = map[string]string{
	"flash-crowd":         "the source sends up to 4.8 copies of the share to 50 nodes, where 2 are asked for",
	"flash-crowd-leaving": "the source sends up to 3.6 copies of the share to 20 nodes, where 2 are asked for",
}

func TestScenarios(t *testing.T) {
	seeds, from := envInt("SIM_SEEDS", 1), envInt("SIM_FROM", 1)
	for _, s := range Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			if why := open[s.Name]; why != "" && envInt("SIM_OPEN", 0) == 0 {
				t.Skip("OPEN:", why)
			}
			for seed := from; seed < from+seeds; seed++ {
				r := s.Run(uint64(seed), envInt("SIM_NODES", 0))
				if !r.OK() {
					t.Fatal(r.Report())
				}
				if testing.Verbose() {
					fmt.Printf("  %s seed %d: %v virtual, twice %.2f%%\n", s.Name, seed, r.Virtual, 100*float64(r.Twice)/float64(max(1, r.Fetched)))
				}
			}
		})
	}
}
