package store_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// renumbered is a disk that makes the inode numbers of files up, as FAT and exFAT: they are others when it was mounted again. That is what
// more is, apart from zero.
type renumbered struct {
	vfs.FS
	more *uint64
}

func (d renumbered) Sub(name string) (vfs.FS, error) {
	sub, err := d.FS.Sub(name)
	if err != nil {
		return nil, err
	}
	return renumbered{sub, d.more}, nil
}

func (d renumbered) BootID() string { return "boot" }

func (d renumbered) Lstat(name string) (vfs.Info, error) {
	info, err := d.FS.Lstat(name)
	if info.Type == 0 {
		info.Inode += *d.more
	}
	return info, err
}

func (d renumbered) Open(name string) (vfs.File, error) { return d.file(d.FS.Open(name)) }
func (d renumbered) Edit(name string) (vfs.File, error) { return d.file(d.FS.Edit(name)) }
func (d renumbered) Create(name string, exec bool) (vfs.File, error) {
	return d.file(d.FS.Create(name, exec))
}

func (d renumbered) file(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return renumberedFile{f, *d.more}, nil
}

type renumberedFile struct {
	vfs.File
	more uint64
}

func (f renumberedFile) Stat() (vfs.Info, error) {
	info, err := f.File.Stat()
	info.Inode += f.more
	return info, err
}

// A file that was begun, and of which no piece is verified yet, is ours though the disk was mounted again since, and gives it another inode
// number: it is not set aside as a thing of others, for which NAME.partial stays for good.
func TestAFileThatWasBegunIsOursWithANewInodeNumber(t *testing.T) {
	src, dst := filepath.Join(t.TempDir(), "stuff"), t.TempDir()
	tree{"a": random(300_000), "b": random(100)}.make(t, src)
	im := importDir(t, src, store.ImportOptions{})
	dir, err := vfs.Dir(dst)
	check(t, err)
	defer dir.Close()
	disk := renumbered{dir, new(uint64)}
	p, err := store.OpenPartialIn(t.Context(), disk, im.Manifest, store.PartialOptions{})
	check(t, err)
	block := make([]byte, share.BlockSize)
	n, err := im.Tree.ReadRun(0, 0, 1, block)
	check(t, err)
	check(t, p.Write(0, 0, block[:n]))
	check(t, p.Close())
	*disk.more = 1000
	p, err = store.OpenPartialIn(t.Context(), disk, im.Manifest, store.PartialOptions{})
	check(t, err)
	if at := p.Aside(); len(at) > 0 {
		t.Errorf("set aside: %q", at)
	}
	copyAll(t, p, im.Tree)
	_, err = p.Finish(t.Context())
	check(t, err)
	check(t, p.Close())
	if list, err := os.ReadDir(dst); err != nil || len(list) != 1 {
		t.Errorf("it leaves %v, %v", list, err)
	}
}
