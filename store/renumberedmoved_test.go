package store_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// changeless is renumbered where no change times are kept, as on FAT and exFAT: when a file gets another inode number, its change time is that of its
// last write. Until then it is later than that, as of what was moved.
type changeless struct{ renumbered }

func (d changeless) Sub(name string) (vfs.FS, error) {
	sub, err := d.renumbered.Sub(name)
	if err != nil {
		return nil, err
	}
	return changeless{sub.(renumbered)}, nil
}

func (d changeless) told(info vfs.Info) vfs.Info {
	if info.CTime++; *d.more > 0 {
		info.CTime = info.MTime
	}
	return info
}

func (d changeless) Lstat(name string) (vfs.Info, error) {
	info, err := d.renumbered.Lstat(name)
	return d.told(info), err
}

func (d changeless) Open(name string) (vfs.File, error) {
	f, err := d.renumbered.Open(name)
	return changelessFile{f, d}, err
}

type changelessFile struct {
	vfs.File
	on changeless
}

func (f changelessFile) Stat() (vfs.Info, error) {
	info, err := f.File.Stat()
	return f.on.told(info), err
}

// What was fetched onto FAT or exFAT, and so was moved after it was written, is served when it has another inode number: its blocks decide.
func TestWhatWasMovedIsServedWithANewInodeNumber(t *testing.T) {
	src := filepath.Join(t.TempDir(), "f")
	check(t, os.WriteFile(src, []byte(random(300_000)), 0o666))
	im := importDir(t, src, store.ImportOptions{})
	dir, err := vfs.Dir(t.TempDir())
	check(t, err)
	defer dir.Close()
	disk := changeless{renumbered{dir, new(uint64)}}
	p, err := store.OpenPartialIn(t.Context(), disk, im.Manifest, store.PartialOptions{})
	check(t, err)
	defer p.Close()
	copyAll(t, p, im.Tree)
	_, err = p.Finish(t.Context())
	check(t, err)
	block := make([]byte, share.BlockSize)
	_, err = p.ReadRun(0, 0, 1, block)
	check(t, err)
	*disk.more = 1000
	if _, err := p.ReadRun(0, 0, 1, block); err != nil {
		t.Error("it is not served:", err)
	}
}
