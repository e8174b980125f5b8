package store_test

import (
	"strings"
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
)

// A file that an opening has removed is back after a power cut, and that opening failed before it claimed anything: the run before
// had ended in good order.
func TestARemovedFileThatComesBackIsOursThoughTheOpeningFailed(t *testing.T) {
	testrig.Slow(t)
	for seed := range uint64(32) {
		l := newLostRig(t)
		l.write(0, 0, 8)
		check(t, l.p.Close())
		l.d.NoSyncAll = false
		check(t, l.d.FS().SyncAll())
		l.d.NoSyncAll = true
		l.d.Fault = func(op storetest.Op) error {
			if op.Kind == "write" && strings.HasSuffix(op.Name, "/bits.new") {
				return errDisk
			}
			return nil
		}
		if _, err := store.OpenPartialIn(t.Context(), l.d.FS(), l.m, store.PartialOptions{}); err == nil {
			t.Fatal("nothing failed")
		}
		l.d.Fault = nil
		l.d.CutPower()
		l.d.Restart(seed)
		l.open()
		if at := l.p.Aside(); len(at) > 0 {
			t.Fatalf("seed %d: set aside: %q", seed, at)
		}
		check(t, l.p.Close())
	}
}
