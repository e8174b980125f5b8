package store_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// With the last file of a share NAME.partial is removed, also if each fetch wanted another part of it; but not if something of an earlier
// part has been changed or removed since.
func TestTheLastPartOfAShareRemovesItsPartialFolder(t *testing.T) {
	x := newMended(t, tree{"a": random(10), "b": random(100_000), "c/d": "some", "l": "-> a"})
	for what, before := range map[string]func(dir string) error{
		"whole":        func(string) error { return nil },
		"edited":       func(dir string) error { return os.WriteFile(filepath.Join(dir, "a"), []byte("mine"), 0o666) },
		"removed":      func(dir string) error { return os.Remove(filepath.Join(dir, "a")) },
		"link removed": func(dir string) error { return os.Remove(filepath.Join(dir, "l")) },
		"moved": func(dir string) error {
			return errors.Join(os.Rename(filepath.Join(dir, "c"), filepath.Join(dir, "c2")), os.Symlink("c2", filepath.Join(dir, "c")))
		},
	} {
		dir := t.TempDir()
		for _, part := range []string{"a", "l", "c"} {
			fetchOnly(t, dir, x.im, part)
		}
		x.must(before(filepath.Join(dir, "stuff")))
		fetchOnly(t, dir, x.im, "b")
		_, err := os.Lstat(filepath.Join(dir, "stuff.partial"))
		if what != "whole" {
			if err != nil {
				t.Errorf("%s: NAME.partial is removed, though something of the share is not there: %v", what, err)
			}
			continue
		}
		sameOnDisk(t, filepath.Join(dir, "stuff"), x.original)
		if !errors.Is(err, fs.ErrNotExist) {
			t.Error("all of the share is in its place, and NAME.partial stays:", err)
		}
	}
}
