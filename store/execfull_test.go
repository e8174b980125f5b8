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

// fullNoChmod is noChmod on a disk that is full for new files while full is.
type fullNoChmod struct {
	noChmod
	full *bool
}

func (d fullNoChmod) Sub(name string) (vfs.FS, error) {
	sub, err := d.noChmod.Sub(name)
	if err != nil {
		return nil, err
	}
	return fullNoChmod{sub.(noChmod), d.full}, nil
}

func (d fullNoChmod) Create(name string, exec bool) (vfs.File, error) {
	if *d.full {
		return nil, vfs.Full(&fs.PathError{Op: "create", Path: name, Err: syscall.ENOSPC})
	}
	return d.noChmod.Create(name, exec)
}

// That the disk was full when it was to be found out whether it keeps executable bits says nothing of that: there is room later.
func TestAFullDiskDoesNotSayThatItKeepsExecutableBits(t *testing.T) {
	x := newMended(t, tree{"a": "some", "run*": "#!"})
	dir, err := vfs.Dir(t.TempDir())
	x.must(err)
	defer dir.Close()
	full := false
	p, err := store.OpenPartialIn(t.Context(), fullNoChmod{noChmod{fixedExec{FS: dir}, syscall.EPERM}, &full}, x.im.Manifest, store.PartialOptions{})
	x.must(err)
	defer p.Close()
	copyAll(t, p, x.im.Tree)
	_, err = p.Sync()
	x.must(err)
	full = true
	if _, err = p.Finish(t.Context()); !errors.Is(err, share.ErrDiskFull) {
		t.Error("the disk is full:", err)
	}
	full = false
	if _, err = p.Finish(t.Context()); err != nil {
		t.Error("there is room again:", err)
	}
}
