package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// What its owner has fetched of a share by himself is his, also if the entry was there before, and that part is chosen for it later.
func TestRemoveLeavesThePartThatAnotherFetchedIfItIsChosenLater(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	_, ticket := photos(t)
	to, dir := t.TempDir(), t.TempDir()
	b := begun(t, dir)
	got := until(t, b, added(t, b, api.Add{Ticket: ticket, Dir: to, Only: []string{"docs"}}).ID, "here", in(api.Served))
	must(t, b.Close())
	c := begun(t, t.TempDir())
	until(t, c, added(t, c, api.Add{Ticket: ticket, Dir: to, Only: []string{"photos"}}).ID, "here", in(api.Served))
	must(t, c.Close())
	b = begun(t, dir)
	set(t, b, got.ID, api.Set{Only: &[]string{"docs", "photos"}})
	until(t, b, got.ID, "both here", func(e api.Entry) bool { return e.State == api.Served && e.Files == 2 })
	r, err := b.Remove(t.Context(), got.ID, true)
	must(t, err)
	same(t, filepath.Join(to, "tree", "photos", "2"), "two")
	if _, err := os.Stat(filepath.Join(to, "tree", "docs")); err == nil || !strings.Contains(r.Kept, "did not make") {
		t.Errorf("removed: %v; %s", r.Data, r.Kept)
	}
}
