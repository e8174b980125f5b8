package daemon

import (
	"testing"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// A share is taken off the fleet's list and put on it again while a member is away: as for those that are there, what a depot keeps of it
// lapses, and the member that comes back releases none of it.
func TestAMemberThatWasAwayReleasesNothingThatWasAddedAgain(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	depot, a, b := withDepot(t)
	letInToo(t, depot, b)
	e := added(t, a, api.Add{Paths: []string{file(t, large(9), t.TempDir(), "film")}})
	_, err := a.AddToFleet(t.Context(), e.Ticket)
	must(t, err)
	rolled(t, a, "done", func(f api.Fleet) bool { return len(f.Shares) == 1 && f.Shares[0].Done == 2 })
	_, err = a.Hold(t.Context(), api.Hold{Entry: e.ID, Depots: []string{depot.node.Addrs()[0]}, Fleet: true})
	must(t, err)
	for _, d := range []*Daemon{a, b} {
		stands(t, d, "stable", func(all []api.StandingHold) bool { return len(all) == 1 && all[0].State == "stable" })
	}
	must(t, b.Close())
	_, err = a.RemoveFromFleet(t.Context(), e.Share)
	must(t, err)
	stands(t, a, "to lapse", func(all []api.StandingHold) bool { return len(all) == 1 && all[0].Ending })
	_, err = a.AddToFleet(t.Context(), e.Ticket)
	must(t, err)
	b = begun(t, b.dir)
	stands(t, b, "wanted no more", func(all []api.StandingHold) bool { return len(all) == 1 && all[0].Ending })
	visits(t, b, depot)
	if n := leasesAt(t, depot); n != 1 {
		t.Errorf("%d leases are left at the depot: a member has released what nobody told it to", n)
	}
}
