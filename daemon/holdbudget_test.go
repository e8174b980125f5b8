package daemon

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
)

// A request that is refused leaves what the depot is paid for all else as it was, or as another request has set it meanwhile.
func TestARefusedHoldChangesNoBudget(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	depot := begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot") })
	d := begun(t, t.TempDir())
	_, err := depot.AddAccount(t.Context(), api.AddAccount{Name: "me", Key: string(d.node.ID()), Quota: 1e6})
	must(t, err)
	song := added(t, d, api.Add{Paths: []string{file(t, "song", t.TempDir(), "song")}})
	film := added(t, d, api.Add{Paths: []string{file(t, large(1), t.TempDir(), "film")}})
	hold := func(e api.Entry, budget int64) api.Hold {
		return api.Hold{Entry: e.ID, Depots: depot.node.Addrs()[:1], Budget: &budget}
	}
	is := func(budget int64) {
		t.Helper()
		if all, err := d.Passes(t.Context()); err != nil || len(all) != 1 || all[0].Budget != budget {
			t.Errorf("of the budget of %d is left: %+v, %v", budget, all, err)
		}
	}
	_, err = d.Hold(t.Context(), hold(song, 300))
	must(t, err)
	if _, err = d.Hold(t.Context(), hold(film, 1)); !errors.Is(err, share.ErrDiskFull) {
		t.Fatalf("the film has room there: %v", err)
	}
	is(300)
	k, err := d.keeper(film.ID)
	must(t, err)
	a, err := d.askHold(t.Context(), hold(film, 7), k.list(), "film")
	must(t, err)
	_, err = d.Hold(t.Context(), hold(song, 200))
	must(t, err)
	l, err := d.node.AwaitVisits(t.Context(), a.written)
	must(t, err)
	if _, err = d.granted(t.Context(), a, l); !errors.Is(err, share.ErrDiskFull) {
		t.Fatalf("the film has room there: %v", err)
	}
	is(200)
}
