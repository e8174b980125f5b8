package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A SyncAll that is held needs no file to be opened, and closes what it holds.
func TestAHeldSyncIsClosedWithItsFolder(t *testing.T) {
	d, err := Dir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := HoldSync(d)
	if err := h.SyncAll(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	if err := h.SyncAll(); err == nil {
		t.Error("it is still held")
	}
}

// Where the system cannot rename without replacing, the fallback does not replace either.
func TestMovingTheLongWayReplacesNothing(t *testing.T) {
	at := t.TempDir()
	d, err := Dir(at)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	move := d.(dirFS).moveByLook
	for _, name := range []string{"f", "g", "dir/x", "dir2/y"} {
		os.MkdirAll(filepath.Dir(filepath.Join(at, name)), 0o777)
		if err := os.WriteFile(filepath.Join(at, name), []byte(name), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	os.Mkdir(filepath.Join(at, "empty"), 0o777)
	for _, c := range [][2]string{{"f", "g"}, {"f", "dir"}, {"dir", "f"}, {"dir", "dir2"}, {"dir", "empty"}} {
		if err := move(c[0], c[1]); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%v: %v", c, err)
		}
	}
	if err := move("none", "h"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := errors.Join(move("f", "dir/f"), move("dir", "moved")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"g", "moved/f", "moved/x", "dir2/y", "empty"} {
		if _, err := os.Lstat(filepath.Join(at, name)); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"f", "dir"} {
		if _, err := os.Lstat(filepath.Join(at, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there", name)
		}
	}
}

// An error names the whole path, also in a folder of the folder that was opened.
func TestErrorsNameTheWholePath(t *testing.T) {
	top := t.TempDir()
	fsys, err := Dir(top)
	if err != nil {
		t.Fatal(err)
	}
	defer fsys.Close()
	if err := fsys.Mkdir("sub"); err != nil {
		t.Fatal(err)
	}
	sub, err := fsys.Sub("sub")
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	at := filepath.Join(top, "sub", "x")
	_, open := sub.Open("x")
	_, edit := sub.Edit("x")
	_, stat := sub.Lstat("x")
	_, list := sub.ReadDir("x")
	_, link := sub.Readlink("x")
	_, deeper := sub.Sub("x")
	for what, err := range map[string]error{"open": open, "edit": edit, "lstat": stat, "readdir": list, "readlink": link, "sub": deeper, "remove": sub.Remove("x"), "rename": sub.Rename("x", "y"), "move": sub.Move("x", "y")} {
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), at) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := sub.Mkdir("x"); err != nil {
		t.Fatal(err)
	}
	if err := sub.Mkdir("x"); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), at) {
		t.Errorf("mkdir: %v", err)
	}
}

// An error of a move that is not permitted names the folder that may not be written to; others name both paths.
func TestAMoveThatFailsNamesWhatIsToBeChanged(t *testing.T) {
	d := dirFS{path: "/d"}
	for err, want := range map[error]error{
		syscall.EACCES: &fs.PathError{Op: "write", Path: filepath.Join("/d", "to"), Err: syscall.EACCES},
		syscall.EXDEV:  &os.LinkError{Op: "renameat", Old: filepath.Join("/d", "from", "f"), New: filepath.Join("/d", "to", "f"), Err: syscall.EXDEV},
	} {
		if got := d.told(&os.LinkError{Op: "renameat", Old: "from/f", New: "to/f", Err: err}); got.Error() != want.Error() || !errors.Is(got, err) {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

func TestAnInodeThatAloneDiffersIsADoubt(t *testing.T) {
	was := Stamp{Size: 1, MTime: 2, CTime: 3, Inode: 4}
	for now, want := range map[Stamp]bool{{1, 2, 3, 5}: true, {1, 2, 4, 4}: true, {1, 2, -3, 5}: true, {1, 2, 2, 5}: true, {1, 2, 4, 5}: false, {1, 3, 3, 5}: false, {2, 2, 3, 5}: false} {
		if was.Is(now) || was.Like(now) != want {
			t.Errorf("%v: %v, %v", now, was.Is(now), was.Like(now))
		}
	}
}
