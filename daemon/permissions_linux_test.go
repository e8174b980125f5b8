package daemon

import (
	"os"
	"testing"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// What was fetched onto a disk that keeps no permissions, such as NTFS, is the share when it is looked at again: it is served, and removed when
// its owner wants that.
func TestWhatIsOnADiskWithoutPermissionsIsServed(t *testing.T) {
	t.Parallel()
	_, ticket := photos(t)
	dir := t.TempDir()
	d := begun(t, dir)
	e := added(t, d, api.Add{Ticket: ticket, Dir: rig.NTFS(t)})
	e = until(t, d, e.ID, "here", in(api.Served))
	must(t, d.Close())
	d = begun(t, dir)
	if v := until(t, d, e.ID, "looked at", func(v api.Entry) bool { return v.State == api.Served || v.State == api.Missing }); v.State != api.Served {
		t.Errorf("%s: %s", v.State, v.Reason)
	}
	r, err := d.Remove(t.Context(), e.ID, true)
	must(t, err)
	if _, err := os.Stat(e.Path); err == nil {
		t.Errorf("it is still there; removed: %v; kept: %s", r.Data, r.Kept)
	}
}
