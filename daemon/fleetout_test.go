package daemon

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/rounds/kvurl"
)

// A machine that was put out of its fleet, as that got another secret, does not have a depot keep again for the fleet what the
// fleet has released.
func TestAMachineThatWasPutOutRenewsNothingForTheFleet(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	m := Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}
	depot := begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot") })
	dir := t.TempDir()
	a, b := begun(t, t.TempDir(), inFleet(m)), begun(t, dir, inFleet(m))
	letIn(t, depot, a, b)
	e := added(t, a, api.Add{Paths: []string{file(t, large(9), t.TempDir(), "film")}})
	_, err := a.AddToFleet(t.Context(), e.Ticket)
	must(t, err)
	rolled(t, b, "done", func(f api.Fleet) bool { return len(f.Shares) == 1 && f.Shares[0].Done == 2 })
	_, err = a.Hold(t.Context(), api.Hold{Entry: e.ID, Depots: []string{depot.node.Addrs()[0]}, Fleet: true})
	must(t, err)
	stable := func(all []api.StandingHold) bool { return len(all) == 1 && all[0].State == "stable" }
	stands(t, a, "stable", stable)
	must(t, b.node.VisitDepot(t.Context(), depot.node.ID())) // its visit may have met that of the other, and be due in minutes
	stands(t, b, "stable", stable)

	kv, err := kvurl.Open(t.Context(), m.URL)
	must(t, err)
	defer kv.Close()
	next := Membership{URL: m.URL, Secret: "another secret of the fleet", ID: m.Fleet(), Changes: 1}
	must(t, fetcher.FleetStore{KV: kv, Secret: m.Secret}.ChangeSecret(t.Context(), next.Secret))
	must(t, b.Close())
	must(t, next.Save(dir))
	b = begun(t, dir)
	stands(t, b, "stable", stable)
	_, err = b.Release(t.Context(), api.Release{Share: e.Share})
	must(t, err)
	if n := leasesAt(t, depot); n != 0 {
		t.Fatal(n, "leases after the release")
	}
	must(t, a.node.VisitDepot(t.Context(), depot.node.ID())) // as it is due within days
	stands(t, a, "refused the turn", func(all []api.StandingHold) bool {
		return len(all) == 1 && strings.Contains(all[0].Why, "no longer a member of its fleet: the fleet has another secret")
	})
	if n := leasesAt(t, depot); n != 0 {
		s, err := a.Status(t.Context())
		all, _ := b.StandingHolds(t.Context())
		t.Errorf("%d leases of what the fleet has released; the members hold %+v; who was put out says %+v, %v", n, all, s.Warnings, err)
	}
}
