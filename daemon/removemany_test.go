package daemon

import (
	"os"
	"testing"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// An entry of very many files can be removed, though to forget what was put in its place for it takes a small machine more than a moment.
func TestAnEntryOfManyFilesIsRemoved(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	_, ticket := photos(t)
	for _, data := range []bool{true, false} {
		dir := t.TempDir()
		b := begun(t, dir)
		got := until(t, b, added(t, b, api.Add{Ticket: ticket}).ID, "here", in(api.Served))
		// in place of two million files
		execCatalog(t, dir, `CREATE TRIGGER slow BEFORE DELETE ON made BEGIN SELECT count(*) FROM (WITH n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 20000000) SELECT i FROM n); END`)
		r, err := b.Remove(t.Context(), got.ID, data)
		if err != nil {
			t.Errorf("with its data: %v: it is not removed: %v", data, err)
			continue
		}
		if _, err := os.Stat(got.Path); data && err == nil {
			t.Errorf("removed: %v; %s", r.Data, r.Kept)
		}
	}
}
