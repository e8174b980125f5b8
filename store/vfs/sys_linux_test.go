package vfs

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// A process that is being started has a copy of each open file, until it executes its program.
// What was locked and is closed meanwhile can be locked again.
func TestAClosedLockIsFreeWhileAProcessStarts(t *testing.T) {
	fs, err := Dir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	held, err := fs.Lock("lock")
	if err != nil {
		t.Fatal(err)
	}
	child, err := unix.Dup(int(held.(lock).f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer os.NewFile(uintptr(child), "child").Close()
	if _, err := fs.Lock("lock"); err == nil {
		t.Error("it was locked twice")
	}
	if err := held.Close(); err != nil {
		t.Error(err)
	}
	again, err := fs.Lock("lock")
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

func TestKernelsThatTellOfFailedSyncsAreKnown(t *testing.T) {
	for release, want := range map[string]bool{
		"5.7.19": false, "4.18.0-553.el8_10.x86_64": false, "3.10": false, "": false, "x": false,
		"5.8.0": true, "5.15.0-91-generic": true, "6.1.0-13-amd64": true, "10.0": true,
	} {
		if got := atLeast(release, 5, 8); got != want {
			t.Errorf("%q: %v", release, got)
		}
	}
}

func TestNoFileOfAFATDiskIsExecutable(t *testing.T) {
	for kind, exec := range map[kind]bool{fat: false, onDisk: true} {
		s := &sight{kind: kind}
		if info := s.of(Info{CTime: 5, Exec: true}); info.Exec != exec || info.CTime != 5 {
			t.Errorf("%v: %+v", kind, info)
		}
	}
}
