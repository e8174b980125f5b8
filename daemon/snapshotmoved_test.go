package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/rounds"
)

// A snapshot that was made before the state directory was moved goes as others do: with its entry, its file, and its place on the fleet's list.
func TestASnapshotFromBeforeTheStateDirectoryMovedGoes(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	m := Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}
	folder, from, to := t.TempDir(), filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	begin := func(dir string) *Daemon { return begun(t, dir, func(c *Config) { c.Depot = folder; inFleet(m)(c) }) }
	snapshot := func(d *Daemon, seq uint64) string {
		t.Helper()
		_, err := d.AddAccount(t.Context(), api.AddAccount{Name: fmt.Sprint("account", seq), Key: string(begun(t, t.TempDir()).node.ID()), Quota: 1 << 30}) // so that it is another share
		must(t, err)
		name, err := d.lender.db.Meta(t.Context())
		must(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		id, err := d.member.snapshot(ctx, name.Depot, rounds.Target{Term: 1_000_000 * seq, Seq: 1})
		must(t, err)
		return id.String()
	}
	begun(t, t.TempDir(), inFleet(m)) // who fetches them
	d := begin(from)
	first := snapshot(d, 1)
	must(t, d.Close())
	must(t, os.Rename(from, to))
	d = begin(to)
	snapshot(d, 2)
	snapshot(d, 3)
	all, err := d.Entries(t.Context())
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
