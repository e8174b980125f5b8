package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/api"
)

// A share of folders alone, of which the catalog has no stamps, goes too, and is not said to be another's.
func TestRemoveTakesFoldersWithoutFiles(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "tree")
	must(t, os.MkdirAll(filepath.Join(src, "void", "in"), 0o700))
	a, b := begun(t, t.TempDir()), begun(t, t.TempDir())
	got := until(t, b, added(t, b, api.Add{Ticket: added(t, a, api.Add{Paths: []string{src}}).Ticket}).ID, "here", in(api.Served))
	r, err := b.Remove(t.Context(), got.ID, true)
	must(t, err)
	if _, err := os.Stat(got.Path); err == nil {
		t.Errorf("removed: %v; %s", r.Data, r.Kept)
	}
}
