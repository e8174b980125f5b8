package daemon

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/share"
)

// A request that is refused leaves what the depot is paid for all else as it was.
func TestARefusedHoldChangesNoBudget(t *testing.T) {
	t.Parallel()
	depot := begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot") })
	d := begun(t, t.TempDir())
	_, err := depot.AddAccount(t.Context(), api.AddAccount{Name: "me", Key: string(d.node.ID()), Quota: 1e6})
	must(t, err)
	song := added(t, d, api.Add{Paths: []string{file(t, "song", t.TempDir(), "song")}})
	film := added(t, d, api.Add{Paths: []string{file(t, large(1), t.TempDir(), "film")}})
	_, err = d.Hold(t.Context(), api.Hold{Entry: song.ID, Depots: depot.node.Addrs()[:1], Budget: new(int64(300))})
	must(t, err)
	if _, err = d.Hold(t.Context(), api.Hold{Entry: film.ID, Depots: depot.node.Addrs()[:1], Budget: new(int64(1))}); !errors.Is(err, share.ErrDiskFull) {
		t.Fatalf("the film has room there: %v", err)
	}
	if all, err := d.Passes(t.Context()); err != nil || len(all) != 1 || all[0].Budget != 300 {
		t.Errorf("of the budget of 300 is left: %+v, %v", all, err)
	}
}
