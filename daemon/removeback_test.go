package daemon

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/simnet/bubble"
)

// What its owner has put back where all that was fetched was gone is his, though it is exactly what the share has, be it all of that or a part.
func TestRemoveLeavesWhatItsOwnerHasPutBack(t *testing.T) {
	rig.Slow(t)
	bubble.Test(t, 1, func(t *testing.T, net *bubble.Net) {
		dir := t.TempDir()
		ticket := serving(t, net, dir, "one", "two").Ticket
		for what, only := range map[string][]string{"the whole": nil, "a part": {"1"}} {
			b := simulated(t, net.Add(bubble.NodeConfig{Name: what}), filepath.Join(dir, what), Settings{})
			is := func(id int64, state string) {
				t.Helper()
				time.Sleep(time.Hour)
				set(t, b, id, api.Set{Rescan: true})
				time.Sleep(time.Hour)
				if e, err := b.Entry(t.Context(), id); err != nil || e.State != state {
					t.Fatalf("%s: it is %s: %s, %v", what, e.State, e.Reason, err)
				}
			}
			e := until(t, b, added(t, b, api.Add{Ticket: ticket, Only: only}).ID, "here", in(api.Served))
			must(t, os.RemoveAll(e.Path))
			is(e.ID, api.Missing)
			must(t, os.CopyFS(e.Path, os.DirFS(filepath.Join(dir, "tree"))))
			mine := filepath.Join(e.Path, "1")
			must(t, os.Chtimes(mine, time.Time{}, time.Unix(1e9, 0))) // it is older
			is(e.ID, api.Served)
			r, err := b.Remove(t.Context(), e.ID, true)
			must(t, err)
			if _, err := os.Stat(mine); err != nil {
				t.Errorf("%s: removed: %v; %s; %v", what, r.Data, r.Kept, err)
			}
			must(t, b.Close())
		}
	})
}
