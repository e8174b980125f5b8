package storetest_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/storetest"
	"github.com/piecelease/fetcher/store/vfs"
)

// Both file systems keep the contract of store.FS.
func TestFSKeepsItsContract(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) vfs.FS{
		"disk": func(*testing.T) vfs.FS { return storetest.New(1 << 30).FS() },
		"dir": func(t *testing.T) vfs.FS {
			d, err := vfs.Dir(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { d.Close() })
			return d
		},
	} {
		t.Run(name, func(t *testing.T) { contract(t, open(t)) })
	}
}

func contract(t *testing.T, d vfs.FS) {
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	is := func(err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Fatalf("got %v, want %v", err, want)
		}
	}
	create := func(name, content string) {
		t.Helper()
		f, err := d.Create(name, false)
		ok(err)
		_, err = f.WriteAt([]byte(content), 0)
		ok(err)
		ok(f.Sync())
		ok(f.Close())
	}
	read := func(name string) string {
		t.Helper()
		f, err := d.Open(name)
		ok(err)
		defer f.Close()
		b := make([]byte, 100)
		n, err := f.ReadAt(b, 0)
		is(err, io.EOF)
		return string(b[:n])
	}

	ok(d.Mkdir("dir"))
	is(d.Mkdir("dir"), fs.ErrExist)
	is(d.Mkdir("no/dir"), fs.ErrNotExist)
	create("dir/f", "hello")
	_, err := d.Create("dir/f", false)
	is(err, fs.ErrExist)
	_, err = d.Open("dir/none")
	is(err, fs.ErrNotExist)
	_, err = d.Edit("dir/none")
	is(err, fs.ErrNotExist)
	_, err = d.Lstat("dir/none")
	is(err, fs.ErrNotExist)
	_, err = d.Sub("none")
	is(err, fs.ErrNotExist)
	is(d.Remove("none"), fs.ErrNotExist)

	f, err := d.Edit("dir/f")
	ok(err)
	_, err = f.WriteAt([]byte("J"), 0)
	ok(err)
	_, err = f.WriteAt([]byte("end"), 10) // a hole before it
	ok(err)
	info, err := f.Stat()
	ok(err)
	there, err := d.Lstat("dir/f")
	ok(err)
	if info != there || info.Size != 13 || info.Type != 0 || info.Exec {
		t.Fatalf("%+v, %+v", info, there)
	}
	ok(f.Close())
	if got := read("dir/f"); got != "Jello\x00\x00\x00\x00\x00end" {
		t.Fatalf("%q", got)
	}
	x, err := d.Create("dir/x", true)
	ok(err)
	ok(x.Close())
	if info, _ := d.Lstat("dir/x"); !info.Exec {
		t.Error("not executable")
	}
	ok(d.SetExec("dir/f"))
	if info, _ := d.Lstat("dir/f"); !info.Exec {
		t.Error("not executable")
	}

	ok(d.Symlink("../dir/f", "dir/link"))
	is(d.Symlink("x", "dir/link"), fs.ErrExist)
	if target, err := d.Readlink("dir/link"); target != "../dir/f" || err != nil {
		t.Error(target, err)
	}
	if info, err := d.Lstat("dir/link"); err != nil || info.Type != fs.ModeSymlink {
		t.Error(info, err)
	}
	list, err := d.ReadDir("dir")
	ok(err)
	slices.SortFunc(list, func(a, b vfs.DirEntry) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	if want := []vfs.DirEntry{{Name: "f"}, {Name: "link", Type: fs.ModeSymlink}, {Name: "x"}}; !slices.Equal(list, want) {
		t.Errorf("%v", list)
	}
	if list, err := d.ReadDir("."); err != nil || len(list) != 1 || list[0].Type != fs.ModeDir {
		t.Error(list, err)
	}

	sub, err := d.Sub("dir")
	ok(err)
	if info, err := sub.Lstat("x"); err != nil || !info.Exec {
		t.Error(info, err)
	}
	for _, out := range []string{"../dir", "/dir", "..", "a/../../dir"} {
		if _, err := sub.Lstat(out); err == nil {
			t.Errorf("%q leads out", out)
		}
	}
	create("a", "A")
	create("b", "B")
	ok(d.Rename("a", "b"))
	if read("b") != "A" {
		t.Error("not replaced")
	}
	_, err = d.Open("a")
	is(err, fs.ErrNotExist)
	create("c", "C")
	is(d.Move("b", "c"), fs.ErrExist)
	is(d.Move("dir", "c"), fs.ErrExist)
	is(d.Move("none", "d"), fs.ErrNotExist)
	ok(d.Move("c", "dir/c"))
	ok(d.Mkdir("dir2"))
	is(d.Move("dir", "dir2"), fs.ErrExist)
	ok(d.Move("dir", "dir3"))
	if read("dir3/c") != "C" {
		t.Error("not moved")
	}
	if d.Remove("dir3") == nil {
		t.Error("removed a folder that is not empty")
	}
	ok(d.Remove("dir2"))
	ok(d.Remove("dir3/link"))
	if read("dir3/f") == "" {
		t.Error("the link's target went with it")
	}
	ok(sub.Close())

	lock, err := d.Lock("lock")
	ok(err)
	_, err = d.Lock("lock")
	is(err, share.ErrHeld)
	ok(lock.Close())
	lock, err = d.Lock("lock")
	ok(err)
	ok(d.Remove("lock"))
	other, err := d.Lock("lock") // a removed lock file locks nothing
	ok(err)
	ok(other.Close())
	ok(lock.Close())

	ok(d.SyncDir("dir3"))
	ok(d.SyncDir("."))
	if err := d.SyncAll(); err != nil {
		is(err, errors.ErrUnsupported)
	}
	if free, err := d.Free(); err != nil || free == 0 {
		t.Error(free, err)
	}
}

