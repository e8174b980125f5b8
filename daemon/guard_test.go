package daemon

import (
	"errors"
	"os"
	"testing"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
)

// What came by a ticket with a secret and a beacon is given to those alone that know the
// secret, and announced at the beacon: when it has arrived, and after a restart.
func TestWhatCameByATicketIsServedByThatTicket(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	const beacon = "/ip4/192.0.2.1/tcp/4001/p2p/12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN"
	open := func(cfg fetcher.Config) *fetcher.Node {
		cfg.Dir, cfg.Listen = t.TempDir(), []string{"/ip4/127.0.0.1/tcp/0"}
		n, err := fetcher.Open(t.Context(), cfg)
		must(t, err)
		t.Cleanup(func() { n.Close() })
		return n
	}
	source := open(fetcher.Config{Beacons: fetcher.Beacons{Use: true, At: []string{beacon}}})
	s, err := source.Share(t.Context(), file(t, large(5), t.TempDir(), "f"), fetcher.ShareOptions{Secret: true})
	must(t, err)
	want, err := share.ParseTicket(s.Ticket())
	must(t, err)

	dir := t.TempDir()
	d := begun(t, dir)
	id := added(t, d, api.Add{Ticket: s.Ticket()}).ID
	for range 2 {
		e := until(t, d, id, "served from its place", func(e api.Entry) bool { return e.State == api.Served && len(d.node.Shares()) == 1 })
		got, err := share.ParseTicket(e.Ticket)
		must(t, err)
		if got.Secret == nil || *got.Secret != *want.Secret || len(got.Beacons) != 1 || got.Beacons[0].String() != beacon {
			t.Errorf("its ticket has the secret %v and the beacons %v", got.Secret, got.Beacons)
		}
		got.Secret, got.Beacons = nil, nil
		transfer, err := open(fetcher.Config{}).Fetch(t.Context(), got.String(), fetcher.FetchOptions{Dir: t.TempDir()})
		must(t, err)
		if err := transfer.Wait(t.Context()); !errors.Is(err, share.ErrNotAllowed) {
			t.Errorf("without the secret: %v", err)
		}
		must(t, d.Close())
		d = begun(t, dir)
	}
}

// What is served with a secret is given to those alone that have its ticket: at once, when its files have
// changed, and after a restart.
func TestPathsAreServedWithASecret(t *testing.T) {
	t.Parallel()
	dir, path := t.TempDir(), file(t, large(5), t.TempDir(), "f")
	d := begun(t, dir)
	if _, err := d.Add(t.Context(), api.Add{Ticket: "sharex", Secret: true}); err == nil {
		t.Error("a fetch has a secret of its own")
	}
	id := added(t, d, api.Add{Paths: []string{path}, Secret: true}).ID
	var secret *share.Secret
	for round := range 3 {
		e := until(t, d, id, "served", func(e api.Entry) bool { return e.State == api.Served && len(d.node.Shares()) == 1 && e.Ticket != "" })
		got, err := share.ParseTicket(e.Ticket)
		must(t, err)
		if got.Secret == nil || round == 1 && *got.Secret != *secret {
			t.Fatalf("round %d: its ticket has the secret %v, before %v", round, got.Secret, secret)
		}
		secret = got.Secret
		n, err := fetcher.Open(t.Context(), fetcher.Config{Dir: t.TempDir(), Listen: []string{"none"}})
		must(t, err)
		t.Cleanup(func() { n.Close() })
		got.Secret = nil
		transfer, err := n.Fetch(t.Context(), got.String(), fetcher.FetchOptions{Dir: t.TempDir()})
		must(t, err)
		if err := transfer.Wait(t.Context()); !errors.Is(err, share.ErrNotAllowed) {
			t.Errorf("round %d, without the secret: %v", round, err)
		}
		must(t, d.Close())
		if round == 1 {
			must(t, os.WriteFile(path, []byte(large(6)), 0o600))
		}
		d = begun(t, dir)
	}
}
