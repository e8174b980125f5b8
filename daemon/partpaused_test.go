package daemon

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/simnet/bubble"
)

// What an entry serves is served on when another entry, which has a part of the same share elsewhere, is paused, also while others are read.
func TestAPauseOfAPartLeavesWhatAnotherEntryServes(t *testing.T) {
	bubble.Test(t, 1, func(t *testing.T, net *bubble.Net) {
		dir := t.TempDir()
		for _, at := range []string{"one", "other"} {
			file(t, "one", dir, at, "tree", "1")
			file(t, "two", dir, at, "tree", "2")
		}
		a := simulated(t, net.Add(bubble.NodeConfig{Name: "a"}), filepath.Join(dir, "a"), Settings{})
		defer func() { must(t, a.Close()) }()
		ticket := added(t, a, api.Add{Paths: []string{filepath.Join(dir, "one", "tree")}}).Ticket
		b := simulated(t, net.Add(bubble.NodeConfig{Name: "b"}), filepath.Join(dir, "b"), Settings{})
		defer func() { must(t, b.Close()) }()
		part := until(t, b, added(t, b, api.Add{Ticket: ticket, Only: []string{"1"}}).ID, "here", in(api.Served))
		served := added(t, b, api.Add{Paths: []string{filepath.Join(dir, "other", "tree")}})
		time.Sleep(time.Minute)
		for range imports { // others are read, for hours
			b.reads <- struct{}{}
		}
		set(t, b, part.ID, paused(true))
		time.Sleep(time.Hour)
		if e, err := b.Entry(t.Context(), served.ID); err != nil || e.State != api.Served || len(b.node.Shares()) != 1 {
			t.Errorf("an hour later it is %s: %s, %v; the node serves %v", e.State, e.Reason, err, b.node.Shares())
		}
		for range imports {
			<-b.reads
		}
	})
}
