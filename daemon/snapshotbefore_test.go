package daemon

import (
	"testing"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/rounds"
)

// A depot's last snapshot was named though no other member had come for it in ten minutes, and then the depot lost its database with it.
// The snapshot before, which is kept for that, brings the accounts back.
func TestTheSnapshotBeforeBringsALostDatabaseBack(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	f := newDepotFleet(t)
	keeper, other := f.keeper, f.other
	before, err := f.snapshot(t, "photos", rounds.Target{Term: 1_000, Seq: 1})
	must(t, err)

	// of the next one nobody got anything
	last := added(t, keeper, api.Add{Paths: []string{file(t, large(5), t.TempDir(), leasesName)}})
	must(t, other.Close())
	_, err = keeper.member.store.AddInternal(t.Context(), last.Ticket, "")
	must(t, err)
	p, err := rounds.NewPointer(keeper.member.store.KV, roundOf(f.depot(t)))
	must(t, err)
	must(t, p.Publish(t.Context(), rounds.Target{Term: 2_000, Seq: 1, Value: last.Share}))
	must(t, keeper.Close())
	begun(t, other.dir)

	dir := t.TempDir()
	must(t, f.Save(dir))
	got, err := RestoreLeases(t.Context(), Config{Dir: dir, Settings: Settings{Depot: f.folder, Listen: []string{"127.0.0.1:0"}}})
	if err != nil || got.Share != before || got.Term != 0 {
		t.Errorf("restored %s, %v; members have %s", got.Share.Short(), err, before.Short())
	}
}
