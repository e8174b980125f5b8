package daemon

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/simnet/bubble"
)

// What is chosen while a fetch runs is fetched, also if its patterns differ from those before by nothing but where each ends.
func TestAnotherChoiceOfNamesWithSpacesIsFetched(t *testing.T) {
	bubble.Test(t, 1, func(t *testing.T, net *bubble.Net) {
		dir := t.TempDir()
		for _, n := range []string{"a", "a b", "b c", "c"} {
			file(t, "content of "+n, dir, "tree", n)
		}
		at := net.Add(bubble.NodeConfig{Name: "a"})
		a := simulated(t, at, filepath.Join(dir, "a"), Settings{})
		ticket := added(t, a, api.Add{Paths: []string{filepath.Join(dir, "tree")}}).Ticket
		must(t, a.Close())
		b := simulated(t, net.Add(bubble.NodeConfig{Name: "b"}), filepath.Join(dir, "b"), Settings{})
		defer func() { must(t, b.Close()) }()
		e := added(t, b, api.Add{Ticket: ticket, Only: []string{"a b", "c"}})
		time.Sleep(10 * time.Second)
		set(t, b, e.ID, api.Set{Only: &[]string{"a", "b c"}})
		time.Sleep(10 * time.Second)
		a = simulated(t, at, filepath.Join(dir, "a"), Settings{})
		defer func() { must(t, a.Close()) }()
		time.Sleep(3 * time.Hour)
		e, err := b.Entry(t.Context(), e.ID)
		must(t, err)
		if _, err := os.Stat(filepath.Join(e.Path, "b c")); e.State != api.Served || err != nil {
			t.Errorf("the entry is %s, and what was chosen: %v", e.State, err)
		}
	})
}
