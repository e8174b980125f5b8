package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/api"
)

// A link that its owner has made where the share has the same one is his, as a file is, if it is chosen later.
func TestRemoveLeavesALinkThatWasThereWhenMoreWasChosen(t *testing.T) {
	t.Parallel()
	src, to := t.TempDir(), t.TempDir()
	file(t, "one", src, "tree", "1")
	must(t, os.Symlink("1", filepath.Join(src, "tree", "link")))
	ticket := added(t, begun(t, t.TempDir()), api.Add{Paths: []string{filepath.Join(src, "tree")}}).Ticket
	b := begun(t, t.TempDir())
	got := until(t, b, added(t, b, api.Add{Ticket: ticket, Dir: to, Only: []string{"1"}}).ID, "here", in(api.Served))
	mine := filepath.Join(to, "tree", "link")
	must(t, os.Symlink("1", mine))
	set(t, b, got.ID, api.Set{Only: &[]string{"1", "link"}})
	until(t, b, got.ID, "looked at", func(e api.Entry) bool { return e.State == api.Served && len(e.Only) == 2 })
	k, err := b.keeper(got.ID)
	must(t, err)
	k.stop() // whatever it does is done
	r, err := b.Remove(t.Context(), got.ID, true)
	must(t, err)
	if _, err := os.Lstat(mine); err != nil {
		t.Errorf("removed: %v; %s", r.Data, r.Kept)
	}
}
