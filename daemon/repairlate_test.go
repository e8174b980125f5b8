package daemon

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/simnet/bubble"
)

// A repair that is asked for while a fetch still waits for its source is done when that is there.
func TestARepairIsDoneAlsoIfItWasAskedForWhileTheFetchWaited(t *testing.T) {
	bubble.Test(t, 1, func(t *testing.T, net *bubble.Net) {
		dir := t.TempDir()
		file(t, "one", dir, "tree", "1")
		file(t, "two", dir, "tree", "2")
		at := net.Add(bubble.NodeConfig{Name: "a"})
		a := simulated(t, at, filepath.Join(dir, "a"), Settings{})
		served := added(t, a, api.Add{Paths: []string{filepath.Join(dir, "tree")}})
		must(t, a.Close())
		b := simulated(t, net.Add(bubble.NodeConfig{Name: "b"}), filepath.Join(dir, "b"), Settings{})
		defer func() { must(t, b.Close()) }()
		into := filepath.Join(dir, "into")
		file(t, "another", into, "tree", "1")
		e := added(t, b, api.Add{Ticket: served.Ticket, Dir: into})
		time.Sleep(10 * time.Second)
		if e, err := b.Entry(t.Context(), e.ID); err != nil || e.State != api.Fetching {
			t.Fatal(e.State, e.Reason, err)
		}
		set(t, b, e.ID, api.Set{Repair: true})
		a = simulated(t, at, filepath.Join(dir, "a"), Settings{})
		defer func() { must(t, a.Close()) }()
		time.Sleep(3 * time.Hour)
		if e, err := b.Entry(t.Context(), e.ID); err != nil || e.State != api.Served {
			t.Errorf("three hours after its source was there it is %s: %s, %v", e.State, e.Reason, err)
		}
	})
}
