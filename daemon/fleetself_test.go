package daemon

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// A depot that belongs to the fleet itself, as one does whose leases the fleet backs up, does not ask itself to keep what it keeps for the fleet,
// and does not say of that that something is wrong with it.
func TestAMemberThatIsTheDepotDoesNotComplainOfItself(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	m := Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}
	depot := begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot"); inFleet(m)(c) })
	a, b := begun(t, t.TempDir(), inFleet(m)), begun(t, t.TempDir(), inFleet(m))
	letIn(t, depot, a, b)
	fleetHas := func(e api.Entry) { // on every member
		t.Helper()
		_, err := a.AddToFleet(t.Context(), e.Ticket)
		must(t, err)
		for _, d := range []*Daemon{b, depot} {
			rolled(t, d, "done", func(f api.Fleet) bool {
				return slices.ContainsFunc(f.Shares, func(s api.FleetShare) bool { return s.Share == e.Share && s.Done == 3 })
			})
		}
	}
	e := added(t, a, api.Add{Paths: []string{file(t, large(9), t.TempDir(), "film")}})
	fleetHas(e)
	_, err := a.Hold(t.Context(), api.Hold{Entry: e.ID, Depots: []string{depot.node.Addrs()[0]}, Fleet: true})
	must(t, err)
	stands(t, b, "known", func(all []api.StandingHold) bool { return len(all) == 1 })
	fleetHas(added(t, a, api.Add{Paths: []string{file(t, large(8), t.TempDir(), "song")}})) // all have looked at the list again
	all, err := depot.StandingHolds(t.Context())
	must(t, err)
	for _, h := range all {
		if h.Why != "" {
			t.Errorf("%s is %s at this depot itself: %s", h.Name, h.State, h.Why)
		}
	}
}
