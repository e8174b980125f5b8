package scenarios

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/simnet"
	"github.com/piecelease/fetcher/simnet/depots"
)

// asked is the number in an environment variable.
func asked(t *testing.T, name string) int {
	n, _ := strconv.Atoi(os.Getenv(name))
	if n == 0 {
		t.Skipf("%s is not set", name)
	}
	return n
}

// TestManyEdits is held-folder-edited with as many edits as HOLD_EDITS says, and held-versions with a quarter.
func TestManyEdits(t *testing.T) {
	n := asked(t, "HOLD_EDITS")
	manyEdits(t, n, 0)
	manyEdits(t, n/4, 3)
}

func manyEdits(t *testing.T, n, keep int) {
	s := &simnet.Scenario{Name: "edits", Limit: depots.Limit, Set: func(r *simnet.Run) { depots.Tell(r, func(s *depots.Story) { edited(s, n, keep) }) }}
	began := time.Now()
	if r := s.Run(1, 0); !r.OK() {
		t.Error(r.Report())
	} else {
		t.Logf("%d edits in %v of virtual time: %v", n, r.Virtual.Round(time.Second), time.Since(began).Round(time.Second))
	}
}

// TestYearsOfAFleet is fleet-holds with the default leases for as many years as FLEET_HOLD_YEARS says.
func TestYearsOfAFleet(t *testing.T) {
	years := asked(t, "FLEET_HOLD_YEARS")
	for seed := range uint64(years) {
		s := &simnet.Scenario{Name: "fleet", Limit: 20 * depots.Limit, Set: func(r *simnet.Run) {
			depots.Tell(r, func(s *depots.Story) { heldByFleet(s, renewal.DefaultLength, 365*day) })
		}}
		r := s.Run(seed+1, 0)
		if !r.OK() {
			t.Fatal(r.Report())
		}
		t.Log(strings.Join(slices.DeleteFunc(strings.Split(r.Report(), "\n"), func(l string) bool { return !strings.Contains(l, "in their turn") }), ""))
	}
}

// TestYearsOfHolds has fifty owners in a world hold something for as many node-years in all as HOLD_YEARS
// says: visits fail, nodes restart and sleep at night, clocks are off by an hour, depots are away for a
// week, and no lease lapses.
func TestYearsOfHolds(t *testing.T) {
	years := asked(t, "HOLD_YEARS")
	const owners = 50
	var sum longHeld
	began := time.Now()
	for seed := uint64(1); years > 0; seed++ {
		each := min(years, 100)
		years -= each
		long := time.Duration(each) * 365 * day / owners
		var y *longHeld
		s := &simnet.Scenario{Name: "years", Limit: 20 * depots.Limit, Set: func(r *simnet.Run) {
			depots.Tell(r, func(s *depots.Story) { y = heldForLong(s, owners, long) })
		}}
		if r := s.Run(seed, 0); !r.OK() {
			t.Fatal(r.Report())
		}
		sum.add(y)
		t.Logf("seed %d: %v of %.0f years of leases without one; %d visits, %d failed, %d restarts; by the founding defaults %.2f of %.0f years; %v so far",
			seed, sum.lapsed, sum.years, sum.good+sum.failed, sum.failed, sum.starts, float64(sum.uncovered)/float64(sum.founding), inYears(sum.founding), time.Since(began).Round(time.Second))
	}
	if sum.lapsed > 0 {
		t.Errorf("%v without a lease", sum.lapsed)
	}
	if f := float64(sum.uncovered) / float64(sum.founding); inYears(sum.founding) > 5 && (f < 0.3 || f > 0.5) {
		t.Errorf("the founding defaults leave %.2f of the time without a lease, known is 0.40", f)
	}
}

func (y *longHeld) add(o *longHeld) {
	y.years, y.lapsed, y.founding, y.uncovered = y.years+o.years, y.lapsed+o.lapsed, y.founding+o.founding, y.uncovered+o.uncovered
	y.good, y.failed, y.starts = y.good+o.good, y.failed+o.failed, y.starts+o.starts
}