func TestAPowerCutForgetsWhatWasNotSynced(t *testing.T) {
	kept := map[string]int{}
	for seed := range uint64(50) {
		d := storetest.New(1 << 30)
		root := d.FS()
		write := func(name string, sync bool) {
			f, err := root.Create(name, false)
			if err != nil {
				t.Fatal(err)
			}
			f.WriteAt([]byte(name), 0)
			if sync {
				f.Sync()
			}
		}
		write("safe", true)
		root.SyncDir(".")
		write("nameless", true)
		write("lost", false)
		d.CutPower()
		if _, err := root.Lstat("safe"); !errors.Is(err, storetest.ErrPower) {
			t.Fatal(err)
		}
		d.Restart(seed)
		if _, err := root.Lstat("safe"); !errors.Is(err, storetest.ErrPower) {
			t.Fatal("an old folder still works")
		}
		for _, name := range []string{"safe", "nameless", "lost"} {
			f, err := d.FS().Open(name)
			if err != nil {
				continue
			}
			b := make([]byte, len(name))
			if n, _ := f.ReadAt(b, 0); string(b[:n]) == name {
				kept[name]++
			}
		}
	}
	if kept["safe"] != 50 || kept["nameless"] == 0 || kept["nameless"] == 50 || kept["lost"] == 0 || kept["lost"] >= kept["nameless"] {
		t.Error(kept)
	}
}

func TestAFailedSyncForgets(t *testing.T) {
	d := storetest.New(1 << 30)
	root := d.FS()
	f, _ := root.Create("f", false)
	root.SyncDir(".")
	f.WriteAt([]byte("x"), 0)
	d.Fault = func(op storetest.Op) error {
		if op.Kind == "sync" {
			return errors.New("no")
		}
		return nil
	}
	if f.Sync() == nil {
		t.Fatal("no error")
	}
	d.Fault = nil
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	d.Restart(1)
	g, err := d.FS().Open("f")
	if err != nil {
		t.Fatal(err)
	}
	b := []byte{0}
	if g.ReadAt(b, 0); b[0] != 0 {
		t.Error("the byte is there")
	}
}
