package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// What another has fetched of a part that was never chosen for an entry stays, though it is not complete, and though copies of an earlier
// NAME.partial lie beside it, one of which is found first.
func TestRemoveLeavesWhatAnotherHasHalfFetched(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src, to, dir := t.TempDir(), t.TempDir(), t.TempDir()
	file(t, "one", src, "docs", "1")
	must(t, os.Mkdir(filepath.Join(src, "photos"), 0o700))
	rig.WriteRandom(t, filepath.Join(src, "photos", "2"), 8<<20, 1)
	ticket := added(t, begun(t, t.TempDir()), api.Add{Paths: []string{src}, Name: "tree"}).Ticket
	b := begun(t, dir)
	got := until(t, b, added(t, b, api.Add{Ticket: ticket, Dir: to, Only: []string{"docs"}}).ID, "here", in(api.Served))
	must(t, b.Close())
	for n := range 30 { // in which order a folder is listed is chance
		must(t, os.CopyFS(filepath.Join(to, fmt.Sprintf("copy%d.partial", n)), os.DirFS(filepath.Join(to, "tree.partial"))))
	}
	other := t.TempDir()
	c := begun(t, other)
	of := added(t, c, api.Add{Ticket: ticket, Dir: to, Only: []string{"photos"}, LimitDown: 1 << 20})
	until(t, c, of.ID, "half here", func(e api.Entry) bool { return e.State == api.Fetching && e.Verified > 2<<20 })
	must(t, c.Close())
	b = begun(t, dir)
	until(t, b, got.ID, "here", in(api.Served))
	r, err := b.Remove(t.Context(), got.ID, true)
	must(t, err)
	if _, err := os.Stat(filepath.Join(to, "tree.partial", "data", "photos", "2")); err != nil {
		t.Errorf("removed: %v; %s; %v", r.Data, r.Kept, err)
	}
}
