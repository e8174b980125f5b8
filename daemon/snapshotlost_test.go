package daemon

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/share"
)

// A depot that lost its state directory, and got its leases back from the fleet, has the snapshots from before taken off the fleet's list
// when later ones take their place: two of them stay, as always, and the members do not keep the others for ever.
func TestSnapshotsFromBeforeALossGo(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	m := Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}
	folder := t.TempDir()
	begin := func(dir string) *Daemon { return begun(t, dir, func(c *Config) { c.Depot = folder; inFleet(m)(c) }) }
	other := begun(t, t.TempDir(), inFleet(m)) // who fetches them
	snapshot := func(d *Daemon, seq uint64) share.ID {
		t.Helper()
		_, err := d.AddAccount(t.Context(), api.AddAccount{Name: fmt.Sprint("account", seq), Key: string(begun(t, t.TempDir()).node.ID()), Quota: 1 << 30}) // so that it is another share
		must(t, err)
		name, err := d.lender.db.Meta(t.Context())
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		id, err := d.member.snapshot(ctx, name.Depot, rounds.Target{Term: 1_000_000 * seq, Seq: 1})
		must(t, err)
		return id
	}
	d := begin(t.TempDir())
	before := []share.ID{snapshot(d, 1), snapshot(d, 2)}
	must(t, d.Close())

	dir := t.TempDir() // the state directory was lost, with the key
	must(t, m.Save(dir))
	_, err := RestoreLeases(t.Context(), Config{Dir: dir, Settings: Settings{Depot: folder, Listen: []string{"127.0.0.1:0"}}})
	must(t, err)
	d = begin(dir)
	for seq := range uint64(3) {
		snapshot(d, 3+seq)
	}
	list, err := other.member.store.Rollout(t.Context())
	must(t, err)
	for _, x := range list.Shares {
		if slices.Contains(before, x.ID) {
			t.Errorf("%s, from before the loss, is still on the list, which has %d snapshots", x.ID.Short(), len(list.Shares))
		}
	}
}
