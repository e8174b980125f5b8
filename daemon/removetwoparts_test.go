package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/api"
)

// What was fetched for an entry is not said to have been there before it, if the last part of the share was fetched and the node was started anew.
func TestRemoveTakesTheLastPartAfterARestart(t *testing.T) {
	t.Parallel()
	_, ticket := photos(t)
	to, dir := t.TempDir(), t.TempDir()
	b := begun(t, dir)
	got := until(t, b, added(t, b, api.Add{Ticket: ticket, Dir: to, Only: []string{"docs", "3"}}).ID, "here", in(api.Served))
	set(t, b, got.ID, api.Set{Only: &[]string{"photos"}})
	until(t, b, got.ID, "the other part", func(e api.Entry) bool { return e.State == api.Served && e.Files == 1 })
	must(t, b.Close())
	b = begun(t, dir)
	until(t, b, got.ID, "here", in(api.Served))
	r, err := b.Remove(t.Context(), got.ID, true)
	must(t, err)
	if _, err := os.Stat(filepath.Join(to, "tree", "photos", "2")); err == nil {
		t.Errorf("removed: %v; %s", r.Data, r.Kept)
	}
}
