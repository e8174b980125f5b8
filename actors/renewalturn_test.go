package actors

import (
	"testing"

	"github.com/piecelease/fetcher/renewal"
)

// The turn is asked for with what the cheapest of a fleet's tasks costs: a member renews what its passes pay for.
func TestTheTurnIsForWhatTheCheapestTaskCosts(t *testing.T) {
	fleet := func(units int64) renewal.Task { return renewal.Task{Fleet: true, Units: units} }
	for _, x := range []struct {
		tasks  []renewal.Task
		units  int64
		needed bool
	}{
		{nil, 0, false},
		{[]renewal.Task{{Units: 3}}, 0, false},
		{[]renewal.Task{{Units: 3}, fleet(50), fleet(40), fleet(60)}, 40, true},
		{[]renewal.Task{fleet(5), fleet(0)}, 0, true},
	} {
		if units, needed := leastUnits(x.tasks); units != x.units || needed != x.needed {
			t.Errorf("%+v: %d, %v", x.tasks, units, needed)
		}
	}
}
