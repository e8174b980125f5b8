package store_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/piecelease/fetcher/store"
)

// overlay mounts one, whose folders are in top, for the rest of the test. It needs root.
func overlay(t *testing.T, top string) string {
	t.Helper()
	at := t.TempDir()
	for _, dir := range []string{"lower", "upper", "work"} {
		check(t, os.MkdirAll(filepath.Join(top, dir), 0o777))
	}
	if err := syscall.Mount("overlay", at, "overlay", 0, "lowerdir="+top+"/lower,upperdir="+top+"/upper,workdir="+top+"/work"); err != nil {
		t.Skip("NOT TESTED: no overlay here:", err)
	}
	t.Cleanup(func() { check(t, syscall.Unmount(at, syscall.MNT_DETACH)) })
	return at
}

// What was begun in a layer below an overlay, as in an image of a container, is ended above it.
func TestAFetchThatWasBegunBelowAnOverlayEnds(t *testing.T) {
	src, top := filepath.Join(t.TempDir(), "stuff"), t.TempDir()
	tree{"a": "some", "b": random(300_000)}.make(t, src)
	im := importDir(t, src, store.ImportOptions{})
	lower := filepath.Join(top, "lower")
	check(t, os.Mkdir(lower, 0o777))
	p := openPart(t, lower, im.Manifest, store.PartialOptions{})
	check(t, copyPiece(p, im.Tree, 0, 1))
	check(t, p.Close())
	dir := overlay(t, top)
	p = openPart(t, dir, im.Manifest, store.PartialOptions{})
	copyAll(t, p, im.Tree)
	at, err := p.Finish(t.Context())
	check(t, err)
	sameOnDisk(t, at, src)
}
