package vfs

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// reflinks returns a folder on a file system that has them. It needs root and mkfs.xfs.
func reflinks(t *testing.T) string {
	t.Helper()
	image, at := filepath.Join(t.TempDir(), "image"), t.TempDir()
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 320<<20); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][]string{{"mkfs.xfs", "-q", "-m", "reflink=1", image}, {"mount", "-o", "loop", image, at}} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Skipf("NOT TESTED: %s: %v: %s", c[0], err, out)
		}
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(at, 0); err != nil {
			t.Error("unmount:", err)
		}
	})
	return at
}

func TestCloneTakesNoRoom(t *testing.T) {
	t.Parallel()
	dir := reflinks(t)
	d, err := Dir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	want := bytes.Repeat([]byte("0123456789abcdef"), 2<<20/16)
	if err := os.WriteFile(filepath.Join(dir, "old"), append(want, "the end"...), 0o600); err != nil {
		t.Fatal(err)
	}
	syscall.Sync()
	before, _ := d.Free()
	old, err := d.Open("old")
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	f, err := d.Create("new", false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Clone(f, 4<<20, old, 1<<20, 1<<20+7); err != nil { // including the end of the file
		t.Fatal(err)
	}
	got := make([]byte, 1<<20+7)
	if _, err := f.ReadAt(got, 4<<20); err != nil || !bytes.Equal(got, append(want[1<<20:], "the end"...)) {
		t.Errorf("other bytes were cloned: %v", err)
	}
	syscall.Sync()
	if after, _ := d.Free(); before-after > 256<<10 {
		t.Errorf("it took %d bytes", before-after)
	}
	if err := Clone(f, 100, old, 0, 50); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("between blocks: %v", err)
	}
}

func TestCloneSaysWhereItCannotBe(t *testing.T) {
	dir := t.TempDir()
	d, err := Dir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	f, err := d.Create("f", false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Clone(f, 0, f, 0, 100); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
	if err := Clone(struct{ File }{f}, 0, f, 0, 100); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}
