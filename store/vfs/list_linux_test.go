package vfs

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// plain hides everything of an FS but its methods.
type plain struct{ FS }

// A folder's listing is the same whether its files are opened for it or queried by name.
func TestAFolderIsListedAlikeInBothWays(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]fs.FileMode{"a": 0o644, "run": 0o755, "secret": 0o000, "left": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat(name, 3000)), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		os.Mkdir(filepath.Join(dir, "sub"), 0o755), os.Symlink("a", filepath.Join(dir, "link")),
		unix.Mkfifo(filepath.Join(dir, "pipe"), 0o644), os.Symlink("nowhere", filepath.Join(dir, "dangling")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	d, err := Dir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var both [2]map[string]Listed
	for i, d := range []FS{d, plain{d}} {
		list, err := List(d, func(name string) bool { return name != "left" })
		if err != nil {
			t.Fatal(err)
		}
		both[i] = map[string]Listed{}
		for _, l := range list {
			if l.Type != 0 {
				l.Info = Info{} // of files only
			}
			if l.Left {
				l.Type = 0 // not known
			}
			both[i][l.Name] = l
		}
	}
	if len(both[0]) != 8 || !slices.Equal(slices.Sorted(maps.Keys(both[0])), slices.Sorted(maps.Keys(both[1]))) {
		t.Fatalf("listed %d and %d names", len(both[0]), len(both[1]))
	}
	for name, a := range both[0] {
		b := both[1][name]
		if errors.Is(a.Err, fs.ErrPermission) != errors.Is(b.Err, fs.ErrPermission) {
			t.Errorf("%s: %v and %v", name, a.Err, b.Err)
		}
		if a.Err != nil && b.Err != nil {
			continue
		}
		if a != b {
			t.Errorf("%s: asked %+v, opened %+v", name, a, b)
		}
	}
	if !both[0]["left"].Left || both[0]["left"].Info != (Info{}) {
		t.Error("what is not wanted was looked at")
	}
}

func TestAFileThatMayNotBeReadIsSaidSo(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read everything")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "secret"), nil, 0); err != nil {
		t.Fatal(err)
	}
	d, err := Dir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	list, err := List(d, func(string) bool { return true })
	if err != nil || len(list) != 1 || !errors.Is(list[0].Err, fs.ErrPermission) {
		t.Errorf("%+v, %v", list, err)
	}
}

// A folder of many files is listed by several goroutines: nothing is missing or twice.
func TestALongFolderIsListedWhole(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	dir := t.TempDir()
	for i := range 5 * askAtOnce {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), make([]byte, i), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d, err := Dir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	list, err := List(d, func(name string) bool { return name != "7" })
	if err != nil || len(list) != 5*askAtOnce {
		t.Fatalf("%d names, %v", len(list), err)
	}
	for _, l := range list {
		if l.Left != (l.Name == "7") || l.Err != nil || !l.Left && strconv.Itoa(int(l.Info.Size)) != l.Name {
			t.Errorf("%+v", l)
		}
	}
}
