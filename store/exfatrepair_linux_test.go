package store_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// What is to be replaced and has another inode number may be another file: the repair says so, and the next one replaces it.
func TestAFileWithANewInodeNumberIsReplacedByTheNextRepair(t *testing.T) {
	src := filepath.Join(t.TempDir(), "stuff")
	tree{"a": random(300_000), "b": "some"}.make(t, src)
	im := importDir(t, src, store.ImportOptions{})
	at, forget := testrig.ExFAT(t)
	tree{"a": random(300_001), "b": "some"}.make(t, filepath.Join(at, "stuff"))
	repair := func(between func()) error {
		p := openPart(t, at, im.Manifest, store.PartialOptions{Repair: true, MaxOpen: 1})
		defer p.Close()
		if len(p.Replaces()) != 1 {
			t.Fatal(p.Replaces())
		}
		copyAll(t, p, im.Tree)
		_, err := p.Sync()
		check(t, err)
		between()
		_, err = p.Finish(t.Context())
		return err
	}
	err := repair(func() { forget(filepath.Join(at, "stuff", "a")) })
	if !errors.Is(err, share.ErrExists) || !strings.Contains(err.Error(), "inode number") {
		t.Error(err)
	}
	check(t, repair(func() {}))
}
