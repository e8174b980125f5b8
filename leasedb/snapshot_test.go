package leasedb

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/piecelease/fetcher/depot"
)

// A snapshot has what was promised when it was made, whatever came later. The database that
// was there is set aside, and the restored one removes nothing before the folder was crawled.
func TestASnapshotIsTheDatabaseAtItsMoment(t *testing.T) {
	r := newRig(t)
	r.ok(r.SetIdentity(t.Context(), "ours", "self"))
	r.ok(r.CycleDone(t.Context(), start, "self", depot.Cycle{}))
	for i := range 5 {
		r.stable(nth(i))
	}
	leases := func() (out [][]depot.Lease) {
		for i := range 8 {
			all, err := r.Leases(t.Context(), start, nth(i))
			r.ok(err)
			out = append(out, all)
		}
		return out
	}
	want := leases()
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	r.ok(r.Snapshot(t.Context(), snapshot))
	for i := 5; i < 8; i++ {
		r.stable(nth(i))
	}
	if reflect.DeepEqual(leases(), want) {
		t.Fatal("nothing was promised after the snapshot")
	}
	r.ok(r.DB.Close())
	r.DB = nil
	if _, err := Restore(t.Context(), snapshot, r.path, "another"); !errors.Is(err, ErrSnapshot) {
		t.Errorf("that of another depot: %v", err)
	}
	aside, err := Restore(t.Context(), snapshot, r.path, "ours")
	r.ok(err)
	if _, err := os.Stat(aside); err != nil || aside != r.path+".before-1" { // it may be a good one
		t.Errorf("the database of before: %q, %v", aside, err)
	}
	r.open()
	if got := leases(); !reflect.DeepEqual(got, want) {
		t.Errorf("restored: %v, want %v", got, want)
	}
	m, err := r.Meta(t.Context())
	if err != nil || m.Depot != "ours" || m.Self != "" || !m.CompleteSince.IsZero() || !m.GC {
		t.Errorf("%+v, %v", m, err)
	}
	bad := filepath.Join(t.TempDir(), "bad")
	r.ok(os.WriteFile(bad, []byte("no database, of some length"), 0o600))
	if _, err := Restore(t.Context(), bad, r.path, "ours"); !errors.Is(err, ErrSnapshot) {
		t.Errorf("what is no database: %v", err)
	}
}
