package store_test

import (
	"io/fs"
	"syscall"
	"testing"

	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// noChmod is a folder on a file system that shows no file as executable, and refuses to change that: so does FAT, or a network drive, to
// a user who may write to a file of another, and so do drives in user space that know no permissions.
type noChmod struct {
	fixedExec
	err error
}

func (d noChmod) Sub(name string) (vfs.FS, error) {
	sub, err := d.FS.Sub(name)
	if err != nil {
		return nil, err
	}
	return noChmod{fixedExec{FS: sub}, d.err}, nil
}

func (d noChmod) SetExec(name string) error {
	return &fs.PathError{Op: "chmod", Path: name, Err: d.err}
}

// A fetch of something executable ends where no executable bit can be kept.
func TestAFetchEndsWhereNoExecutableBitCanBeSet(t *testing.T) {
	x := newMended(t, tree{"a": "some", "run*": "#!"})
	for _, why := range []error{syscall.EPERM, syscall.ENOSYS, syscall.ENOTSUP} {
		dir, err := vfs.Dir(t.TempDir())
		x.must(err)
		defer dir.Close()
		p, err := store.OpenPartialIn(t.Context(), noChmod{fixedExec{FS: dir}, why}, x.im.Manifest, store.PartialOptions{})
		x.must(err)
		copyAll(t, p, x.im.Tree)
		if _, err = p.Finish(t.Context()); err != nil {
			t.Error(err)
		}
		x.must(p.Close())
	}
}
