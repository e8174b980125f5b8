package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/api"
)

// An empty folder of its owner stays, though a symlink that took the place of one of the share leads to it.
func TestRemoveLeavesAnEmptyFolderBehindALink(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "tree")
	file(t, "one", src, "docs", "inner", "1")
	file(t, "two", src, "2")
	a, b := begun(t, t.TempDir()), begun(t, t.TempDir())
	got := until(t, b, added(t, b, api.Add{Ticket: added(t, a, api.Add{Paths: []string{src}}).Ticket}).ID, "here", in(api.Served))
	must(t, os.RemoveAll(filepath.Join(got.Path, "docs")))
	mine := filepath.Join(got.Path, "mine", "inner")
	must(t, os.MkdirAll(mine, 0o700))
	must(t, os.Symlink("mine", filepath.Join(got.Path, "docs")))
	r, err := b.Remove(t.Context(), got.ID, true)
	must(t, err)
	if _, err := os.Lstat(mine); err != nil {
		t.Errorf("removed: %v; %s; %v", r.Data, r.Kept, err)
	}
}
