package daemon

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/share"
)

// After a start the entry with the highest priority is fetched first, and of equals one that was begun, wherever it stands in the catalog.
func TestAStartLetsInByPriorityAndThenWhatWasBegun(t *testing.T) {
	t.Parallel()
	const entries = 6
	for first := range 2 * entries {
		dir := t.TempDir()
		db, _, err := catalog.Open(t.Context(), filepath.Join(dir, "catalog.db"))
		must(t, err)
		for i := range entries {
			w := catalog.Wish{Source: share.IDOf([]byte{byte(i)}).String(), Dir: dir, Peers: []string{"/ip4/192.0.2.1/tcp/4001/p2p/" + peerA}, Priority: -1}
			if i == first {
				w.Priority = 1
			}
			e, err := db.Add(t.Context(), time.Now(), w)
			must(t, err)
			if i == first-entries {
				_, err := db.Note(t.Context(), time.Now(), e.ID, func(s *catalog.Status) { s.Verified = 1 })
				must(t, err)
			}
		}
		must(t, db.Close())
		d := begun(t, dir, func(c *Config) { c.Fetches = 1 })
		if e := until(t, d, int64(first%entries)+1, "begun, or in the queue", func(e api.Entry) bool {
			_, waits := d.queue.before(catalog.ID(e.ID))
			return waits || e.State == api.Fetching
		}); e.State != api.Fetching {
			t.Errorf("entry %d of %d, which is to be the first, is %s", e.ID, entries, e.State)
		}
		must(t, d.Close())
	}
}
