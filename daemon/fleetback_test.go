package daemon

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
)

// The store of a fleet is restored from a copy that was made before a depot was asked to keep a share: nobody has released that, so no
// member ends the lease. It lapses, as that of a share that is no more on the list.
func TestARestoredStoreReleasesNothing(t *testing.T) {
	t.Parallel()
	depot, a, b := withDepot(t)
	letInToo(t, depot, b)
	e := added(t, a, api.Add{Paths: []string{file(t, large(9), t.TempDir(), "film")}})
	_, err := a.AddToFleet(t.Context(), e.Ticket)
	must(t, err)
	rolled(t, a, "done", func(f api.Fleet) bool { return len(f.Shares) == 1 && f.Shares[0].Done == 2 })
	kv, key := a.member.store.KV, "share.v1."+e.Share
	before, err := kv.Get(t.Context(), key)
	must(t, err)
	_, err = a.Hold(t.Context(), api.Hold{Entry: e.ID, Depots: []string{depot.node.Addrs()[0]}, Fleet: true})
	must(t, err)
	for _, d := range []*Daemon{a, b} {
		stands(t, d, "stable", func(all []api.StandingHold) bool { return len(all) == 1 && all[0].State == "stable" })
	}
	now, err := kv.Get(t.Context(), key)
	must(t, err)
	_, err = kv.Update(t.Context(), key, before.Value, now.Rev) // what members see then
	must(t, err)
	for _, d := range []*Daemon{a, b} {
		stands(t, d, "wanted no more", func(all []api.StandingHold) bool { return len(all) == 0 || all[0].Ending })
	}
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if n := leasesAt(t, depot); n != 1 {
			t.Fatalf("%d leases are left at the depot: members have released what nobody told them to", n)
		}
	}
}
