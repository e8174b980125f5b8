package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/api"
)

// What is gone of a part of a share is not fetched again after a restart, unless its owner says so: so it is with a whole share.
func TestWhatIsGoneOfAPartIsNotFetchedAgain(t *testing.T) {
	t.Parallel()
	served := servedTree(t, "1", "2", "3")
	for what, only := range map[string][]string{"the whole": nil, "a part": {"1", "2"}} {
		dir := t.TempDir()
		d := begun(t, dir)
		e := until(t, d, added(t, d, api.Add{Ticket: served.Ticket, Only: only}).ID, "here", in(api.Served))
		must(t, d.Close())
		gone := filepath.Join(e.Path, "2")
		must(t, os.Remove(gone))
		d = begun(t, dir)
		e = until(t, d, e.ID, "looked at", func(e api.Entry) bool {
			return e.State == api.Missing || e.State == api.Failed || e.State == api.Served
		})
		if _, err := os.Stat(gone); err == nil || e.State == api.Served {
			t.Errorf("%s: what its owner removed: %v; the entry is %s", what, err, e.State)
		}
		_, err := d.Set(t.Context(), e.ID, api.Set{Repair: true})
		must(t, err)
		until(t, d, e.ID, "repaired", in(api.Served))
		same(t, gone, "content of 2")
	}
}
