package daemon

import (
	"slices"
	"testing"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/share"
)

// A depot that keeps a share for the fleet has another address now, which a member was told: the fleet's list, which the member reads again
// at each start, and which has the first alone, does not make it forget where the depot is.
func TestTheFleetsListDoesNotMakeAMemberForgetWhereADepotIs(t *testing.T) {
	t.Parallel()
	depot, a, _ := withDepot(t)
	e := added(t, a, api.Add{Paths: []string{file(t, large(9), t.TempDir(), "film")}})
	_, err := a.AddToFleet(t.Context(), e.Ticket)
	must(t, err)
	_, err = a.Hold(t.Context(), api.Hold{Entry: e.ID, Depots: []string{depot.node.Addrs()[0]}, Fleet: true})
	must(t, err)
	const now = "/ip4/192.0.2.1/tcp/4001"
	l, err := a.node.DepotsAt(t.Context(), now+"/p2p/"+string(depot.node.ID()))
	must(t, err)
	if at := l.Addrs[depot.node.ID()]; !slices.Contains(at, now) {
		t.Fatalf("it is remembered at %v", at)
	}
	id, err := share.ParseID(e.Share)
	must(t, err)
	listed, err := a.member.store.Listed(t.Context(), id)
	must(t, err)
	must(t, a.member.holds.keep(t.Context(), listed))
	l, err = a.node.Holds(t.Context())
	must(t, err)
	if at := l.Addrs[depot.node.ID()]; !slices.Contains(at, now) {
		t.Errorf("it is looked for at %v alone", at)
	}
}
