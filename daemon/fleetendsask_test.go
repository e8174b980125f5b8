package daemon

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
)

// A depot keeps for one member alone what the fleet has released there. Another member asks it to keep that for the fleet again, and ends
// before the fleet is told. After its next start the lease stands: the release on the list was of another.
func TestARequestForTheFleetThatARestartCutsShortEndsNoLeaseOfAnother(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	fleet := Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}
	depot := begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot") })
	dir := t.TempDir()
	a, b := begun(t, dir, inFleet(fleet)), begun(t, t.TempDir(), inFleet(fleet))
	letIn(t, depot, a, b)
	e := added(t, a, api.Add{Paths: []string{file(t, large(9), t.TempDir(), "film")}})
	_, err := a.AddToFleet(t.Context(), e.Ticket)
	must(t, err)
	rolled(t, b, "done", func(f api.Fleet) bool { return len(f.Shares) == 1 && f.Shares[0].Done == 2 })
	on := depot.node.Addrs()[0]
	_, err = a.Hold(t.Context(), api.Hold{Entry: e.ID, Depots: []string{on}, Fleet: true})
	must(t, err)
	_, err = a.Release(t.Context(), api.Release{Share: e.Share})
	must(t, err)
	for _, d := range []*Daemon{a, b} {
		stands(t, d, "released", func(all []api.StandingHold) bool { return len(all) == 0 })
	}
	id, err := share.ParseID(e.Share)
	must(t, err)
	_, err = b.Hold(t.Context(), api.Hold{Entry: int64(b.member.index()[id].id), Depots: []string{on}})
	must(t, err)
	kv, err := sqlite.OpenConn(strings.TrimPrefix(fleet.URL, "sqlite:"), sqlite.OpenReadWrite)
	must(t, err)
	must(t, sqlitex.ExecuteTransient(kv, `BEGIN IMMEDIATE`, nil)) // nobody else can write
	held := make(chan error, 1)
	go func() {
		_, err := a.Hold(context.Background(), api.Hold{Entry: e.ID, Depots: []string{on}, Fleet: true})
		held <- err
	}()
	stands(t, a, "stable", func(all []api.StandingHold) bool { return len(all) == 1 && all[0].State == "stable" })
	must(t, a.Close())
	if err := <-held; err == nil {
		t.Fatal("the fleet was told")
	}
	must(t, sqlitex.ExecuteTransient(kv, `ROLLBACK`, nil))
	must(t, kv.Close())
	a = begun(t, dir, inFleet(fleet))
	left := stands(t, a, "without the request", func(all []api.StandingHold) bool { // nothing is left, or what lapses
		return !slices.ContainsFunc(all, func(h api.StandingHold) bool { return !h.Ending || h.State != "stable" })
	})
	if len(left) > 0 {
		visits(t, a, depot)
	}
	if n := leasesAt(t, depot); n != 1 {
		t.Errorf("%d leases are left at the depot: the other member's was ended, and nobody told it", n)
	}
}
