package store_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// With the last file of a share NAME.partial is removed, also if each fetch wanted another part of it.
func TestTheLastPartOfAShareRemovesItsPartialFolder(t *testing.T) {
	x := newMended(t, tree{"a": random(10), "b": random(100_000), "c/d": "some"})
	dir := t.TempDir()
	for _, part := range []string{"a", "b", "c"} {
		fetchOnly(t, dir, x.im, part)
	}
	sameOnDisk(t, filepath.Join(dir, "stuff"), x.original)
	if _, err := os.Lstat(filepath.Join(dir, "stuff.partial")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("all of the share is in its place, and NAME.partial stays:", err)
	}
}
