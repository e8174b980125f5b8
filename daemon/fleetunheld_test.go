package daemon

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/share"
)

// unlisted is a store whose list cannot be changed while it is away.
type unlisted struct {
	rounds.KV
	away atomic.Bool
}

func (u *unlisted) Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	if u.away.Load() && strings.HasPrefix(key, "share.v1.") {
		return 0, rounds.ErrAway
	}
	return u.KV.Update(ctx, key, value, rev)
}

// A member asks a depot to keep for the fleet what it keeps for another member already, and the store is away when the fleet is to be told. The
// request is taken back, and the lease that stood there before it stays.
func TestARequestForTheFleetThatIsTakenBackEndsNoLeaseOfAnother(t *testing.T) {
	t.Parallel()
	depot, a, b := withDepot(t)
	letInToo(t, depot, b)
	kv := &unlisted{KV: a.member.store.KV}
	a.member.holds = newFleetHolds(&member{d: a, store: fetcher.FleetStore{KV: kv, Secret: a.member.store.Secret}})
	e := added(t, a, api.Add{Paths: []string{file(t, large(9), t.TempDir(), "film")}})
	_, err := a.AddToFleet(t.Context(), e.Ticket)
	must(t, err)
	rolled(t, a, "done", func(f api.Fleet) bool { return len(f.Shares) == 1 && f.Shares[0].Done == 2 })
	id, err := share.ParseID(e.Share)
	must(t, err)
	on := depot.node.Addrs()[:1]
	_, err = b.Hold(t.Context(), api.Hold{Entry: int64(b.member.index()[id].id), Depots: on})
	must(t, err)
	stands(t, b, "stable", func(all []api.StandingHold) bool { return len(all) == 1 && all[0].State == "stable" })
	kv.away.Store(true)
	if _, err := a.Hold(t.Context(), api.Hold{Entry: e.ID, Depots: on, Fleet: true}); err == nil {
		t.Fatal("the fleet was told")
	}
	if all := stands(t, a, "taken back", func(all []api.StandingHold) bool { return len(all) == 0 || all[0].Ending }); len(all) > 0 {
		visits(t, a, depot)
	}
	if n := leasesAt(t, depot); n != 1 {
		t.Errorf("%d leases are left at the depot: the other member's was ended, and nobody told it", n)
	}
}
