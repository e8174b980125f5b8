package daemon

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/simnet/bubble"
)

// What is here and must be read again, as its times have changed, is read in its turn, be it all of a share or a part: after a start it may be all that a
// node has.
func TestAPartThatIsHereIsReadInItsTurn(t *testing.T) {
	bubble.Test(t, 1, func(t *testing.T, net *bubble.Net) {
		dir := t.TempDir()
		served := serving(t, net, dir, "one", "two")
		for what, only := range map[string][]string{"the whole": nil, "a part": {"1"}} {
			d := simulated(t, net.Add(bubble.NodeConfig{Name: what}), filepath.Join(dir, what), Settings{})
			e := until(t, d, added(t, d, api.Add{Ticket: served.Ticket, Only: only}).ID, "here", in(api.Served))
			time.Sleep(time.Minute) // until it is served from where it will be
			set(t, d, e.ID, paused(true))
			must(t, os.Chtimes(filepath.Join(e.Path, "1"), time.Time{}, time.Unix(1e9, 0)))
			for range imports { // others are read
				d.reads <- struct{}{}
			}
			set(t, d, e.ID, paused(false))
			time.Sleep(time.Hour)
			if e, err := d.Entry(t.Context(), e.ID); err != nil || e.State != api.Opening {
				t.Errorf("%s: while as many as may be are read it is %s: %s, %v", what, e.State, e.Reason, err)
			}
			set(t, d, e.ID, paused(true))
			time.Sleep(time.Minute)
			if e, err := d.Entry(t.Context(), e.ID); err != nil || e.State != api.Paused {
				t.Errorf("%s: paused meanwhile, it is %s: %s, %v", what, e.State, e.Reason, err)
			}
			set(t, d, e.ID, paused(false))
			for range imports {
				<-d.reads
			}
			time.Sleep(time.Minute)
			if e, err := d.Entry(t.Context(), e.ID); err != nil || e.State != api.Served {
				t.Errorf("%s: after that it is %s: %s, %v", what, e.State, e.Reason, err)
			}
			must(t, d.Close())
		}
	})
}
