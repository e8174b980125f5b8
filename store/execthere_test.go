package store_test

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// nothingNew is fixedExec where nothing can be made.
type nothingNew struct {
	fixedExec
	why error
}

func (d nothingNew) Sub(name string) (vfs.FS, error) {
	sub, err := d.FS.Sub(name)
	if err != nil {
		return nil, err
	}
	return nothingNew{fixedExec{FS: sub, exec: d.exec}, d.why}, nil
}

func (d nothingNew) Create(name string, exec bool) (vfs.File, error) {
	return nil, vfs.Full(&fs.PathError{Op: "create", Path: name, Err: d.why})
}

func (d nothingNew) Mkdir(name string) error {
	return vfs.Full(&fs.PathError{Op: "mkdir", Path: name, Err: d.why})
}

// Where no executable bits are kept, what was fetched does not differ from the share when the disk is full by now, or mounted so that it can
// only be read, and it cannot be tried what it keeps: all files there can be executed, or none can.
func TestAFullDiskWithoutPermissionsHasTheShareStill(t *testing.T) {
	for _, why := range []error{syscall.ENOSPC, syscall.EROFS} {
		for _, exec := range []bool{false, true} {
			for what, wanted := range map[string][]bool{"whole": nil, "part": {false, true, true}} {
				x := newMended(t, tree{"a": "some", "b": "more", "run*": "#!"})
				dir, err := vfs.Dir(x.dir)
				x.must(err)
				defer dir.Close()
				p, err := store.OpenPartialIn(t.Context(), nothingNew{fixedExec{FS: dir, exec: exec}, why}, x.im.Manifest, store.PartialOptions{Wanted: wanted})
				if err == nil {
					x.must(p.Close())
				}
				if errors.Is(err, share.ErrExists) {
					t.Errorf("%s, %v, all can be executed: %v: %v", what, why, exec, err)
				}
			}
		}
	}
}
