//go:build unix

package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// Where the whole folder that a share is put into was moved, and another is in its place, nothing is said to be done there.
func TestAPlaceThatIsMovedWhileAFetchRunsIsNoticed(t *testing.T) {
	top := t.TempDir()
	src, dir := filepath.Join(top, "stuff"), filepath.Join(top, "to")
	tree{"a": "right"}.make(t, src)
	im := importDir(t, src, store.ImportOptions{})
	check(t, os.Mkdir(dir, 0o777))
	p := openPart(t, dir, im.Manifest, store.PartialOptions{})
	copyAll(t, p, im.Tree)
	check(t, os.Rename(dir, filepath.Join(top, "moved")))
	tree{"stuff/a": "mine"}.make(t, dir)
	at, err := p.Finish(t.Context())
	if got, e := os.ReadFile(filepath.Join(at, "a")); err == nil && string(got) != "right" {
		t.Errorf("it is said to be at %s: %q, %v", at, got, e)
	} else if !errors.Is(err, share.ErrChanged) || !errors.Is(err, store.ErrMoved) {
		t.Error(err)
	}
	check(t, p.Close())
	check(t, os.RemoveAll(dir))
	check(t, os.Rename(filepath.Join(top, "moved"), dir)) // as it says
	p = openPart(t, dir, im.Manifest, store.PartialOptions{})
	at, err = p.Finish(t.Context())
	check(t, err)
	sameOnDisk(t, at, src)
}

// So it is with the folder of the share itself, where that was there before.
func TestATargetThatIsReplacedWhileAFetchRunsIsNoticed(t *testing.T) {
	src, dir := filepath.Join(t.TempDir(), "stuff"), t.TempDir()
	tree{"a": "right", "b": "other", "l": "-> a"}.make(t, src)
	im := importDir(t, src, store.ImportOptions{})
	tree{"mine": "mine"}.make(t, filepath.Join(dir, "stuff"))
	p := openPart(t, dir, im.Manifest, store.PartialOptions{Wanted: []bool{true, false, true}})
	copyAll(t, p, im.Tree)
	check(t, os.Rename(filepath.Join(dir, "stuff"), filepath.Join(dir, "moved")))
	check(t, os.Mkdir(filepath.Join(dir, "stuff"), 0o777))
	if at, err := p.Finish(t.Context()); err == nil {
		to, err := os.Readlink(filepath.Join(at, "l"))
		t.Errorf("it is said to be at %s: %q, %v", at, to, err)
	} else if !errors.Is(err, store.ErrMoved) {
		t.Error(err)
	}
	check(t, p.Close())
	p = openPart(t, dir, im.Manifest, store.PartialOptions{Wanted: []bool{true, false, true}})
	copyAll(t, p, im.Tree)
	_, err := p.Finish(t.Context())
	check(t, err)
	if to, err := os.Readlink(filepath.Join(dir, "stuff", "l")); to != "a" {
		t.Errorf("%q, %v", to, err)
	}
}
