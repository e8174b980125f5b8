package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// killed is renumbered, and nothing more reaches it after some writes to what is fetched, as when the program is killed then.
type killed struct {
	renumbered
	after *int // writes to files of data that still reach it
}

var errKilled = errors.New("killed")

func (d killed) Sub(name string) (vfs.FS, error) {
	sub, err := d.renumbered.Sub(name)
	if err != nil {
		return nil, err
	}
	return killed{sub.(renumbered), d.after}, nil
}

func (d killed) Edit(name string) (vfs.File, error) { return d.file(name)(d.renumbered.Edit(name)) }
func (d killed) Create(name string, exec bool) (vfs.File, error) {
	return d.file(name)(d.renumbered.Create(name, exec))
}

func (d killed) file(name string) func(vfs.File, error) (vfs.File, error) {
	return func(f vfs.File, err error) (vfs.File, error) {
		if err != nil {
			return nil, err
		}
		return killedFile{f, d, filepath.Base(name) == "a"}, nil
	}
}

type killedFile struct {
	vfs.File
	on   killed
	data bool
}

func (f killedFile) WriteAt(b []byte, at int64) (int, error) {
	if *f.on.after == 0 {
		return 0, errKilled
	}
	n, err := f.File.WriteAt(b, at)
	if f.data {
		*f.on.after--
	}
	return n, err
}

func (f killedFile) Stat() (vfs.Info, error) {
	if *f.on.after == 0 {
		return vfs.Info{}, errKilled
	}
	return f.File.Stat()
}

func (f killedFile) Sync() error {
	if *f.on.after == 0 {
		return errKilled
	}
	return f.File.Sync()
}

// A file that was being written when the program was killed is ours in the next run, also if its disk has made up another inode number by then.
func TestAFileThatWasWrittenInAKillIsOursWithANewInodeNumber(t *testing.T) {
	for _, more := range []uint64{0, 1000} {
		src, dst := filepath.Join(t.TempDir(), "stuff"), t.TempDir()
		tree{"a": random(1_000_000), "b": random(100)}.make(t, src)
		im := importDir(t, src, store.ImportOptions{})
		dir, err := vfs.Dir(dst)
		check(t, err)
		defer dir.Close()
		left := 2
		disk := killed{renumbered{dir, new(uint64)}, &left}
		p, err := store.OpenPartialIn(t.Context(), disk, im.Manifest, store.PartialOptions{})
		check(t, err)
		b := make([]byte, share.BlockSize)
		for i := range share.Block(2) {
			n, err := im.Tree.ReadRun(0, i, 1, b)
			check(t, err)
			p.Write(0, i, b[:n])
		}
		if left != 0 {
			t.Fatal("not killed", left)
		}
		p.Close()
		left, *disk.more = -1, more
		p, err = store.OpenPartialIn(t.Context(), disk, im.Manifest, store.PartialOptions{})
		check(t, err)
		if at := p.Aside(); len(at) > 0 {
			t.Errorf("with inode numbers %d later, set aside: %q", more, at)
		}
		copyAll(t, p, im.Tree)
		_, err = p.Finish(t.Context())
		check(t, err)
		check(t, p.Close())
		if list, err := os.ReadDir(dst); err != nil || len(list) != 1 {
			t.Errorf("with inode numbers %d later it leaves %v, %v", more, list, err)
		}
	}
}
