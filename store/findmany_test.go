package store_test

import (
	"fmt"
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// looked is a folder that counts how often something in it is looked at.
type looked struct {
	vfs.FS
	times *int
}

func (d looked) Lstat(name string) (vfs.Info, error) {
	*d.times++
	return d.FS.Lstat(name)
}

// Of a folder with many files only those with the name of a NAME.partial are looked at for one.
func TestFilesBesideANamePartialAreNotLookedAtForIt(t *testing.T) {
	testrig.Slow(t)
	const files = 1000
	x := newMended(t, tree{"a": "some"})
	dir, err := vfs.Dir(t.TempDir())
	x.must(err)
	defer dir.Close()
	for i := range files {
		x.must(vfs.WriteFile(dir, fmt.Sprint(i), "new", nil, false))
	}
	times := 0
	if _, err := store.FindIn(looked{dir, &times}, x.im.Manifest.ID()); err != nil {
		t.Fatal(err)
	}
	if times > files/10 {
		t.Errorf("%d of %d files were looked at", times, files)
	}
}
