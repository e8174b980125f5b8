package scenarios

import (
	"fmt"
	"os"
	"testing"

	"github.com/piecelease/fetcher/depot"
)

// TestMutants removes each edge between the states of a depot's share, and expects a scenario
// to notice. DEPOT_MUTANTS=1 runs it.
func TestMutants(t *testing.T) {
	if os.Getenv("DEPOT_MUTANTS") == "" {
		t.Skip("DEPOT_MUTANTS is not set")
	}
	for i, e := range depot.Edges {
		t.Run(fmt.Sprintf("%v, %v", e.From, e.Why), func(t *testing.T) {
			depot.Edges[i] = depot.Edge{}
			defer func() { depot.Edges[i] = e }()
			for _, s := range keeping {
				if !s.Run(1, 0).OK() {
					t.Log("missed by", s.Name)
					return
				}
			}
			t.Error("no scenario misses it")
		})
	}
}
