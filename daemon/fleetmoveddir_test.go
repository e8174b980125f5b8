package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/rounds"
)

// A member whose state directory was moved still has, and serves, what it keeps in there for the fleet: the snapshot that brings a lost depot back.
func TestAMemberThatWasMovedHasItsSnapshots(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	m := Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}
	folder, from, to := t.TempDir(), filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	f := depotFleet{Membership: m, folder: folder}
	f.keeper = begun(t, t.TempDir(), func(c *Config) { c.Depot = folder; inFleet(m)(c) })
	f.other = begun(t, from, inFleet(m))
	id, err := f.snapshot(t, "photos", rounds.Target{Term: 1_000, Seq: 1})
	must(t, err)
	must(t, f.other.Close())
	must(t, f.keeper.Close()) // and the depot loses its state directory
	must(t, os.Rename(from, to))
	f.other = begun(t, to, inFleet(m))
	for _, e := range entriesOf(t, f.other, 1) {
		if e = until(t, f.other, e.ID, "served", in(api.Served)); e.Share != id.String() {
			t.Errorf("it serves %s", e.Share)
		}
	}
	dir := t.TempDir()
	must(t, m.Save(dir))
	if r, err := RestoreLeases(t.Context(), Config{Dir: dir, Settings: Settings{Depot: folder, Listen: []string{"127.0.0.1:0"}}}); err != nil {
		t.Errorf("restored %s: %v", r.Share.Short(), err)
	}
}
