package daemon

import (
	"os"
	"testing"

	"github.com/piecelease/fetcher/api"
)

// What was fetched and is not chosen any more is still the node's, also if all of the share was here before less was chosen.
func TestRemoveTakesTheWholeOfWhichLessWasChosen(t *testing.T) {
	t.Parallel()
	_, ticket := photos(t)
	to := t.TempDir()
	b := begun(t, t.TempDir())
	got := until(t, b, added(t, b, api.Add{Ticket: ticket, Dir: to}).ID, "here", in(api.Served))
	set(t, b, got.ID, api.Set{Only: &[]string{"photos"}})
	until(t, b, got.ID, "a part", func(e api.Entry) bool { return e.State == api.Served && e.Files == 1 })
	r, err := b.Remove(t.Context(), got.ID, true)
	must(t, err)
	if list, err := os.ReadDir(to); err != nil || len(list) > 0 {
		t.Errorf("removed %v, and left %v (%v): %s", r.Data, list, err, r.Kept)
	}
}
