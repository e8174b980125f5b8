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

// What its owner has removed of what was fetched is not fetched again by a restart, also if he had edited something else of it, be it all of a share or a part.
func TestWhatIsGoneIsNotFetchedAgainAfterAnEdit(t *testing.T) {
	rig.Slow(t)
	bubble.Test(t, 1, func(t *testing.T, net *bubble.Net) {
		dir := t.TempDir()
		ticket := serving(t, net, dir, "content of 1", "content of 2", "content of 3").Ticket
		for what, only := range map[string][]string{"the whole": nil, "a part": {"1", "2"}} {
			at := net.Add(bubble.NodeConfig{Name: what})
			b := simulated(t, at, filepath.Join(dir, what), Settings{})
			e := until(t, b, added(t, b, api.Add{Ticket: ticket, Only: only}).ID, "here", in(api.Served))
			file(t, "edited", e.Path, "1")
			time.Sleep(3 * time.Hour) // it is looked at each hour
			if e, err := b.Entry(t.Context(), e.ID); err != nil || e.State == api.Served {
				t.Errorf("%s: edited, it is %s: %s, %v", what, e.State, e.Reason, err)
			}
			file(t, "content of 1", e.Path, "1") // he undoes that
			must(t, os.Remove(filepath.Join(e.Path, "2")))
			must(t, b.Close())
			b = simulated(t, at, filepath.Join(dir, what), Settings{})
			time.Sleep(3 * time.Hour)
			if now, err := b.Entry(t.Context(), e.ID); err != nil || now.State != api.Missing {
				t.Errorf("%s: after that it is %s: %s, %v", what, now.State, now.Reason, err)
			}
			if _, err := os.Stat(filepath.Join(e.Path, "2")); err == nil {
				t.Errorf("%s: what was removed was fetched again", what)
			}
			must(t, b.Close())
		}
	})
}
