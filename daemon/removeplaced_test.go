package daemon

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/simnet/bubble"
	"github.com/piecelease/fetcher/store"
)

// What a fetch had put in its place when it was paused goes with the rest, or is said to stay.
func TestRemoveTakesWhatWasInItsPlaceBeforeTheEnd(t *testing.T) {
	bubble.Test(t, 1, func(t *testing.T, net *bubble.Net) {
		dir := t.TempDir()
		ticket := serving(t, net, dir, "one", large(2), "three").Ticket
		b := simulated(t, net.Add(bubble.NodeConfig{Name: "b"}), filepath.Join(dir, "b"), Settings{})
		defer func() { must(t, b.Close()) }()
		to := filepath.Join(dir, "to")
		e := added(t, b, api.Add{Ticket: ticket, Dir: to, Only: []string{"1", "2"}, LimitDown: 1 << 10})
		until(t, b, e.ID, "under way", func(e api.Entry) bool { return e.Files > 0 })
		set(t, b, e.ID, paused(true))
		k, err := b.keeper(e.ID)
		must(t, err)
		m := k.list()
		i, _ := m.Find("1") // as if it had been paused when this file was in its place, and the other was not yet
		only := make([]bool, m.Len())
		only[i] = true
		p, err := store.OpenPartial(t.Context(), to, m, store.PartialOptions{Wanted: only})
		must(t, err)
		piece, _ := m.Layout().PiecesOf(i)
		must(t, p.Write(piece, 0, []byte("one")))
		p.Complete(piece, nil)
		_, err = p.Finish(t.Context())
		must(t, err)
		must(t, p.Close())
		time.Sleep(time.Second)
		r, err := b.Remove(t.Context(), e.ID, true)
		must(t, err)
		if _, err := os.Stat(filepath.Join(to, "tree", "1")); err == nil && r.Kept == "" {
			t.Errorf("it is said that all is removed: %v", r.Data)
		}
	})
}
