package daemon

import (
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/api"
)

// What lies below the mount point of a disk that is not mounted was not fetched by the node: that is on the disk.
func TestRemoveLeavesWhatLiesBelowAMountPoint(t *testing.T) {
	t.Parallel()
	_, ticket := photos(t)
	to := t.TempDir()
	b := begun(t, t.TempDir())
	got := until(t, b, added(t, b, api.Add{Ticket: ticket, Dir: to}).ID, "here", in(api.Served))
	k, err := b.keeper(got.ID)
	must(t, err)
	k.stop()
	e := k.entry()
	e.Mounts = []string{to} // a disk was mounted there, and what lies there now is its owner's
	made, err := b.db.Made(t.Context(), e.ID)
	must(t, err)
	gone, kept := b.removeFiles(t.Context(), e, k.list(), made)
	if same(t, filepath.Join(to, "tree", "photos", "2"), "two"); len(gone) > 0 {
		t.Errorf("removed: %v; %s", gone, kept)
	}
}
