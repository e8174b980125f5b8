package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/api"
)

// Nothing is fetched into the state directory of the node: whoever may use the node, such as a member of its group, would choose its settings
// for the next start. Folders for shares may be there.
func TestNothingIsFetchedIntoTheStateDirectory(t *testing.T) {
	t.Parallel()
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	a, d := begun(t, t.TempDir()), begun(t, dir)
	served := added(t, a, api.Add{Paths: []string{file(t, "http = \"0.0.0.0:4820\"\n", t.TempDir(), SettingsName)}})
	must(t, os.Symlink(dir, link))
	for _, into := range []string{dir, filepath.Join(dir, "fleets", "x"), link, filepath.Join(link, "Snapshots")} {
		if _, err := d.Add(t.Context(), api.Add{Ticket: served.Ticket, Dir: into}); err == nil {
			t.Errorf("fetched into %s", into)
		}
	}
	e, err := d.Add(t.Context(), api.Add{Ticket: served.Ticket, Dir: filepath.Join(dir, "shares", "some")})
	must(t, err)
	until(t, d, e.ID, "here", func(e api.Entry) bool { return e.State == api.Served })
}
