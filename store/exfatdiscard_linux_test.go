package store_test

import (
	"os"
	"path/filepath"
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/store"
)

// An abandoned transfer is removed from where inode numbers are made up: its files are ours, with and without verified pieces.
func TestATransferOfWhichFilesGetNewInodeNumbersIsDiscarded(t *testing.T) {
	src := filepath.Join(t.TempDir(), "stuff")
	tree{"a": random(300_000), "b": random(100_000)}.make(t, src)
	im := importDir(t, src, store.ImportOptions{})
	at, forget := testrig.ExFAT(t)
	p := openPart(t, at, im.Manifest, store.PartialOptions{MaxOpen: 1})
	check(t, copyPiece(p, im.Tree, 0, 1))
	check(t, p.Close())
	forget(filepath.Join(at, "stuff.partial", "data", "a"))
	_, kept, err := store.Discard(at, im.Manifest)
	check(t, err)
	if list, err := os.ReadDir(at); err != nil || len(list) > 0 {
		t.Errorf("it leaves %v, %v: %s", list, err, kept)
	}
}
