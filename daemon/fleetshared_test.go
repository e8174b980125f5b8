package daemon

import (
	"context"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// leasesAt are the leases of the account of the fleet at a depot.
func leasesAt(t *testing.T, depot *Daemon) int {
	t.Helper()
	l, err := depot.Leases(t.Context(), "fleet", "", 9)
	must(t, err)
	return len(l)
}

// A member ends what a depot keeps for the fleet while another has further depots keep it, one of which is slow: it stays ended.
func TestAReleaseIsNotUndoneByAHoldOfAnotherMember(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	first, a, b := withDepot(t)
	second := begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot") })
	_, err := first.SetAccount(t.Context(), "fleet", api.SetAccount{AddKey: string(b.node.ID())})
	must(t, err)
	_, err = second.AddAccount(t.Context(), api.AddAccount{Name: "fleet", Key: string(a.node.ID()), Quota: 1e9})
	must(t, err)
	_, err = second.SetAccount(t.Context(), "fleet", api.SetAccount{AddKey: string(b.node.ID())})
	must(t, err)
	e := added(t, a, api.Add{Paths: []string{file(t, large(9), t.TempDir(), "film")}})
	_, err = a.AddToFleet(t.Context(), e.Ticket)
	must(t, err)
	rolled(t, b, "done", func(f api.Fleet) bool { return len(f.Shares) == 1 && f.Shares[0].Done == 2 })
	_, err = a.Hold(t.Context(), api.Hold{Entry: e.ID, Depots: []string{first.node.Addrs()[0]}, Fleet: true})
	must(t, err)
	stands(t, b, "stable", func(all []api.StandingHold) bool { return len(all) == 1 && all[0].State == "stable" })

	done := make(chan error, 1)
	go func() {
		_, err := a.Hold(context.WithoutCancel(t.Context()), api.Hold{Entry: e.ID, Depots: []string{second.node.Addrs()[0], slowDepot(t)}, Fleet: true})
		done <- err
	}()
	time.Sleep(2 * time.Second)
	got, err := b.Release(t.Context(), api.Release{Share: e.Share, Depot: first.node.Addrs()[0]})
	must(t, err)
	if len(got) != 1 || got[0].State != "none" || leasesAt(t, first) != 0 {
		t.Fatalf("released: %+v, %d leases", got, leasesAt(t, first))
	}
	t.Log("the other's hold:", <-done)
	time.Sleep(5 * time.Second)
	all, err := b.StandingHolds(t.Context())
	must(t, err)
	if n := leasesAt(t, first); n != 0 || slices.ContainsFunc(all, func(h api.StandingHold) bool { return h.Depot == string(first.node.ID()) }) {
		t.Errorf("what was released is leased again: %d leases; %+v", n, all)
	}
}

// A member has a depot keep a share for the fleet while another member, whose depots are slow, has those keep it: all do.
func TestAHoldIsNotUndoneByAHoldOfAnotherMember(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	first, a, b := withDepot(t)
	second := begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot") })
	_, err := first.SetAccount(t.Context(), "fleet", api.SetAccount{AddKey: string(b.node.ID())})
	must(t, err)
	_, err = second.AddAccount(t.Context(), api.AddAccount{Name: "fleet", Key: string(a.node.ID()), Quota: 1e9})
	must(t, err)
	_, err = second.SetAccount(t.Context(), "fleet", api.SetAccount{AddKey: string(b.node.ID())})
	must(t, err)
	e := added(t, a, api.Add{Paths: []string{file(t, large(9), t.TempDir(), "film")}})
	_, err = a.AddToFleet(t.Context(), e.Ticket)
	must(t, err)
	rolled(t, b, "done", func(f api.Fleet) bool { return len(f.Shares) == 1 && f.Shares[0].Done == 2 })
	done := make(chan error, 1)
	go func() {
		_, err := a.Hold(context.WithoutCancel(t.Context()), api.Hold{Entry: e.ID, Depots: []string{first.node.Addrs()[0], slowDepot(t)}, Fleet: true})
		done <- err
	}()
	time.Sleep(2 * time.Second)
	held, err := b.Hold(t.Context(), api.Hold{Entry: entriesOf(t, b, 1)[0].ID, Depots: []string{second.node.Addrs()[0]}, Fleet: true})
	must(t, err)
	if len(held) != 1 || held[0].Expires.IsZero() {
		t.Fatalf("held: %+v", held)
	}
	t.Log("the other's hold:", <-done)
	time.Sleep(5 * time.Second)
	all, err := b.StandingHolds(t.Context())
	must(t, err)
	if !slices.ContainsFunc(all, func(h api.StandingHold) bool { return h.Depot == string(second.node.ID()) && !h.Ending }) {
		t.Errorf("what was granted and said to be kept is not renewed any more: %+v", all)
	}
}

// slowDepot is the address of a depot that takes connections, and says nothing.
func slowDepot(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	return "/ip4/127.0.0.1/tcp/" + port + "/p2p/12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN"
}
