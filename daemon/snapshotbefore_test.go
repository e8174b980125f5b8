package daemon

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/rounds"
)

// A depot's last snapshot was named though no other member had come for it in ten minutes, and then the depot lost its database with it.
// The snapshot before, which is kept for that, brings the accounts back.
func TestTheSnapshotBeforeBringsALostDatabaseBack(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	m := Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}
	folder := t.TempDir()
	keeper := begun(t, t.TempDir(), func(c *Config) { c.Depot = folder; inFleet(m)(c) })
	other := begun(t, t.TempDir(), inFleet(m))
	_, err := keeper.AddAccount(t.Context(), api.AddAccount{Name: "photos", Key: string(other.node.ID()), Quota: 1 << 30})
	must(t, err)
	meta, err := keeper.lender.db.Meta(t.Context())
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	before, err := keeper.member.snapshot(ctx, meta.Depot, rounds.Target{Term: 1_000, Seq: 1})
	must(t, err)

	// of the next one nobody got anything
	last := added(t, keeper, api.Add{Paths: []string{file(t, large(5), t.TempDir(), leasesName)}})
	must(t, other.Close())
	_, err = keeper.member.store.AddInternal(t.Context(), last.Ticket)
	must(t, err)
	p, err := rounds.NewPointer(keeper.member.store.KV, roundOf(meta.Depot))
	must(t, err)
	must(t, p.Publish(t.Context(), rounds.Target{Term: 2_000, Seq: 1, Value: last.Share}))
	must(t, keeper.Close())
	begun(t, other.dir)

	dir := t.TempDir()
	must(t, m.Save(dir))
	got, err := RestoreLeases(t.Context(), Config{Dir: dir, Settings: Settings{Depot: folder, Listen: []string{"127.0.0.1:0"}}})
	if err != nil || got.Share != before || got.Term != 0 {
		t.Errorf("restored %s, %v; members have %s", got.Share.Short(), err, before.Short())
	}
}
