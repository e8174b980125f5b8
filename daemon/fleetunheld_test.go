package daemon

import (
	"context"
	"slices"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/share"
)

// A member asks a depot to keep for the fleet what it keeps for another member already, and the store is away when the fleet is to be told. The
// request is taken back, and the lease that stood there before it stays, as does what another depot keeps for the fleet.
func TestARequestForTheFleetThatIsTakenBackEndsNoLeaseOfAnother(t *testing.T) {
	t.Parallel()
	for what, before := range map[string]bool{"the first for the share": false, "a further one": true} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			depot, other, a, b, e := withTwoDepots(t)
			on := func(depot *Daemon) []string { return depot.node.Addrs()[:1] }
			id, err := share.ParseID(e.Share)
			must(t, err)
			_, err = b.Hold(t.Context(), api.Hold{Entry: int64(b.member.index()[id].id), Depots: on(depot)})
			must(t, err)
			if before {
				_, err = a.Hold(t.Context(), api.Hold{Entry: e.ID, Depots: on(other), Fleet: true})
				must(t, err)
			}
			kv, err := sqlite.OpenConn(strings.TrimPrefix(a.member.url, "sqlite:"), sqlite.OpenReadWrite)
			must(t, err)
			must(t, sqlitex.ExecuteScript(kv, `CREATE TRIGGER away BEFORE UPDATE ON entries WHEN NEW.key LIKE 'share.%' BEGIN SELECT RAISE(ABORT, 'away'); END`, nil))
			must(t, kv.Close())
			if _, err := a.Hold(t.Context(), api.Hold{Entry: e.ID, Depots: on(depot), Fleet: true}); err == nil {
				t.Fatal("the fleet was told")
			}
			of := func(depot *Daemon) func(api.StandingHold) bool {
				return func(h api.StandingHold) bool { return h.Depot == string(depot.node.ID()) }
			}
			all, err := a.StandingHolds(t.Context())
			must(t, err)
			if i, j := slices.IndexFunc(all, of(depot)), slices.IndexFunc(all, of(other)); i >= 0 && !all[i].Ending || before && (j < 0 || all[j].Ending) {
				t.Errorf("taken back: %+v", all)
			}
			visits(t, a, depot)
			if n := leasesAt(t, depot); n != 1 {
				t.Errorf("%d leases are left at the depot: the other member's was ended, and nobody told it", n)
			}
		})
	}
}

// Whoever has depots keep a share for the fleet goes away while one of them has not answered yet. The fleet is told all the same: else one member
// alone would renew what the others grant.
func TestTheFleetIsToldAlsoWhenWhoeverAskedHasGone(t *testing.T) {
	t.Parallel()
	depot, a, _ := withDepot(t)
	e := added(t, a, api.Add{Paths: []string{file(t, large(9), t.TempDir(), "film")}})
	_, err := a.AddToFleet(t.Context(), e.Ticket)
	must(t, err)
	silent, at := silentDepot(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	held := make(chan error, 1)
	go func() {
		_, err := a.Hold(ctx, api.Hold{Entry: e.ID, Depots: []string{depot.node.Addrs()[0], at}, Fleet: true})
		held <- err
	}()
	visit, err := silent.Accept()
	must(t, err)
	cancel()
	must(t, silent.Close())
	must(t, visit.Close())
	must(t, <-held)
	id, err := share.ParseID(e.Share)
	must(t, err)
	l, err := a.member.store.Listed(t.Context(), id)
	must(t, err)
	if is := depotsOf(l.Kept); !slices.Contains(is, depot.node.ID()) {
		t.Errorf("the fleet's list says that %v keep it", is)
	}
}
