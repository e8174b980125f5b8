package store_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// masked is a folder on a file system that has no permissions, and was mounted for another user: no file can be executed, and nobody but that user
// may ask for it.
type masked struct{ fixedExec }

func (d masked) Sub(name string) (vfs.FS, error) {
	sub, err := d.FS.Sub(name)
	return masked{fixedExec{sub, d.exec}}, err
}

func (d masked) SetExec(name string) error {
	return &fs.PathError{Op: "chmod", Path: name, Err: fs.ErrPermission}
}

// A file that can be executed arrives there as any other.
func TestAnExecutableArrivesOnADiskOfAnother(t *testing.T) {
	src := filepath.Join(t.TempDir(), "stuff")
	tree{"a": "some"}.make(t, src)
	check(t, os.WriteFile(filepath.Join(src, "x"), []byte("executable"), 0o777))
	im := importDir(t, src, store.ImportOptions{})
	for name, wanted := range map[string][]bool{"whole": nil, "part": {false, true}} {
		disk, err := vfs.Dir(t.TempDir())
		check(t, err)
		defer disk.Close()
		p, err := store.OpenPartialIn(t.Context(), masked{fixedExec{disk, false}}, im.Manifest, store.PartialOptions{Wanted: wanted})
		check(t, err)
		defer p.Close()
		check(t, copyWanted(p, im.Tree, wanted))
		if _, err := p.Finish(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
