package store_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// onDisk is a folder on the file system of that ID.
type onDisk struct {
	vfs.FS
	id uint64
}

func (d onDisk) DiskID() uint64 { return d.id }

func (d onDisk) Sub(name string) (vfs.FS, error) {
	sub, err := d.FS.Sub(name)
	return onDisk{sub, d.id}, err
}

// An image that was made so that it can be made again gives every file the same times and inode. Another such image that is
// mounted at the same path is not taken for the first.
func TestAnotherDiskAtTheSamePathIsHashed(t *testing.T) {
	top := t.TempDir()
	check(t, os.Mkdir(filepath.Join(top, "stuff"), 0o777))
	check(t, os.WriteFile(filepath.Join(top, "stuff", "data"), []byte(random(100_000)), 0o666))
	disk, err := vfs.Dir(top)
	check(t, err)
	defer disk.Close()
	st := openState(t, t.TempDir())
	for i, x := range []struct {
		id     uint64
		hashed int64
	}{{1, 100_000}, {1, 0}, {2, 100_000}, {2, 0}, {0, 100_000}, {0, 0}} {
		im, err := store.Import(t.Context(), "stuff", store.ImportOptions{State: st, FS: onDisk{disk, x.id}})
		check(t, err)
		check(t, im.Tree.Close())
		if im.Hashed != x.hashed {
			t.Errorf("import %d: %d bytes are hashed, want %d", i, im.Hashed, x.hashed)
		}
	}
}
