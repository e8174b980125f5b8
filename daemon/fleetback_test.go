package daemon

import (
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/share"
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
	rig.Slow(t)
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

// A member that had a depot keep a share only after another had ended that, as it was slow, ends the lease too. If the list is restored
// from then once the depot keeps the share again, no member that had heard of that does.
func TestAReleaseIsOfWhatWasKeptBeforeIt(t *testing.T) {
	t.Parallel()
	id, depot, at := share.IDOf([]byte("film")), peers.ID("depot"), []string{"/ip4/192.0.2.1/tcp/2/p2p/depot"}
	kept := fetcher.ListedHold{Depots: at}
	ended := time.Unix(1_800_000_000, 0)
	var f *fleetHolds
	for _, c := range []struct {
		heard, now    fetcher.ListedShare
		same, release bool
	}{
		{heard: fetcher.ListedShare{Kept: &kept}, now: fetcher.ListedShare{Released: map[peers.ID]time.Time{depot: ended}}, release: true},
		{heard: fetcher.ListedShare{Kept: &kept, Released: map[peers.ID]time.Time{depot: ended}}, now: fetcher.ListedShare{Released: map[peers.ID]time.Time{depot: ended}}},
		{heard: fetcher.ListedShare{Kept: &kept, Released: map[peers.ID]time.Time{depot: ended}}, now: fetcher.ListedShare{Released: map[peers.ID]time.Time{depot: ended.Add(1)}}, release: true},
		{heard: fetcher.ListedShare{Kept: &kept}, now: fetcher.ListedShare{}},
		{heard: fetcher.ListedShare{Kept: &kept}, now: fetcher.ListedShare{Kept: &kept, Released: map[peers.ID]time.Time{depot: ended}}, release: true},
		{heard: fetcher.ListedShare{Kept: &kept}, now: fetcher.ListedShare{Kept: &kept, Released: map[peers.ID]time.Time{"another": ended}}, same: true, release: true},
	} {
		want := fetcher.Hold{ID: 1, Share: id, Fleet: true, Depots: []peers.ID{depot}, Released: lastReleases(c.heard)}
		all := fetcher.HoldList{Wants: []fetcher.Hold{want}, Addrs: map[peers.ID][]string{depot: {"/ip4/192.0.2.1/tcp/2"}},
			Holds: []fetcher.HoldStanding{{Hold: renewal.Hold{Key: renewal.Key{Depot: depot, Share: id}, Want: 1, Since: ended.Add(time.Hour)}}}}
		c.now.ID = id
		if same, release := f.keeps(all, c.now), released(all, want, c.now); same != c.same || release != c.release {
			t.Errorf("heard %v, now %v: the same %v, to release %v", c.heard, c.now, same, release)
		}
	}
}
