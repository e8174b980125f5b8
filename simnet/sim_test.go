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

func TestScenarios(t *testing.T) {
	seeds, from := envInt("SIM_SEEDS", 3), envInt("SIM_FROM", 1)
	for _, s := range Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
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
