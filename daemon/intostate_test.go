package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/api"
)

// Nothing is fetched into the state directory of the node: whoever may use the node, such as a member of its group, would choose its settings
// for the next start, and what it shares would be in the hands of whoever named the share.
func TestNothingIsFetchedIntoTheStateDirectory(t *testing.T) {
	t.Parallel()
	a := begun(t, t.TempDir())
	served := added(t, a, api.Add{Paths: []string{file(t, "http = \"0.0.0.0:4820\"\nhttp-insecure = true\n", t.TempDir(), SettingsName)}})
	dir := t.TempDir()
	d := begun(t, dir)
	e, err := d.Add(t.Context(), api.Add{Ticket: served.Ticket, Dir: dir})
	if err == nil {
		until(t, d, e.ID, "here, or refused", func(e api.Entry) bool { return e.State == api.Served || e.State == api.Failed })
	}
	if _, err := os.Stat(filepath.Join(dir, SettingsName)); err == nil {
		s, err := ReadSettings(filepath.Join(dir, SettingsName))
		t.Errorf("at the next start the node answers at %q, %v", s.HTTP, err)
	}
}
