package main

import (
	"os"
	"path/filepath"
	"testing"
)

// A state directory may be a folder in which a person keeps other things.
func TestScratchOfSomebodyElseStays(t *testing.T) {
	state := t.TempDir()
	thesis := filepath.Join(state, "scratch-notes", "thesis.txt")
	must(t, os.MkdirAll(filepath.Dir(thesis), 0o700))
	must(t, os.WriteFile(thesis, []byte("precious"), 0o600))
	s, err := newScratch(state)
	must(t, err)
	s.remove()
	if b, err := os.ReadFile(thesis); string(b) != "precious" {
		t.Errorf("it was removed: %v", err)
	}
	if left, _ := os.ReadDir(filepath.Dir(thesis)); len(left) != 1 {
		t.Errorf("there are %v now", left)
	}
}

// A file of a person may be called like a scratch.
func TestAFileThatIsCalledLikeAScratchStays(t *testing.T) {
	state := t.TempDir()
	for _, name := range []string{"notes.txt", "link", "1", "2"} {
		at, err := filepath.Join(state, "scratch-"+name), error(nil)
		if name == "link" || name == "2" {
			err = os.Symlink(t.TempDir(), at)
		} else {
			err = os.WriteFile(at, []byte("precious"), 0o600)
		}
		must(t, err)
	}
	folder := filepath.Join(state, "scratch-pad")
	must(t, os.Mkdir(folder, 0o700))
	s, err := newScratch(state)
	must(t, err)
	s.remove()
	if left, _ := os.ReadDir(state); len(left) != 5 {
		t.Errorf("there are %v now", left)
	}
}
