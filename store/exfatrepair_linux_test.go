package store_test

import (
	"path/filepath"
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/store"
)

// Nor does a repair end because of the new number of what it replaces.
func TestAFileWithANewInodeNumberIsReplacedByARepair(t *testing.T) {
	src := filepath.Join(t.TempDir(), "stuff")
	tree{"a": random(300_000), "b": "some"}.make(t, src)
	im := importDir(t, src, store.ImportOptions{})
	at, forget := testrig.ExFAT(t)
	tree{"a": random(300_001), "b": "some"}.make(t, filepath.Join(at, "stuff"))
	p := openPart(t, at, im.Manifest, store.PartialOptions{Repair: true, MaxOpen: 1})
	if len(p.Replaces()) != 1 {
		t.Fatal(p.Replaces())
	}
	copyAll(t, p, im.Tree)
	_, err := p.Sync()
	check(t, err)
	forget(filepath.Join(at, "stuff", "a"))
	if _, err := p.Finish(t.Context()); err != nil {
		t.Error(err)
	}
	check(t, p.Close())
}
