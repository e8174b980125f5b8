package daemon

import (
	"context"
	"errors"
	"maps"
	"net"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/rounds/memkv"
	"github.com/piecelease/fetcher/share"
)

// leasesAt are the leases of the account of the fleet at a depot.
func leasesAt(t *testing.T, depot *Daemon) int {
	t.Helper()
	l, err := depot.Leases(t.Context(), "fleet", "", 9)
	must(t, err)
	return len(l)
}

// What this node sees of the list, of what it has depots keep, is older than the list: that is changed as it is, and no more of it.
func TestTheFleetsListIsChangedAsItIsThen(t *testing.T) {
	t.Parallel()
	const first, second, third = peers.ID("12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN"), peers.ID("12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA"), peers.ID("12D3KooWNFtGTiDnCoikLRz6BvdsWgLUudj8gKdKwMfFszE15tSv")
	f := &fleetHolds{m: &member{store: fetcher.FleetStore{KV: memkv.New(), Secret: "the secret of a fleet"}}}
	id := share.IDOf([]byte("film"))
	source, err := share.ParseAddr("/ip4/192.0.2.1/tcp/1/p2p/" + string(third))
	must(t, err)
	ticket := share.Ticket{ID: id, Peers: []multiaddr.Multiaddr{source}}.String()
	_, err = f.m.store.Add(t.Context(), ticket)
	must(t, err)
	as := func(copies int, depots ...peers.ID) fetcher.HoldList { // at port 2
		l := fetcher.HoldList{Want: 1, Wants: []fetcher.Hold{{ID: 1, Share: id, Depots: depots, Copies: copies, Bytes: 9}}, Addrs: map[peers.ID][]string{}}
		for _, d := range depots {
			l.Addrs[d] = []string{"/ip4/192.0.2.1/tcp/2"}
		}
		return l
	}
	released := []peers.ID{}
	lists := func(copies int, depots ...string) {
		t.Helper()
		l, err := f.m.store.Listed(t.Context(), id)
		must(t, err)
		if is := slices.Sorted(maps.Keys(l.Released)); !slices.Equal(is, slices.Sorted(slices.Values(released))) {
			t.Errorf("it lists %v as released, not %v", is, released)
		}
		if len(depots) == 0 && l.Kept == nil {
			return
		}
		if l.Kept == nil || !slices.Equal(l.Kept.Depots, depots) || l.Kept.Copies != copies {
			t.Errorf("it lists %+v, not %d at %v", l.Kept, copies, depots)
		}
	}
	const at = "/ip4/192.0.2.1/tcp/2/p2p/"
	also := func(l fetcher.HoldList, depots ...peers.ID) {
		t.Helper()
		says, err := f.also(t.Context(), l, l.Wants[0], depots)
		must(t, err)
		now, err := f.m.store.Listed(t.Context(), id)
		if err != nil || !reflect.DeepEqual(says.Kept, now.Kept) {
			t.Errorf("it was told of %+v, and lists %+v, %v", says.Kept, now.Kept, err)
		}
	}
	also(as(0, first), first)
	also(as(2, second, third), second, third) // before it heard of the first
	lists(2, at+string(first), at+string(second), at+string(third))
	must(t, f.without(t.Context(), id, first))
	must(t, f.without(t.Context(), id, first))
	released = append(released, first)
	also(as(2, first, second, third), third) // before it heard that the first is ended
	lists(2, at+string(second), at+string(third))
	must(t, f.without(t.Context(), id, second))
	released = append(released, second)
	lists(0, at+string(third)) // two copies are no more to be had
	must(t, f.without(t.Context(), id, ""))
	released = append(released, third)
	lists(0)
	also(as(0, third), third)                   // released all the same, before that
	_, err = f.m.store.Add(t.Context(), ticket) // with another source, for all that is known
	must(t, err)
	lists(0, at+string(third))
	must(t, f.m.store.Remove(t.Context(), id))
	must(t, f.without(t.Context(), id, ""))
	l := as(0, first)
	if _, err := f.also(t.Context(), l, l.Wants[0], []peers.ID{first}); !errors.Is(err, fetcher.ErrNotListed) {
		t.Errorf("kept though it is not on the list: %v", err)
	}
}

// withTwoDepots has two depots, which let in both members of a fleet, and a share that the fleet has.
func withTwoDepots(t *testing.T) (first, second, a, b *Daemon, e api.Entry) {
	t.Helper()
	first, a, b = withDepot(t)
	second = begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot") })
	letInToo(t, first, b)
	letIn(t, second, a, b)
	e = added(t, a, api.Add{Paths: []string{file(t, large(9), t.TempDir(), "film")}})
	_, err := a.AddToFleet(t.Context(), e.Ticket)
	must(t, err)
	rolled(t, b, "done", func(f api.Fleet) bool { return len(f.Shares) == 1 && f.Shares[0].Done == 2 })
	return first, second, a, b, e
}

// asked waits until a member has asked a depot to keep something, as it writes that before.
func asked(t *testing.T, d, depot *Daemon) {
	t.Helper()
	stands(t, d, "asked", func(all []api.StandingHold) bool {
		return slices.ContainsFunc(all, func(h api.StandingHold) bool { return h.Depot == string(depot.node.ID()) })
	})
}

