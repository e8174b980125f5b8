package store_test

import (
	"testing"

	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// What was fetched onto a disk without permissions is what was fetched when it is looked at to be served, or removed, from there: an
// executable bit is all that differs, and that disk cannot keep it.
func TestWhatWasFetchedOntoADiskWithoutPermissionsIsStillThat(t *testing.T) {
	x := newMended(t, tree{"a": "some", "run*": "#!"})
	for _, exec := range []bool{false, true} {
		dir, err := vfs.Dir(t.TempDir())
		x.must(err)
		defer dir.Close()
		disk := fixedExec{FS: dir, exec: exec}
		p, err := store.OpenPartialIn(t.Context(), disk, x.im.Manifest, store.PartialOptions{})
		x.must(err)
		copyAll(t, p, x.im.Tree)
		_, err = p.Finish(t.Context())
		x.must(err)
		x.must(p.Close())
		im, err := store.Import(t.Context(), "stuff", store.ImportOptions{FS: disk, Of: x.im.Manifest})
		x.must(err)
		defer im.Tree.Close()
		if im.Manifest.ID() != x.im.Manifest.ID() {
			t.Errorf("all can be executed: %v: it is another share", exec)
		}
	}
}
