package store_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/store"
)

// Where a file system cannot rename without replacing, as NTFS-3G, a file is moved by a link. A run that was killed before it removed the old
// name leaves nothing but the file to the next one.
func TestAMoveByALinkThatWasCutShortIsEnded(t *testing.T) {
	top := t.TempDir()
	src, dir := filepath.Join(top, "f"), filepath.Join(top, "dir")
	check(t, os.WriteFile(src, []byte(random(100_000)), 0o666))
	check(t, os.Mkdir(dir, 0o777))
	im := importDir(t, src, store.ImportOptions{})
	p := openPart(t, dir, im.Manifest, store.PartialOptions{})
	copyAll(t, p, im.Tree)
	check(t, p.Close())
	check(t, os.Link(filepath.Join(dir, "f.partial", "data"), filepath.Join(dir, "f")))
	p = openPart(t, dir, im.Manifest, store.PartialOptions{})
	if _, done := p.Done(); !done {
		t.Error("it is not done")
	}
	_, err := p.Finish(t.Context())
	check(t, err)
	check(t, p.Close())
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("it leaves %v, %v", list, err)
	}
}
