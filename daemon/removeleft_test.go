package daemon

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/simnet/bubble"
)

// What its owner has put back is his, also if NAME.partial is still there, with something of his in it, when all is looked at again.
func TestRemoveLeavesWhatWasPutBackBesideWhatIsLeftOfAPartial(t *testing.T) {
	bubble.Test(t, 1, func(t *testing.T, net *bubble.Net) {
		dir := t.TempDir()
		ticket := serving(t, net, dir, "one", large(2)).Ticket
		b := simulated(t, net.Add(bubble.NodeConfig{Name: "b"}), filepath.Join(dir, "b"), Settings{})
		defer func() { must(t, b.Close()) }()
		to := filepath.Join(dir, "to")
		e := added(t, b, api.Add{Ticket: ticket, Dir: to, LimitDown: 1 << 16})
		until(t, b, e.ID, "under way", func(e api.Entry) bool { return e.Verified > 0 })
		file(t, "note", to, "tree.partial", "note")
		asFast := int64(0)
		set(t, b, e.ID, api.Set{LimitDown: &asFast})
		e = until(t, b, e.ID, "here", in(api.Served))
		time.Sleep(time.Minute)
		set(t, b, e.ID, paused(true))
		must(t, os.Remove(filepath.Join(e.Path, "1")))
		mine := file(t, "one", e.Path, "1")
		must(t, os.Chtimes(mine, time.Time{}, time.Unix(1e9, 0))) // it is older
		set(t, b, e.ID, api.Set{Only: &[]string{"1"}})
		set(t, b, e.ID, api.Set{Only: &[]string{}}) // he has thought better of it
		set(t, b, e.ID, paused(false))
		time.Sleep(time.Minute)
		r, err := b.Remove(t.Context(), e.ID, true)
		must(t, err)
		if _, err := os.Stat(mine); err != nil {
			t.Errorf("removed: %v; %s; %v", r.Data, r.Kept, err)
		}
	})
}
