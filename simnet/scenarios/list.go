package scenarios

import (
	"cmp"
	"slices"

	"github.com/piecelease/fetcher/simnet"
)

// list is all scenarios.
var list = slices.Concat(ordinary, hostile, codes, crowds, fleets, elections, electing, networks, troubled, reading, rules, keeping)

// All are all scenarios, by name.
func All() []*simnet.Scenario {
	readWorst()
	all := slices.Clone(list)
	slices.SortFunc(all, func(a, b *simnet.Scenario) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Find is the scenario of that name, nil if there is none.
func Find(name string) *simnet.Scenario {
	for _, s := range All() {
		if s.Name == name {
			return s
		}
	}
	return nil
}
