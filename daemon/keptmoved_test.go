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

// A look at what was fetched notices that a folder of it was moved away, or all of it.
func TestALookAtWhatWasFetchedNoticesAFolderThatWasMoved(t *testing.T) {
	rig.Slow(t)
	bubble.Test(t, 1, func(t *testing.T, net *bubble.Net) {
		dir := t.TempDir()
		s := Settings{Rescan: time.Minute}
		a := simulated(t, net.Add(bubble.NodeConfig{Name: "a"}), filepath.Join(dir, "a"), s)
		defer func() { must(t, a.Close()) }()
		file(t, large(1), dir, "tree", "sub", "1")
		file(t, large(2), dir, "tree", "2")
		ticket := added(t, a, api.Add{Paths: []string{filepath.Join(dir, "tree")}}).Ticket
		for what, only := range map[string][]string{"the whole": nil, "a part": {"sub"}} {
			for _, folder := range []string{"sub", "."} {
				name := what + " " + folder
				b := simulated(t, net.Add(bubble.NodeConfig{Name: name}), filepath.Join(dir, name), s)
				e := until(t, b, added(t, b, api.Add{Ticket: ticket, Only: only}).ID, "here", in(api.Served))
				time.Sleep(5 * time.Minute)
				must(t, os.Rename(filepath.Join(e.Path, folder), filepath.Join(dir, "moved "+name)))
				time.Sleep(5*time.Minute + seedEvery/2) // and not while it is looked at again
				if now, err := b.Entry(t.Context(), e.ID); err != nil || now.State != api.Missing {
					t.Errorf("%s: after five minutes it is %s: %s, %v", name, now.State, now.Reason, err)
				}
				must(t, b.Close())
			}
		}
	})
}
