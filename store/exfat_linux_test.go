package store_test

import (
	"os"
	"path/filepath"
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// On FAT, exFAT and many file systems of FUSE a file that nobody has had open for a while has another inode number the next time. It may still be what
// it was: its blocks decide.
func TestAFileWithANewInodeNumberIsServed(t *testing.T) {
	at, forget := testrig.ExFAT(t)
	src := filepath.Join(at, "stuff")
	tree{"a": random(300_000), "b": "some"}.make(t, src)
	im := importDir(t, src, store.ImportOptions{})
	forget(filepath.Join(src, "a"))
	if err := im.Tree.Look(2); err != nil {
		t.Error("it is said to have changed:", err)
	}
	if _, err := im.Tree.ReadRun(0, 0, 1, make([]byte, share.BlockSize)); err != nil {
		t.Error("it is not served:", err)
	}
}

// Nor is what was fetched there fetched again, or set aside as not ours.
func TestAFetchOfWhichFilesGetNewInodeNumbersEnds(t *testing.T) {
	src := filepath.Join(t.TempDir(), "stuff")
	tree{"a": random(300_000), "b": random(100_000)}.make(t, src)
	im := importDir(t, src, store.ImportOptions{})
	at, forget := testrig.ExFAT(t)
	p := openPart(t, at, im.Manifest, store.PartialOptions{MaxOpen: 1})
	copyAll(t, p, im.Tree)
	_, err := p.Sync()
	check(t, err)
	forget(filepath.Join(at, "stuff.partial", "data", "a"))
	if _, err := p.Finish(t.Context()); err != nil {
		t.Error(err)
	}
	p.Close()
	p = openPart(t, at, im.Manifest, store.PartialOptions{})
	if n := p.Verified().Count(); n != 2 {
		t.Errorf("%d of 2 pieces are here", n)
	}
	copyAll(t, p, im.Tree)
	_, err = p.Finish(t.Context())
	check(t, err)
	check(t, p.Close())
	if list, err := os.ReadDir(at); err != nil || len(list) != 1 {
		t.Errorf("it leaves %v, %v", list, err)
	}
}
