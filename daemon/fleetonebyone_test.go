package daemon

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
)

// What the fleet has released at a depot that cannot be told yet is ended there once it can be, also if the list says something else of
// other depots meanwhile.
func TestAReleaseThatWaitsForItsDepotOutlivesTheNextChangeOfTheList(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	fleet := Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}
	a := begun(t, t.TempDir(), inFleet(fleet))
	var all []*Daemon
	var on []string
	for range 3 {
		d := begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot") })
		letIn(t, d, a)
		all, on = append(all, d), append(on, d.node.Addrs()[0])
	}
	e := added(t, a, api.Add{Paths: []string{file(t, large(9), t.TempDir(), "film")}})
	_, err := a.AddToFleet(t.Context(), e.Ticket)
	must(t, err)
	_, err = a.Hold(t.Context(), api.Hold{Entry: e.ID, Depots: on, Fleet: true})
	must(t, err)
	stands(t, a, "stable", func(l []api.StandingHold) bool {
		return len(l) == 3 && !slices.ContainsFunc(l, func(h api.StandingHold) bool { return h.State != "stable" })
	})
	first := all[0]
	me := string(a.node.ID())
	_, err = first.SetAccount(t.Context(), "fleet", api.SetAccount{AddKey: string(all[1].node.ID())})
	must(t, err)
	_, err = first.SetAccount(t.Context(), "fleet", api.SetAccount{RemoveKey: me})
	must(t, err)
	for i, d := range all[:2] {
		_, _ = a.Release(t.Context(), api.Release{Share: e.Share, Depot: on[i]})      // the first does not let it in
		for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) { // until the list is carried out
			l, err := a.node.Holds(t.Context())
			must(t, err)
			known := func(w fetcher.Hold) bool {
				_, ok := w.Released[d.node.ID()]
				return ok || slices.Contains(w.Depots, peers.ID(d.node.ID()))
			}
			if len(l.Wants) == 1 && !known(l.Wants[0]) {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("it wants %+v", l.Wants)
			}
		}
	}
	if n := leasesAt(t, first); n != 1 {
		t.Fatalf("%d leases are at the depot that was not told", n)
	}
	_, err = first.SetAccount(t.Context(), "fleet", api.SetAccount{AddKey: me})
	must(t, err)
	must(t, a.node.VisitDepot(t.Context(), first.node.ID()))
	for end := time.Now().Add(time.Minute); leasesAt(t, first) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a lease is left at the depot: what was released there lapses")
		}
	}
}
