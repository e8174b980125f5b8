package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/api"
)

// What was fetched and not changed since goes also if another file of it was edited while the node did not run.
func TestRemoveTakesTheRestOfWhatWasEditedBeforeAStart(t *testing.T) {
	t.Parallel()
	_, ticket := photos(t)
	dir := t.TempDir()
	b := begun(t, dir)
	e := until(t, b, added(t, b, api.Add{Ticket: ticket}).ID, "here", in(api.Served))
	must(t, b.Close())
	mine := file(t, "its owner's", e.Path, "docs", "1")
	b = begun(t, dir)
	until(t, b, e.ID, "missing", in(api.Missing))
	r, err := b.Remove(t.Context(), e.ID, true)
	must(t, err)
	same(t, mine, "its owner's")
	if _, err := os.Stat(filepath.Join(e.Path, "photos", "2")); err == nil {
		t.Errorf("removed: %v; %s", r.Data, r.Kept)
	}
}
