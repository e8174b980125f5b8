package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/api"
)

// What is gone of a part of a share is not fetched again after a restart either if another file was found changed meanwhile.
func TestWhatIsGoneOfAPartIsNotFetchedAgainAfterAFailure(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	for _, n := range []string{"1", "2", "3"} {
		file(t, "content of "+n, src, "tree", n)
	}
	served := added(t, begun(t, t.TempDir()), api.Add{Paths: []string{filepath.Join(src, "tree")}})
	for what, only := range map[string][]string{"the whole": nil, "a part": {"1", "2"}} {
		dir := t.TempDir()
		d := begun(t, dir)
		e := until(t, d, added(t, d, api.Add{Ticket: served.Ticket, Only: only}).ID, "here", in(api.Served))
		must(t, d.Close())
		gone := filepath.Join(e.Path, "2")
		must(t, os.Remove(gone))
		file(t, "its owner's", e.Path, "1")
		d = begun(t, dir)
		until(t, d, e.ID, "looked at", func(e api.Entry) bool { return e.State == api.Missing || e.State == api.Failed })
		must(t, d.Close())
		file(t, "content of 1", e.Path, "1")
		d = begun(t, dir)
		e = until(t, d, e.ID, "looked at again", func(e api.Entry) bool { return e.State == api.Missing || e.State == api.Served })
		if _, err := os.Stat(gone); err == nil || e.State == api.Served {
			t.Errorf("%s: what its owner removed: %v; the entry is %s: %s", what, err, e.State, e.Reason)
		}
		must(t, d.Close())
	}
}
