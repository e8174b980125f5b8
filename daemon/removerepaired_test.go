package daemon

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/simnet/bubble"
)

// What a node has fetched is not said to have been there before it, if a repair of it was paused before it was done.
func TestRemoveTakesWhatWasRepairedWithAPause(t *testing.T) {
	bubble.Test(t, 1, func(t *testing.T, net *bubble.Net) {
		dir := t.TempDir()
		file(t, "one", dir, "tree", "1")
		file(t, "two", dir, "tree", "2")
		at := net.Add(bubble.NodeConfig{Name: "a"})
		a := simulated(t, at, filepath.Join(dir, "a"), Settings{})
		ticket := added(t, a, api.Add{Paths: []string{filepath.Join(dir, "tree")}}).Ticket
		b := simulated(t, net.Add(bubble.NodeConfig{Name: "b"}), filepath.Join(dir, "b"), Settings{})
		defer func() { must(t, b.Close()) }()
		e := until(t, b, added(t, b, api.Add{Ticket: ticket}).ID, "here", in(api.Served))
		must(t, a.Close())
		must(t, os.Remove(filepath.Join(e.Path, "1")))
		set(t, b, e.ID, api.Set{Repair: true})
		time.Sleep(10 * time.Second)
		set(t, b, e.ID, paused(true))
		set(t, b, e.ID, paused(false))
		a = simulated(t, at, filepath.Join(dir, "a"), Settings{})
		defer func() { must(t, a.Close()) }()
		time.Sleep(time.Hour)
		if e, err := b.Entry(t.Context(), e.ID); err != nil || e.State != api.Served {
			t.Fatal(e.State, e.Reason, err)
		}
		r, err := b.Remove(t.Context(), e.ID, true)
		must(t, err)
		if _, err := os.Stat(filepath.Join(e.Path, "2")); err == nil {
			t.Errorf("removed: %v; %s", r.Data, r.Kept)
		}
	})
}
