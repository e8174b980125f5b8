package scenarios

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/piecelease/fetcher/simnet"
)

// measured is the worst result seen for each scenario. Written by
//
//	go test ./simnet/scenarios -run TestWorst -update 200               # minutes
//	go test ./simnet/scenarios -run TestWorst -update 200 -only churn
//
//go:embed worst.txt
var measured string

// head begins the table, says what a run may add to it (see simnet.Worst), and names its columns.
const head = "# The worst values over seeds 1 to N, where N is in the third column. A run may exceed the seconds by a quarter and 3 s, twice% by a half and 1 % of\n" +
	"# all bytes, and each count of leases by a half and 5.\n" +
	"# scenario                 nodes seeds  seconds  twice%  expired revoked returned"

// readWorst gives each scenario its rows.
var readWorst = sync.OnceFunc(func() {
	for name, rows := range parseWorst(measured) {
		if i := slices.IndexFunc(list, func(s *simnet.Scenario) bool { return s.Name == name }); i >= 0 {
			list[i].Worst = rows
		}
	}
})

func parseWorst(table string) map[string][]simnet.Worst {
	out := map[string][]simnet.Worst{}
	for line := range strings.Lines(table) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var name string
		var seconds, twice float64
		var w simnet.Worst
		if _, err := fmt.Sscan(line, &name, &w.Nodes, &w.Seeds, &seconds, &twice, &w.Leases.Expired, &w.Leases.Revoked, &w.Leases.Returned); err != nil {
			panic(fmt.Sprintf("worst.txt: %q: %v", line, err))
		}
		w.Virtual, w.Twice = time.Duration(seconds*float64(time.Second)), twice/100
		out[name] = append(out[name], w)
	}
	return out
}

func formatWorst(name string, w simnet.Worst) string {
	return fmt.Sprintf("%-26s %5d %5d %8.2f %7.3f %8d %7d %8d\n", name, w.Nodes, w.Seeds, w.Virtual.Seconds(), 100*w.Twice,
		w.Leases.Expired, w.Leases.Revoked, w.Leases.Returned)
}
