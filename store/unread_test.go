package store_test

import (
	"errors"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// shut is a folder in which nothing called shut may be read.
type shut struct{ vfs.FS }

func (d shut) Sub(name string) (vfs.FS, error) {
	sub, err := d.FS.Sub(name)
	return shut{sub}, err
}

func (d shut) Open(name string) (vfs.File, error) {
	if path.Base(name) == "shut" {
		return nil, &fs.PathError{Op: "openat", Path: name, Err: syscall.EACCES}
	}
	return d.FS.Open(name)
}

// Of a target that may not be read nobody knows whether it differs, and nothing of it is replaced.
func TestATargetThatMayNotBeReadDoesNotCountAsAnother(t *testing.T) {
	for name, wanted := range map[string]func(m *share.Manifest) []bool{"all": nil, "some": func(m *share.Manifest) []bool { return only(m, "sub/shut") }} {
		for _, repair := range []bool{false, true} {
			x := newMended(t, tree{"a": "1", "sub/shut": "23"})
			d, err := vfs.Dir(x.dir)
			x.must(err)
			defer d.Close()
			opt := store.PartialOptions{Repair: repair}
			if wanted != nil {
				opt.Wanted = wanted(x.im.Manifest)
			}
			_, err = store.OpenPartialIn(t.Context(), shut{d}, x.im.Manifest, opt)
			if !errors.Is(err, fs.ErrPermission) || errors.Is(err, share.ErrExists) || !strings.Contains(err.Error(), `"sub/shut" cannot be compared with the share: permission denied`) {
				t.Errorf("%s, repair %t: %v", name, repair, err)
			}
		}
	}
}
