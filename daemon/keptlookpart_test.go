package daemon

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/simnet/bubble"
)

// What was fetched is looked at also while another entry serves the same content from elsewhere.
func TestAPartIsLookedAtAlsoWhileAnotherEntryServesTheWhole(t *testing.T) {
	bubble.Test(t, 1, func(t *testing.T, net *bubble.Net) {
		dir := t.TempDir()
		s := Settings{Rescan: time.Minute}
		a := simulated(t, net.Add(bubble.NodeConfig{Name: "a"}), filepath.Join(dir, "a"), s)
		defer func() { must(t, a.Close()) }()
		for _, at := range []string{"one", "other"} {
			file(t, large(1), dir, at, "tree", "1")
			file(t, large(2), dir, at, "tree", "2")
		}
		served := added(t, a, api.Add{Paths: []string{filepath.Join(dir, "one", "tree")}})
		for what, only := range map[string][]string{"the whole": nil, "a part": {"1"}} {
			b := simulated(t, net.Add(bubble.NodeConfig{Name: what}), filepath.Join(dir, what), s)
			e := until(t, b, added(t, b, api.Add{Ticket: served.Ticket, Only: only}).ID, "here", in(api.Served))
			time.Sleep(5 * time.Minute)
			added(t, b, api.Add{Paths: []string{filepath.Join(dir, "other", "tree")}})
			time.Sleep(5 * time.Minute)
			must(t, os.Remove(filepath.Join(e.Path, "1")))
			time.Sleep(5*time.Minute + seedEvery/2) // and not while it is looked at again
			if now, err := b.Entry(t.Context(), e.ID); err != nil || now.State != api.Missing {
				t.Errorf("%s: after five minutes without its file it is %s: %s, %v", what, now.State, now.Reason, err)
			}
			must(t, b.Close())
		}
	})
}
