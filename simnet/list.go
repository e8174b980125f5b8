package simnet

import (
	"cmp"
	"slices"
)

// Scenarios are all scenarios, by name.
func Scenarios() []*Scenario {
	all := slices.Concat(ordinary, hostile, crowds, fleets, networks, troubled, reading, rules)
	slices.SortFunc(all, func(a, b *Scenario) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Find is the scenario of that name, nil if there is none.
func Find(name string) *Scenario {
	for _, s := range Scenarios() {
		if s.Name == name {
			return s
		}
	}
	return nil
}
