package daemon

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/api"
)

// What a fetch has made on a disk that has no room for the share is the node's as well, and goes with the entry.
func TestRemoveTakesWhatWasBegunOnAFullDisk(t *testing.T) {
	t.Parallel()
	a := begun(t, t.TempDir())
	served := added(t, a, api.Add{Paths: []string{file(t, large(2), t.TempDir(), "f")}})
	disk := t.TempDir()
	mount(t, disk, "") // of 1 MiB
	b := begun(t, t.TempDir())
	e := until(t, b, added(t, b, api.Add{Ticket: served.Ticket, Dir: disk}).ID, "without room", func(e api.Entry) bool { return strings.Contains(e.Reason, "disk full") })
	r, err := b.Remove(t.Context(), e.ID, true)
	must(t, err)
	if _, err := os.Stat(filepath.Join(disk, "f.partial")); !errors.Is(err, fs.ErrNotExist) || len(r.Data) != 1 {
		t.Errorf("removed: %q, %q; of f.partial: %v", r.Data, r.Kept, err)
	}
}
