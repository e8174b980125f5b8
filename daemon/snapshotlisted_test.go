package daemon

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/rounds"
)

// undeleted is a store that is away when something is to be taken off the list.
type undeleted struct{ rounds.KV }

func (u undeleted) Delete(ctx context.Context, key string, rev uint64) (uint64, error) {
	if strings.HasPrefix(key, "share.v1.") {
		return 0, rounds.ErrAway
	}
	return u.KV.Delete(ctx, key, rev)
}

// The store is away for the moment in which a snapshot is to be taken off the fleet's list. It is taken off with one of the next: else each
// member would keep it for ever, with the accounts and leases that are in it.
func TestASnapshotThatCouldNotBeTakenOffTheListIsTakenOffLater(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	f := newDepotFleet(t)
	next := func(seq uint64) (id string) {
		t.Helper()
		account := fmt.Sprint("account", seq)
		x, err := f.snapshot(t, account, rounds.Target{Term: 1_000, Seq: seq})
		must(t, err)
		complete(t, f.keeper.lender) // else nothing is removed
		_, err = f.keeper.RemoveAccount(t.Context(), account, false)
		must(t, err)
		return x.String()
	}
	first := next(1)
	away := &member{d: f.keeper, store: fetcher.FleetStore{KV: undeleted{f.keeper.member.store.KV}, Secret: f.Secret}}
	for _, k := range f.keeper.member.ownSnapshots() {
		if e := k.entry(); e.Share.String() == first {
			away.forgetSnapshot(t.Context(), e.Paths[0])
		}
	}
	for seq := range uint64(3) { // all but the latest and the one before go
		next(seq + 2)
	}
	r, err := f.keeper.member.store.Rollout(t.Context())
	must(t, err)
	for _, x := range r.Shares {
		if x.ID.String() == first {
			t.Errorf("it is on the list, with %d later ones", len(r.Shares)-1)
		}
	}
}
