package store_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// unseen is a disk, such as one in memory, on which times do not show every change.
type unseen struct{ vfs.FS }

func (d unseen) Sub(name string) (vfs.FS, error) {
	sub, err := d.FS.Sub(name)
	return unseen{sub}, err
}

func (d unseen) Lstat(name string) (vfs.Info, error) {
	info, err := d.FS.Lstat(name)
	return info.Unseen(), err
}

func (d unseen) Open(name string) (vfs.File, error) {
	f, err := d.FS.Open(name)
	return unseenFile{f}, err
}

type unseenFile struct{ vfs.File }

func (f unseenFile) Stat() (vfs.Info, error) {
	info, err := f.File.Stat()
	return info.Unseen(), err
}

// What is in its place is waited for once, and not once for each file, if the clock was set back since it was written.
func TestTheClockSetBackIsWaitedForOnce(t *testing.T) {
	testrig.Slow(t)
	all := tree{"other": "not wanted"}
	for i := range 1000 {
		all[fmt.Sprintf("a/%d", i)] = "right"
	}
	r := newMended(t, all)
	synctest.Test(t, func(t *testing.T) { // where it is the year 2000
		dir, err := vfs.Dir(r.dir)
		check(t, err)
		defer dir.Close()
		began := time.Now()
		p, err := store.OpenPartialIn(t.Context(), unseen{dir}, r.im.Manifest, store.PartialOptions{Wanted: only(r.im.Manifest, "a")})
		check(t, err)
		defer p.Close()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v until 1000 small files were looked at", took)
		}
	})
}
