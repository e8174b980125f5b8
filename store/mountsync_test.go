package store_test

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/store/vfs"
)

// mountPoint is that folder, and what is mounted there.
type mountPoint struct {
	vfs.FS
	disk vfs.FS
}

func (d mountPoint) on(name string) (vfs.FS, string) {
	if name == "stuff" {
		return d.disk, "."
	}
	if below, ok := strings.CutPrefix(name, "stuff/"); ok {
		return d.disk, below
	}
	return d.FS, name
}

func (d mountPoint) Sub(name string) (vfs.FS, error) {
	at, name := d.on(name)
	return at.Sub(name)
}

func (d mountPoint) Lstat(name string) (vfs.Info, error) {
	at, name := d.on(name)
	return at.Lstat(name)
}

func (d mountPoint) Mkdir(name string) error {
	if name == "stuff" {
		return &fs.PathError{Op: "mkdir", Path: name, Err: fs.ErrExist}
	}
	return d.FS.Mkdir(name)
}

func (d mountPoint) Move(from, to string) error {
	if a, _ := d.on(from); a == d.FS {
		if b, _ := d.on(to); b != d.FS {
			return &os.LinkError{Op: "renameat", Old: from, New: to, Err: syscall.EXDEV}
		}
	}
	return d.FS.Move(from, to)
}

// What was made on a disk that is mounted at the target is durable before NAME.partial, which is on another disk, is removed: links and
// empty folders as well, of which nothing is copied.
func TestLinksAndFoldersBelowAMountPointAreDurable(t *testing.T) {
	all := tree{"f": "some"}
	for i := range 10 {
		all[fmt.Sprintf("d%d/link", i)], all[fmt.Sprintf("d%d/none/", i)] = "-> ../f", ""
	}
	r := newRig(t, all)
	for seed := range uint64(4) {
		top, disk := storetest.New(1<<30), storetest.New(1<<30)
		f, err := disk.FS().Create("f", false)
		check(t, err)
		_, err = f.WriteAt([]byte("some"), 0)
		check(t, err)
		check(t, disk.FS().SyncAll())
		p, err := store.OpenPartialIn(t.Context(), mountPoint{top.FS(), disk.FS()}, r.m, store.PartialOptions{Repair: true})
		check(t, err)
		_, err = p.Finish(t.Context())
		check(t, err)
		check(t, p.Close())
		disk.CutPower()
		disk.Restart(seed)
		missing := 0
		for _, e := range r.m.Entries() {
			if _, err := disk.FS().Lstat(e.Path); err != nil {
				missing++
			}
		}
		if missing > 0 {
			t.Errorf("seed %d: the share was whole, and after a power cut %d of %d are missing", seed, missing, r.m.Len())
		}
	}
}