// A member ends what a depot keeps for the fleet while another has further depots keep it, one of which is slow: it stays ended.
func TestAReleaseIsNotUndoneByAHoldOfAnotherMember(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	first, second, a, b, e := withTwoDepots(t)
	_, err := a.Hold(t.Context(), api.Hold{Entry: e.ID, Depots: []string{first.node.Addrs()[0]}, Fleet: true})
	must(t, err)
	stands(t, b, "stable", func(all []api.StandingHold) bool { return len(all) == 1 && all[0].State == "stable" })

	done := make(chan error, 1)
	go func() {
		_, err := a.Hold(context.WithoutCancel(t.Context()), api.Hold{Entry: e.ID, Depots: []string{second.node.Addrs()[0], slowDepot(t)}, Fleet: true})
		done <- err
	}()
	asked(t, a, second)
	got, err := b.Release(t.Context(), api.Release{Share: e.Share, Depot: first.node.Addrs()[0]})
	must(t, err)
	if len(got) != 1 || got[0].State != "none" || leasesAt(t, first) != 0 {
		t.Fatalf("released: %+v, %d leases", got, leasesAt(t, first))
	}
	t.Log("the other's hold:", <-done)
	asked(t, b, second) // it has heard what the list says by now
	for _, d := range []*Daemon{a, b, a} {
		must(t, d.node.VisitDepot(t.Context(), first.node.ID()))
	}
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
	first, second, a, b, e := withTwoDepots(t)
	done := make(chan error, 1)
	go func() {
		_, err := a.Hold(context.WithoutCancel(t.Context()), api.Hold{Entry: e.ID, Depots: []string{first.node.Addrs()[0], slowDepot(t)}, Fleet: true})
		done <- err
	}()
	asked(t, a, first)
	held, err := b.Hold(t.Context(), api.Hold{Entry: entriesOf(t, b, 1)[0].ID, Depots: []string{second.node.Addrs()[0]}, Fleet: true})
	must(t, err)
	if len(held) != 1 || held[0].Expires.IsZero() {
		t.Fatalf("held: %+v", held)
	}
	t.Log("the other's hold:", <-done)
	asked(t, b, first) // it has heard what the list says by now
	all, err := b.StandingHolds(t.Context())
	must(t, err)
	if !slices.ContainsFunc(all, func(h api.StandingHold) bool { return h.Depot == string(second.node.ID()) && !h.Ending }) {
		t.Errorf("what was granted and said to be kept is not renewed any more: %+v", all)
	}
}

// silentDepot takes connections at an address, for whoever accepts them, and says nothing.
func silentDepot(t *testing.T) (l net.Listener, addr string) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	return l, "/ip4/127.0.0.1/tcp/" + port + "/p2p/12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN"
}

// slowDepot is the address of a silentDepot.
func slowDepot(t *testing.T) string {
	t.Helper()
	_, addr := silentDepot(t)
	return addr
}

// What one member holds for itself it has leased again when another member ends what the depot keeps for the fleet, though both have one
// account there, and so one lease.
func TestAMemberHoldsForItselfWhatTheFleetReleases(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	depot, a, b := withDepot(t)
	letInToo(t, depot, b)
	_, err := depot.DepotDo(t.Context(), "gc-on")
	must(t, err)
	on := []string{depot.node.Addrs()[0]}
	e := added(t, a, api.Add{Paths: []string{file(t, large(9), t.TempDir(), "film")}})
	_, err = a.Hold(t.Context(), api.Hold{Entry: e.ID, Depots: on})
	must(t, err)
	stable := func(all []api.StandingHold) bool { return len(all) == 1 && all[0].State == "stable" }
	stands(t, a, "stable", stable)
	_, err = a.AddToFleet(t.Context(), e.Ticket)
	must(t, err)
	rolled(t, b, "done", func(f api.Fleet) bool { return len(f.Shares) == 1 && f.Shares[0].Done == 2 })
	_, err = b.Hold(t.Context(), api.Hold{Entry: entriesOf(t, b, 1)[0].ID, Depots: on, Fleet: true})
	must(t, err)
	stands(t, b, "stable", stable)
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) { // until the other knows of it
		l, err := a.node.Holds(t.Context())
		must(t, err)
		if len(l.Wants) == 2 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it wants %+v", l.Wants)
		}
	}
	got, err := b.Release(t.Context(), api.Release{Share: e.Share})
	if err != nil || len(got) != 1 || got[0].State != "none" {
		t.Fatalf("released: %+v, %v", got, err)
	}
	id, err := share.ParseID(e.Share)
	must(t, err)
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		x, err := depot.lender.db.Share(t.Context(), id)
		if must(t, err); leasesAt(t, depot) == 1 && x.State.String() == "stable" {
			break
		}
		if time.Now().After(end) {
			all, err := a.StandingHolds(t.Context())
			t.Fatalf("%d leases, and the share is %v; the member that holds it for itself is told %+v, %v", leasesAt(t, depot), x.State, all, err)
		}
	}
}
