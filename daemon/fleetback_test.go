package daemon

import (
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
)

// visits has a member visit depots, and waits for that.
func visits(t *testing.T, d *Daemon, all ...*Daemon) {
	t.Helper()
	was, _ := d.holds.counts()
	for _, depot := range all {
		must(t, d.node.VisitDepot(t.Context(), depot.node.ID()))
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if now, _ := d.holds.counts(); now >= was+uint64(len(all)) {
			return
		}
		if time.Now().After(end) {
			t.Fatal("it has not visited them")
		}
	}
}

// The store of a fleet is restored from a copy that was made before a depot was asked to keep a share, or between a release there and that:
// nobody has released the lease that stands there, so no member ends it. It lapses, as that of a share that is no more on the list.
func TestARestoredStoreReleasesNothing(t *testing.T) {
	t.Parallel()
	first, second, a, b, e := withTwoDepots(t)
	hold := func(on *Daemon) {
		_, err := a.Hold(t.Context(), api.Hold{Entry: e.ID, Depots: []string{on.node.Addrs()[0]}, Fleet: true})
		must(t, err)
	}
	hold(second)
	_, err := a.Release(t.Context(), api.Release{Share: e.Share})
	must(t, err)
	hold(first)
	stands(t, b, "kept by the first alone", func(all []api.StandingHold) bool { return len(all) == 1 && all[0].Depot == string(first.node.ID()) })
	kv, key := a.member.store.KV, "share.v1."+e.Share
	before, err := kv.Get(t.Context(), key)
	must(t, err)
	hold(second)
	stable := func(h api.StandingHold) bool { return h.State == "stable" && !h.Ending }
	for _, d := range []*Daemon{a, b} {
		stands(t, d, "stable", func(all []api.StandingHold) bool { return len(all) == 2 && stable(all[0]) && stable(all[1]) })
	}
	now, err := kv.Get(t.Context(), key)
	must(t, err)
	_, err = kv.Update(t.Context(), key, before.Value, now.Rev) // what members see then
	must(t, err)
	for _, d := range []*Daemon{a, b} {
		lapses := func(h api.StandingHold) bool {
			return h.Ending && h.State == "stable" && h.Depot == string(second.node.ID())
		}
		stands(t, d, "to lapse at the second alone", func(all []api.StandingHold) bool {
			return len(all) == 2 && slices.ContainsFunc(all, lapses) && slices.ContainsFunc(all, stable)
		})
		visits(t, d, first, second)
	}
	if n, m := leasesAt(t, first), leasesAt(t, second); n != 1 || m != 1 {
		t.Errorf("%d and %d leases are left: members have released what nobody told them to", n, m)
	}
}
