package store_test

import (
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// A share of which only the manifest is known, as a depot has it, is served though its files have other inode numbers by now: all that is
// read of it is compared with its hashes in any case.
func TestAShareThatIsKeptIsServedWithNewInodeNumbers(t *testing.T) {
	top := t.TempDir()
	tree{"a": random(300_000), "b": random(100)}.make(t, filepath.Join(top, "stuff"))
	im := importDir(t, filepath.Join(top, "stuff"), store.ImportOptions{})
	dir, err := vfs.Dir(top)
	check(t, err)
	defer dir.Close()
	disk := renumbered{dir, new(uint64)}
	kept, err := store.OpenTree(disk, ".", im.Manifest)
	check(t, err)
	defer kept.Close()
	*disk.more = 1000
	if err := kept.Look(2); err != nil {
		t.Error("it is said to have changed:", err)
	}
	if _, err := kept.ReadRun(0, 0, 1, make([]byte, share.BlockSize)); err != nil {
		t.Error("it is not served:", err)
	}
}
