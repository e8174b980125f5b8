package daemon

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// While a member waits for a slow depot to keep one share for the fleet, it hears what the fleet releases of another.
func TestASlowHoldForTheFleetHoldsUpNoOtherShare(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	depot, a, b := withDepot(t)
	letInToo(t, depot, b)
	film := added(t, a, api.Add{Paths: []string{file(t, large(9), t.TempDir(), "film")}})
	song := added(t, a, api.Add{Paths: []string{file(t, large(8), t.TempDir(), "song")}})
	for _, e := range []api.Entry{film, song} {
		_, err := a.AddToFleet(t.Context(), e.Ticket)
		must(t, err)
	}
	rolled(t, b, "done", func(f api.Fleet) bool { return len(f.Shares) == 2 && f.Shares[0].Done == 2 && f.Shares[1].Done == 2 })
	_, err := a.Hold(t.Context(), api.Hold{Entry: song.ID, Depots: []string{depot.node.Addrs()[0]}, Fleet: true})
	must(t, err)
	stands(t, b, "stable", func(all []api.StandingHold) bool { return len(all) == 1 && all[0].State == "stable" })
	_, err = a.Hold(t.Context(), api.Hold{Entry: film.ID, Depots: []string{depot.node.Addrs()[0]}, Fleet: true})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go a.Hold(ctx, api.Hold{Entry: film.ID, Depots: []string{slowDepot(t)}, Fleet: true})
	time.Sleep(time.Second)
	_, err = b.Release(t.Context(), api.Release{Share: film.Share}) // which a has to carry out, too
	must(t, err)
	time.Sleep(1500 * time.Millisecond)
	_, err = b.Release(t.Context(), api.Release{Share: song.Share})
	must(t, err)
	began := time.Now()
	for {
		l, err := a.node.Holds(t.Context())
		must(t, err)
		if !slices.ContainsFunc(l.Wants, func(w fetcher.Hold) bool { return w.Share.String() == song.Share }) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("it heard of it after %v", took)
	}
}
