package daemon

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/simnet/bubble"
)

// What was fetched is looked at as often as the settings say, too, where the system tells of no change.
func TestWhatWasFetchedIsLookedAtAsOftenAsTheSettingsSay(t *testing.T) {
	bubble.Test(t, 1, func(t *testing.T, net *bubble.Net) {
		dir := t.TempDir()
		s := Settings{Rescan: time.Minute}
		a, b := simulated(t, net.Add(bubble.NodeConfig{Name: "a"}), filepath.Join(dir, "a"), s), simulated(t, net.Add(bubble.NodeConfig{Name: "b"}), filepath.Join(dir, "b"), s)
		defer func() { must(t, a.Close()) }()
		defer func() { must(t, b.Close()) }()
		served := added(t, a, api.Add{Paths: []string{file(t, large(1), dir, "f")}})
		e := until(t, b, added(t, b, api.Add{Ticket: served.Ticket}).ID, "served from its place", func(e api.Entry) bool { return e.State == api.Served && len(b.node.Shares()) == 1 })
		must(t, os.Remove(e.Path))
		time.Sleep(5 * time.Minute)
		if now, err := b.Entry(t.Context(), e.ID); err != nil || now.State != api.Missing {
			t.Errorf("after five minutes without its file it is %s, %v", now.State, err)
		}
	})
}
