package scenarios_test

import (
	"fmt"
	"time"

	"github.com/piecelease/fetcher/simnet/scenarios"
)

// A scenario that comes with the package is run by its name. What it prints here is
// the same on every machine, as the seed is.
func ExampleFind() {
	r := scenarios.Find("liars-mute-honest").Run(7, 0)
	if !r.OK() {
		fmt.Println(r.Report()) // what was wrong, why each missing piece is missing, and all that happened
	}
	fmt.Println(r.Says)
	fmt.Println("holds:", r.OK())
	fmt.Println("nodes:", r.Nodes)
	fmt.Println("in less than 20 s:", r.Virtual < 20*time.Second)
	// Output:
	// Five liars of different kinds, a source that falls silent and one honest source of moderate speed.
	// holds: true
	// nodes: 8
	// in less than 20 s: true
}
