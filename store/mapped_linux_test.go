package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// mapped is a file with a page that was changed through a mapping; change changes it
// once more, which shows in no time of the file unless it was written out meanwhile.
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

// What is changed through a mapping after a file was hashed is noticed, also where the
// page was changed before already.
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

// A file system in memory writes nothing out: there nothing is taken to be the same
// for its times, and what is served is compared with its hashes.
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
