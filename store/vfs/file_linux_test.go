package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// No name leads out of a folder, neither of one part nor through a folder or a symlink.
func TestNamesStayInTheFolder(t *testing.T) {
	top := t.TempDir()
	in := filepath.Join(top, "in")
	for _, err := range []error{
		os.Mkdir(in, 0o777), os.Mkdir(filepath.Join(in, "sub"), 0o777), os.WriteFile(filepath.Join(top, "out"), []byte("x"), 0o666),
		os.Symlink("..", filepath.Join(in, "up")), os.Symlink("../out", filepath.Join(in, "link")), os.Symlink("../new", filepath.Join(in, "dangling")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	d, err := Dir(in)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, name := range []string{"../out", "sub/../../out", "up/out", "link", "..", "sub/..", "", "sub/", filepath.Join(top, "out")} {
		for what, open := range map[string]func(string) (File, error){"open": d.Open, "edit": d.Edit, "seen": d.(dirFS).openSeen} {
			if f, err := open(name); err == nil {
				f.Close()
				t.Errorf("%s %q: no error", what, name)
			}
		}
	}
	for _, name := range []string{"../new", "up/new", "dangling", "sub/../../new"} {
		if f, err := d.Create(name, false); err == nil {
			f.Close()
			t.Errorf("%q was made", name)
		}
		if _, err := os.Lstat(filepath.Join(top, "new")); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("%q was made outside: %v", name, err)
		}
	}
	for _, name := range []string{"../out", "up/out", ".."} {
		if _, err := d.Lstat(name); err == nil {
			t.Errorf("lstat %q: no error", name)
		}
	}
}

// What is done to a file or a folder while it is closed is done before, or not at all.
func TestAClosedFileIsNotUsed(t *testing.T) {
	d, err := Dir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	f, err := d.Create("f", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("abc"), 0); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4)
	if n, err := f.ReadAt(b, 1); n != 2 || err != io.EOF {
		t.Errorf("read %d bytes, %v", n, err)
	}
	var using sync.WaitGroup
	for range 4 {
		using.Go(func() {
			var err error
			for err == nil {
				_, err = f.Stat()
			}
			if !errors.Is(err, os.ErrClosed) {
				t.Error(err)
			}
			for err = nil; err == nil; {
				_, err = d.Lstat("f")
			}
			if !errors.Is(err, os.ErrClosed) {
				t.Error(err)
			}
		})
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := f.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed twice: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	using.Wait()
	_, read := f.ReadAt(b, 0)
	_, write := f.WriteAt(b, 0)
	_, open := d.Open("f")
	for what, err := range map[string]error{"read": read, "write": write, "sync": f.Sync(), "open": open} {
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
