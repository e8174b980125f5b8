package daemon

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/share"
)

// After a start the entry with the highest priority is fetched first, wherever it stands in the catalog.
func TestAStartLetsInByPriority(t *testing.T) {
	t.Parallel()
	const entries = 6
	for high := range entries {
		dir := t.TempDir()
		db, _, err := catalog.Open(t.Context(), filepath.Join(dir, "catalog.db"))
		must(t, err)
		for i := range entries {
			w := catalog.Wish{Source: share.IDOf([]byte{byte(i)}).String(), Dir: dir, Peers: []string{"/ip4/192.0.2.1/tcp/4001/p2p/" + peerA}, Priority: -1}
			if i == high {
				w.Priority = 1
			}
			_, err := db.Add(t.Context(), time.Now(), w)
			must(t, err)
		}
		must(t, db.Close())
		d := begun(t, dir, func(c *Config) { c.Fetches = 1 })
		if e := until(t, d, int64(high)+1, "begun, or in the queue", func(e api.Entry) bool {
			_, waits := d.queue.before(catalog.ID(e.ID))
			return waits || e.State == api.Fetching
		}); e.State != api.Fetching {
			t.Errorf("entry %d of %d, of high priority, is %s, and one of low priority is fetched", e.ID, entries, e.State)
		}
		must(t, d.Close())
	}
}
