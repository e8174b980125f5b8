package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// mapped is a file with a page that was changed through a mapping; change changes it
// again, which does not show in the file's times unless it was written out meanwhile.
func mapped(t *testing.T, name string) (change func()) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	check(t, err)
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	check(t, err)
	t.Cleanup(func() { unix.Munmap(b) })
	b[7]++
	return func() { b[7]++ }
}

// A change through a mapping after a file was hashed is noticed, even if the page had been
// changed before.
func TestAnEditThroughAMappingIsNoticed(t *testing.T) {
	src := filepath.Join(t.TempDir(), "f")
	check(t, os.WriteFile(src, []byte(random(100_000)), 0o666))
	st := openState(t, t.TempDir())
	change := mapped(t, src)
	first := importDir(t, src, store.ImportOptions{State: st})
	change()
	if _, err := first.Tree.ReadRun(0, 0, 1, make([]byte, share.BlockSize)); !errors.Is(err, share.ErrChanged) {
		t.Error("it is served:", err)
	}
	if again := importDir(t, src, store.ImportOptions{State: st}); again.Manifest.ID() == first.Manifest.ID() {
		t.Error("it is taken for the same share")
	}
}

// A file system in memory writes nothing out: there, equal times do not count as equal
// content, and what is served is compared with its hashes.
func TestInMemoryNoTimeIsReliedOn(t *testing.T) {
	var fs unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		t.Skip("no file system in memory here")
	}
	dir, err := os.MkdirTemp("/dev/shm", "store-test-")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	src := filepath.Join(dir, "f")
	check(t, os.WriteFile(src, []byte(random(100_000)), 0o666))
	st := openState(t, t.TempDir())
	change := mapped(t, src)
	first := importDir(t, src, store.ImportOptions{State: st})
	if _, err := first.Tree.ReadRun(0, 0, 2, make([]byte, 2*share.BlockSize)); err != nil {
		t.Error(err)
	}
	change()
	if _, err := first.Tree.ReadRun(0, 0, 1, make([]byte, share.BlockSize)); !errors.Is(err, share.ErrChanged) {
		t.Error("it is served:", err)
	}
	if again := importDir(t, src, store.ImportOptions{State: st}); again.Manifest.ID() == first.Manifest.ID() || again.Hashed != 100_000 {
		t.Errorf("it is taken for the same share, %d bytes hashed", again.Hashed)
	}
}

// There, too, a file that is edited while it is fetched, with its old time set again, is
// not taken for what was verified.
func TestInMemoryAnEditWithItsTimeSetBackIsNoticed(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "store-test-")
	if err != nil {
		t.Skip("no file system in memory here")
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	src := filepath.Join(t.TempDir(), "f")
	check(t, os.WriteFile(src, []byte(random(100_000)), 0o666))
	im := importDir(t, src, store.ImportOptions{})
	p := openPart(t, dir, im.Manifest, store.PartialOptions{})
	copyAll(t, p, im.Tree)
	_, err = p.Sync()
	check(t, err)
	at := filepath.Join(dir, "f.partial", "data")
	info, err := os.Stat(at)
	check(t, err)
	time.Sleep(20 * time.Millisecond) // a tick of the file system's clock
	f, err := os.OpenFile(at, os.O_WRONLY, 0)
	check(t, err)
	_, err = f.WriteAt([]byte("edited"), 1000)
	check(t, errors.Join(err, f.Close(), os.Chtimes(at, info.ModTime(), info.ModTime())))
	var lost *store.SyncError
	if _, err := p.Finish(t.Context()); !errors.As(err, &lost) {
		t.Error("it is reported done:", err)
	}
}

// What differs in memory can be repaired: it counts as unchanged as long as all its times are.
func TestInMemoryATargetCanBeRepaired(t *testing.T) {
	for name, tr := range map[string]tree{"f": {".": random(100_000)}, "stuff": {"a": "right", "b": random(100_000)}} {
		dir, err := os.MkdirTemp("/dev/shm", "store-test-")
		if err != nil {
			t.Skip("no file system in memory here")
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		src, at := filepath.Join(t.TempDir(), name), filepath.Join(dir, name)
		if name == "f" {
			check(t, os.WriteFile(src, []byte(tr["."]), 0o666))
			check(t, os.WriteFile(at, []byte("wrong"), 0o666))
		} else {
			tr.make(t, src)
			tree{"a": "wrong", "b": "wrong", "mine": "mine"}.make(t, at)
		}
		im := importDir(t, src, store.ImportOptions{})
		p := openPart(t, dir, im.Manifest, store.PartialOptions{Repair: true})
		copyAll(t, p, im.Tree)
		if _, err := p.Finish(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// There, too, what an abandoned fetch has left is removed, and what somebody else has changed of it stays.
func TestInMemoryAnAbandonedFetchIsRemoved(t *testing.T) {
	for name, edited := range map[string]bool{"ours": false, "edited": true} {
		dir, err := os.MkdirTemp("/dev/shm", "store-test-")
		if err != nil {
			t.Skip("no file system in memory here")
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		src := filepath.Join(t.TempDir(), "f")
		check(t, os.WriteFile(src, []byte(random(100_000)), 0o666))
		im := importDir(t, src, store.ImportOptions{})
		p := openPart(t, dir, im.Manifest, store.PartialOptions{})
		copyAll(t, p, im.Tree)
		_, err = p.Sync()
		check(t, errors.Join(err, p.Close()))
		at := filepath.Join(dir, "f.partial", "data")
		if edited {
			check(t, os.WriteFile(at, []byte("another's"), 0o666))
		}
		gone, kept, err := store.Discard(dir, im.Manifest)
		if _, e := os.Stat(at); err != nil || (e == nil) != edited || (kept != "") != edited || (gone != "") == edited {
			t.Errorf("%s: removed %q, kept %q, %v, %v", name, gone, kept, err, e)
		}
	}
}
