package daemon

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/peers"
)

// While a hold waits for a depot that does not answer, what concerns other entries and depots is done: holds, releases.
func TestAHoldWaitsForItsOwnDepotAlone(t *testing.T) {
	t.Parallel()
	depot := begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot") })
	d := begun(t, t.TempDir())
	_, err := depot.AddAccount(t.Context(), api.AddAccount{Name: "me", Key: string(d.node.ID()), Quota: 1e9})
	must(t, err)
	film := added(t, d, api.Add{Paths: []string{file(t, "film", t.TempDir(), "film")}})
	song := added(t, d, api.Add{Paths: []string{file(t, "song", t.TempDir(), "song")}})
	at := depot.node.Addrs()[:1]
	_, err = d.Hold(t.Context(), api.Hold{Entry: film.ID, Depots: at})
	must(t, err)
	end := heldUp(t, d, film.ID)
	_, err = d.Hold(t.Context(), api.Hold{Entry: song.ID, Depots: at})
	must(t, err)
	_, err = d.Release(t.Context(), api.Release{Share: song.Share})
	must(t, err)
	end()
}

// heldUp has a node wait, with a hold of an entry, for a depot that takes connections and says nothing. end ends that; until then it must wait.
func heldUp(t *testing.T, d *Daemon, entry int64) (end func()) {
	t.Helper()
	silent, at := silentDepot(t)
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	held := make(chan error, 1)
	go func() { // until cancel
		_, err := d.Hold(ctx, api.Hold{Entry: entry, Depots: []string{at}})
		held <- err
	}()
	visit, err := silent.Accept()
	must(t, err)
	t.Cleanup(func() { visit.Close() }) // a connection that nobody has is closed when memory is collected
	return func() {
		t.Helper()
		select {
		case err := <-held:
			t.Fatalf("the hold ended before: %v", err)
		default:
		}
		cancel()
		<-held
	}
}

// What is released while a hold waits does not come back when the hold ends: neither all of it, nor one depot's.
func TestWhatIsReleasedWhileAHoldWaitsStaysReleased(t *testing.T) {
	t.Parallel()
	d := begun(t, t.TempDir())
	film := added(t, d, api.Add{Paths: []string{file(t, "film", t.TempDir(), "film")}})
	k, err := d.keeper(film.ID)
	must(t, err)
	at := func(n int) string {
		return []string{"/ip4/127.0.0.1/tcp/1/p2p/", "/ip4/127.0.0.1/tcp/2/p2p/"}[n] + []string{"12D3KooWCEkaqKUu3EQuiLgh3No6XsD5MNCwEn4oyiLE9wD7EaZL", "12D3KooWCUS7TRjt4PVghv7e1C31JjiYdMkroxPJhU5Qb62DBCTF"}[n]
	}
	for _, only := range []string{"", "12D3KooWCEkaqKUu3EQuiLgh3No6XsD5MNCwEn4oyiLE9wD7EaZL"} {
		_, err = d.askHold(t.Context(), api.Hold{Entry: film.ID, Depots: []string{at(0)}}, k.list(), "film") // as if it were granted
		must(t, err)
		a, err := d.askHold(t.Context(), api.Hold{Entry: film.ID, Depots: []string{at(1)}}, k.list(), "film")
		must(t, err)
		_, l, err := d.drop(t.Context(), k.list().ID(), peers.ID(only))
		must(t, err)
		l.Want = a.written.Want
		if out, err := d.granted(t.Context(), a, l); err == nil {
			t.Errorf("released at %q, and granted: %+v", only, out)
		}
		if l, err := d.node.Holds(t.Context()); err != nil || len(l.Wants) != 0 {
			t.Errorf("released at %q: %+v, %v", only, l.Wants, err)
		}
	}
}
