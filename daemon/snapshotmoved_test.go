package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/rounds"
)

// A snapshot that was made before the state directory was moved goes as others do: with its entry, its file, and its place on the fleet's list.
func TestASnapshotFromBeforeTheStateDirectoryMovedGoes(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	f := newDepotFleet(t)
	snapshot := func(seq uint64) string {
		t.Helper()
		id, err := f.snapshot(t, fmt.Sprint("account", seq), rounds.Target{Term: 1_000_000 * seq, Seq: 1})
		must(t, err)
		return id.String()
	}
	first := snapshot(1)
	must(t, f.keeper.Close())
	to := filepath.Join(t.TempDir(), "to")
	must(t, os.Rename(f.keeper.dir, to))
	f.keeper = begun(t, to, func(c *Config) { c.Depot = f.folder; inFleet(f.Membership)(c) })
	snapshot(2)
	snapshot(3)
	all, err := f.keeper.Entries(t.Context())
	must(t, err)
	for _, e := range all {
		if e.Share == first {
			t.Errorf("entry %d, of %v, stays: %s, %s", e.ID, e.Paths, e.State, e.Reason)
		}
	}
	if _, err := os.Stat(filepath.Join(to, snapshotsName, fmt.Sprintf("%016x-1", 1_000_000))); err == nil {
		t.Error("its file stays")
	}
}
