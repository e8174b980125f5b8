package daemon

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/simnet/bubble"
)

// A part of a share that is here is served while others are fetched: it fetches nothing, and waits for no turn.
func TestAPartThatIsHereWaitsForNoTurn(t *testing.T) {
	bubble.Test(t, 1, func(t *testing.T, net *bubble.Net) {
		dir := t.TempDir()
		served := serving(t, net, dir, "one", "two")
		for what, only := range map[string][]string{"the whole": nil, "a part": {"1"}} {
			d := simulated(t, net.Add(bubble.NodeConfig{Name: what}), filepath.Join(dir, what), Settings{Fetches: 1})
			e := until(t, d, added(t, d, api.Add{Ticket: served.Ticket, Only: only}).ID, "here", in(api.Served))
			time.Sleep(time.Minute)        // until it is served from where it will be
			d.queue.enter(new(waiting), 0) // another is fetched, for days
			set(t, d, e.ID, paused(true))
			time.Sleep(time.Minute)
			set(t, d, e.ID, paused(false)) // as after a restart
			time.Sleep(time.Hour)
			if e, err := d.Entry(t.Context(), e.ID); err != nil || e.State != api.Served || e.Ticket == "" {
				t.Errorf("%s: %s: %s, with the ticket %q, %v", what, e.State, e.Reason, e.Ticket, err)
			}
			must(t, d.Close())
		}
	})
}
