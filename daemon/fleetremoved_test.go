package daemon

import (
	"testing"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// That a share is taken off the fleet's list removes no file, as the command says: also none that a depot keeps. Its lease lapses, unless it
// is released or the share is kept again.
func TestTakingAShareOffTheListRemovesNoCopyOfADepot(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	depot, a, b := withDepot(t)
	letInToo(t, depot, b)
	e := added(t, a, api.Add{Paths: []string{file(t, large(9), t.TempDir(), "film")}})
	_, err := a.AddToFleet(t.Context(), e.Ticket)
	must(t, err)
	rolled(t, a, "done", func(f api.Fleet) bool { return len(f.Shares) == 1 && f.Shares[0].Done == 2 && f.Shares[0].Depots == 0 })
	ask := api.Hold{Entry: e.ID, Depots: []string{depot.node.Addrs()[0]}, Fleet: true}
	_, err = a.Hold(t.Context(), ask)
	must(t, err)
	stable := func(all []api.StandingHold) bool { return len(all) == 1 && all[0].State == "stable" && !all[0].Ending }
	ending := func(all []api.StandingHold) bool {
		return len(all) == 1 && all[0].State == "stable" && all[0].Ending && all[0].Left > 0 && all[0].Name == "film"
	}
	for _, d := range []*Daemon{a, b} {
		stands(t, d, "stable", stable)
	}
	was, err := a.RemoveFromFleet(t.Context(), e.Share)
	if err != nil || was.Share != e.Share || was.Depots != 1 {
		t.Errorf("%+v, %v", was, err)
	}
	for _, d := range []*Daemon{a, b} {
		stands(t, d, "to lapse", ending)
		must(t, d.node.VisitDepot(t.Context(), depot.node.ID()))
	}
	must(t, a.Close())
	a = begun(t, a.dir)
	stands(t, a, "to lapse after a restart", ending)
	if n := leasesAt(t, depot); n != 1 {
		t.Errorf("%d leases", n)
	}
	entriesOf(t, b, 0)
	_, err = a.AddToFleet(t.Context(), e.Ticket)
	must(t, err)
	for _, d := range []*Daemon{a, b} {
		until(t, d, entriesOf(t, d, 1)[0].ID, "served again", func(e api.Entry) bool { return e.State == api.Served })
	}
	_, err = a.Hold(t.Context(), ask)
	must(t, err)
	for _, d := range []*Daemon{a, b} {
		stands(t, d, "kept again", stable)
	}
	_, err = a.RemoveFromFleet(t.Context(), e.Share)
	must(t, err)
	stands(t, b, "to lapse", ending)
	got, err := b.Release(t.Context(), api.Release{Share: e.Share})
	if err != nil || len(got) != 1 || got[0].State != "none" || leasesAt(t, depot) != 0 {
		t.Errorf("released: %+v, %v; %d leases", got, err, leasesAt(t, depot))
	}
	stands(t, b, "gone", func(all []api.StandingHold) bool { return len(all) == 0 })
}
