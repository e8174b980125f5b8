package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
	"github.com/piecelease/fetcher/store/vfs"
)

// fixedExec is a folder on a file system that has no permissions, such as FAT, exFAT or NTFS, as Linux shows it: every file can be
// executed, or none can.
type fixedExec struct {
	vfs.FS
	exec bool
	told bool // it is known of the file system, as it is of FAT
}

func (d fixedExec) Sub(name string) (vfs.FS, error) {
	sub, err := d.FS.Sub(name)
	if err != nil {
		return nil, err
	}
	return fixedExec{sub, d.exec, d.told}, nil
}

func (d fixedExec) Lstat(name string) (vfs.Info, error) {
	info, err := d.FS.Lstat(name)
	info.Exec, info.NoExec = d.exec, d.told
	return info, err
}

func (d fixedExec) SetExec(string) error { return nil }

func (d fixedExec) Open(name string) (vfs.File, error) { return d.file(d.FS.Open(name)) }
func (d fixedExec) Edit(name string) (vfs.File, error) { return d.file(d.FS.Edit(name)) }
func (d fixedExec) Create(name string, exec bool) (vfs.File, error) {
	return d.file(d.FS.Create(name, exec))
}

type fixedExecFile struct {
	vfs.File
	of fixedExec
}

func (d fixedExec) file(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return fixedExecFile{f, d}, nil
}

func (f fixedExecFile) Stat() (vfs.Info, error) {
	info, err := f.File.Stat()
	info.Exec, info.NoExec = f.of.exec, f.of.told
	return info, err
}

// What was fetched onto a file system that has no permissions is the share when it is looked at again, whole or in part, and
// nothing of it is to be repaired.
func TestWhatIsOnADiskWithoutPermissionsIsTheShare(t *testing.T) {
	top := t.TempDir()
	src := filepath.Join(top, "stuff")
	tree{"a": "some", "b": random(100_000)}.make(t, src)
	check(t, os.WriteFile(filepath.Join(src, "x"), []byte("executable"), 0o777))
	check(t, os.WriteFile(filepath.Join(top, "single"), []byte("one file"), 0o666))
	folder, single := importDir(t, src, store.ImportOptions{}), importDir(t, filepath.Join(top, "single"), store.ImportOptions{})
	for name, x := range map[string]struct {
		im     *store.Imported
		wanted []bool
	}{
		"whole":  {im: folder},
		"part":   {im: folder, wanted: []bool{true, false, true}},
		"single": {im: single},
	} {
		for _, exec := range []bool{true, false} {
			at := fmt.Sprintf("%s, all can be executed: %v", name, exec)
			disk, err := vfs.Dir(t.TempDir())
			check(t, err)
			defer disk.Close()
			for _, again := range []bool{false, true} {
				p, err := store.OpenPartialIn(t.Context(), fixedExec{FS: disk, exec: exec}, x.im.Manifest, store.PartialOptions{Wanted: x.wanted, Repair: again})
				check(t, err)
				if _, done := p.Done(); done != again || len(p.Replaces()) > 0 {
					t.Errorf("%s: done %v, replaces %q", at, done, p.Replaces())
				}
				if !again {
					copyAll(t, p, x.im.Tree)
				}
				_, err = p.Finish(t.Context())
				check(t, err)
				check(t, p.Close())
				if x.wanted != nil {
					check(t, vfs.RemoveFile(disk, "stuff.partial/placed")) // as it is where times are not kept
				}
			}
			list, err := disk.ReadDir(".")
			check(t, err)
			if x.wanted == nil && len(list) != 1 {
				t.Errorf("%s: it leaves %v", at, list)
			}
		}
	}
}

// Where bits are kept, a file that can be executed and should not, or the reverse, is not the share's. To find that out leaves nothing.
func TestAnExecutableBitThatIsKeptCounts(t *testing.T) {
	src, dir := filepath.Join(t.TempDir(), "stuff"), t.TempDir()
	tree{"a": "some"}.make(t, src)
	im := importDir(t, src, store.ImportOptions{})
	tree{"a": "some"}.make(t, filepath.Join(dir, "stuff"))
	check(t, os.Chmod(filepath.Join(dir, "stuff", "a"), 0o777))
	if _, err := store.OpenPartial(t.Context(), dir, im.Manifest, store.PartialOptions{}); !errors.Is(err, share.ErrExists) {
		t.Error(err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("it leaves %v, %v", list, err)
	}
}
