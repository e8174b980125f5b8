package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// A file system in memory may be mounted below the folder that is shared. There, too, no time is relied on.
func TestInMemoryBelowAFolderNoTimeIsReliedOn(t *testing.T) {
	src := t.TempDir()
	sub := filepath.Join(src, "sub")
	check(t, os.Mkdir(sub, 0o777))
	mount(t, sub)
	editsAreNoticed(t, src, sub)
}

// An overlay whose changes are kept in memory, as on a system that runs from a read-only medium, is such a file system too.
func TestOnAnOverlayInMemoryNoTimeIsReliedOn(t *testing.T) {
	mem := t.TempDir()
	mount(t, mem)
	src := overlay(t, mem)
	editsAreNoticed(t, src, src)
}

// On an overlay that a disk is below, as in a container, asking the overlay to write a file out does nothing.
func TestAnEditThroughAMappingOnAnOverlayIsNoticed(t *testing.T) {
	src := overlay(t, t.TempDir())
	editsAreNoticed(t, src, src)
}

// Nor does it let itself be synced if it is mounted as volatile.
func TestAnEditThroughAMappingOnAVolatileOverlayIsNoticed(t *testing.T) {
	src := overlay(t, t.TempDir(), "volatile")
	editsAreNoticed(t, src, src)
}

// There, what was not touched is not hashed again, whether it is in the layer that has the changes or in the one below.
func TestOnAnOverlayWhatWasImportedIsKnown(t *testing.T) {
	for _, layer := range []string{"upper", "lower"} {
		top := t.TempDir()
		tree{"a": "some", "b": random(300_000)}.make(t, filepath.Join(top, layer, "stuff"))
		src, st := filepath.Join(overlay(t, top), "stuff"), openState(t, t.TempDir())
		for _, hashed := range []int64{300_004, 0} {
			im := importDir(t, src, store.ImportOptions{State: st})
			check(t, im.Tree.Close())
			if im.Hashed != hashed {
				t.Errorf("%s: %d bytes are hashed, want %d", layer, im.Hashed, hashed)
			}
		}
	}
}

// What was fetched onto an overlay in memory is not read as what it was, though nothing was imported.
func TestOnAnOverlayInMemoryWhatIsFetchedIsCompared(t *testing.T) {
	src, mem := filepath.Join(t.TempDir(), "f"), t.TempDir()
	check(t, os.WriteFile(src, []byte(random(100_000)), 0o666))
	mount(t, mem)
	dir := overlay(t, mem)
	im := importDir(t, src, store.ImportOptions{})
	p := openPart(t, dir, im.Manifest, store.PartialOptions{})
	copyAll(t, p, im.Tree)
	change := mapped(t, filepath.Join(dir, "f.partial", "data"))
	for range 255 {
		change() // to what it was
	}
	_, err := p.Sync()
	check(t, err)
	at, err := p.Finish(t.Context())
	check(t, err)
	sameOnDisk(t, at, src)
	change()
	if _, err := p.ReadRun(0, 0, 1, make([]byte, share.BlockSize)); !errors.Is(err, share.ErrChanged) {
		t.Error("it is served:", err)
	}
}

// overlay mounts one, whose folders are in top, for the rest of the test. It needs root.
func overlay(t *testing.T, top string, options ...string) string {
	t.Helper()
	at := t.TempDir()
	for _, dir := range []string{"lower", "upper", "work"} {
		check(t, os.MkdirAll(filepath.Join(top, dir), 0o777))
	}
	options = append(options, "lowerdir="+top+"/lower", "upperdir="+top+"/upper", "workdir="+top+"/work")
	if err := syscall.Mount("overlay", at, "overlay", 0, strings.Join(options, ",")); err != nil {
		t.Skip("NOT TESTED: no overlay here:", err)
	}
	t.Cleanup(func() { check(t, syscall.Unmount(at, syscall.MNT_DETACH)) })
	return at
}

func editsAreNoticed(t *testing.T, src, at string) {
	t.Helper()
	name := filepath.Join(at, "f")
	check(t, os.WriteFile(name, []byte(random(100_000)), 0o666))
	st := openState(t, t.TempDir())
	change := mapped(t, name)
	first := importDir(t, src, store.ImportOptions{State: st})
	defer first.Tree.Close()
	change()
	if _, err := first.Tree.ReadRun(0, 0, 1, make([]byte, share.BlockSize)); !errors.Is(err, share.ErrChanged) {
		t.Error("it is served:", err)
	}
	again := importDir(t, src, store.ImportOptions{State: st})
	defer again.Tree.Close()
	if again.Manifest.ID() == first.Manifest.ID() {
		t.Error("it is taken for the same share")
	}
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
