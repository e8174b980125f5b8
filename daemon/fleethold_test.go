package daemon

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/passes/purse"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// stands waits until what depots keep for a node is so. A depot that still fetches when it is visited is
// visited again after 30 s.
func stands(t testing.TB, d *Daemon, what string, is func([]api.StandingHold) bool) []api.StandingHold {
	t.Helper()
	for end := time.Now().Add(90 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		all, err := d.StandingHolds(t.Context())
		if err == nil && is(all) {
			return all
		}
		if time.Now().After(end) {
			t.Fatalf("it is not %s: %+v, %v", what, all, err)
		}
	}
}

// withDepot starts a depot and two members of a fleet, of which it lets the first in.
func withDepot(t *testing.T) (depot, a, b *Daemon) {
	t.Helper()
	fleet := Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}
	depot = begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot") })
	a, b = begun(t, t.TempDir(), inFleet(fleet)), begun(t, t.TempDir(), inFleet(fleet))
	letIn(t, depot, a)
	return depot, a, b
}

// letIn has a depot let in members of a fleet, under one account.
func letIn(t *testing.T, depot *Daemon, members ...*Daemon) {
	t.Helper()
	_, err := depot.AddAccount(t.Context(), api.AddAccount{Name: "fleet", Key: string(members[0].node.ID()), Quota: 1e9})
	must(t, err)
	for _, m := range members[1:] {
		letInToo(t, depot, m)
	}
}

// letInToo has a depot let in another member.
func letInToo(t *testing.T, depot, member *Daemon) {
	t.Helper()
	_, err := depot.SetAccount(t.Context(), "fleet", api.SetAccount{AddKey: string(member.node.ID())})
	must(t, err)
}

// What one member has a depot keep for the fleet each member shows and renews, also when the others are gone; and
// any of them ends it.
func TestWhatDepotsKeepForAFleetIsEachMembers(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	depot, a, b := withDepot(t)
	letInToo(t, depot, b)
	on := depot.node.Addrs()[0]
	e := added(t, a, api.Add{Paths: []string{file(t, large(9), t.TempDir(), "film")}})
	ask := api.Hold{Entry: e.ID, Depots: []string{on}, Fleet: true}
	if _, err := a.Hold(t.Context(), ask); !errors.Is(err, api.ErrRequest) || !strings.Contains(err.Error(), "fleet add") {
		t.Errorf("it is not the fleet's yet: %v", err)
	}
	_, err := a.AddToFleet(t.Context(), e.Ticket)
	must(t, err)
	rolled(t, b, "done", func(f api.Fleet) bool { return len(f.Shares) == 1 && f.Shares[0].Done == 2 })
	held, err := a.Hold(t.Context(), ask)
	if err != nil || len(held) != 1 || held[0].Share != e.Share {
		t.Fatalf("%+v, %v", held, err)
	}
	kept := func(all []api.StandingHold) bool {
		return len(all) == 1 && all[0].Fleet && all[0].Share == e.Share && all[0].Left > 0 // the first look may have come before it was all there
	}
	stands(t, b, "kept for the other", kept)
	must(t, a.Close())
	if _, err := b.Release(t.Context(), api.Release{Share: e.Share}); err != nil {
		t.Error(err)
	}
	stands(t, b, "released", func(all []api.StandingHold) bool { return len(all) == 0 })
	a = begun(t, a.dir)
	stands(t, a, "released while it was away", func(all []api.StandingHold) bool { return len(all) == 0 })
	if all, err := a.Holdings(t.Context(), on); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v", all, err)
	}
}

// A member that a depot does not let in does not know what that keeps for the fleet: it says so, and no release by it is said to be done.
func TestAMemberThatADepotDoesNotLetInKnowsNothing(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	depot, a, b := withDepot(t)
	e := added(t, a, api.Add{Paths: []string{file(t, large(9), t.TempDir(), "film")}})
	_, err := a.AddToFleet(t.Context(), e.Ticket)
	must(t, err)
	rolled(t, b, "done", func(f api.Fleet) bool { return len(f.Shares) == 1 && f.Shares[0].Done == 2 })
	_, err = a.Hold(t.Context(), api.Hold{Entry: e.ID, Depots: []string{depot.node.Addrs()[0]}, Fleet: true})
	must(t, err)
	leases := func() int {
		l, err := depot.Leases(t.Context(), "fleet", "", 9)
		must(t, err)
		return len(l)
	}
	all := stands(t, b, "refused", func(all []api.StandingHold) bool { return len(all) == 1 && all[0].Why != "" })
	s, err := b.Status(t.Context())
	if err != nil || all[0].State != "unknown" || all[0].Name != "film" || s.Unheld != 0 || !strings.Contains(strings.Join(s.Warnings, " "), "it is not known here whether the depot "+depot.node.ID().Short()+" keeps film: the depot refuses") {
		t.Errorf("%+v, %+v, %v", all, s, err)
	}
	must(t, a.Close())
	got, err := b.Release(t.Context(), api.Release{Share: e.Share})
	if err != nil || len(got) != 1 || got[0].State != "unknown" || !strings.Contains(got[0].Delay, "the first running member that the depot lets in") || leases() != 1 {
		t.Errorf("released %+v, %v; %d leases", got, err, leases())
	}
	a = begun(t, a.dir)
	stands(t, a, "released by whom the depot knows", func(all []api.StandingHold) bool { return len(all) == 0 })
	if leases() != 0 {
		t.Error("the depot was not told")
	}
}

// The turn to renew is one member's at a time; one that ends gives it back, and one that lacks the passes does
// not take it. Without the store, or with one that is away, leases are renewed all the same.
func TestTheTurnToRenewIsOneMembersAtATime(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	fleet := Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}
	a, b := begun(t, t.TempDir(), inFleet(fleet)), begun(t, t.TempDir(), inFleet(fleet))
	const at = peers.ID("12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN")
	if _, err := a.member.turn(t.Context(), at, 1); !errors.Is(err, purse.ErrMissing) {
		t.Errorf("without passes: %v", err)
	}
	_, err := a.member.turn(t.Context(), at, 0)
	must(t, err)
	if _, err := b.member.turn(t.Context(), at, 0); err == nil || !strings.Contains(err.Error(), "another member") {
		t.Errorf("two at once: %v", err)
	}
	end, err := b.member.turn(t.Context(), at+"x", 0)
	must(t, err)
	end()
	end()
	must(t, a.Close())
	end, err = b.member.turn(t.Context(), at, 0)
	must(t, err)
	end()
	if end, err = b.member.turn(t.Context(), at, 0); err != nil { // it waits until the first is given back
		t.Error(err)
	}
	end()
	if _, err := (*member)(nil).turn(t.Context(), at, 0); err == nil {
		t.Error("a node of no fleet has the turn")
	}
	gone := begun(t, t.TempDir(), inFleet(Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "not", "there", "kv"), Secret: "the secret of a fleet"}))
	if _, err := gone.member.turn(t.Context(), at, 0); err != nil {
		t.Errorf("its store is away: %v", err)
	}
}

// While what depots are to keep is being changed (here: for as long as the lock for that is held), a member goes on
// telling its fleet how far it is.
func TestASlowDepotDoesNotSilenceAMember(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	fleet := Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}
	a, b := begun(t, t.TempDir(), inFleet(fleet)), begun(t, t.TempDir(), inFleet(fleet))
	e := added(t, b, api.Add{Paths: []string{file(t, large(9), t.TempDir(), "film")}})
	a.holds.changing.Lock()
	defer a.holds.changing.Unlock()
	_, err := b.AddToFleet(t.Context(), e.Ticket)
	must(t, err)
	rolled(t, b, "report of the other", func(f api.Fleet) bool { return len(f.Shares) == 1 && f.Shares[0].Done == 2 })
}

// A member has the passes for one of two renewals, and another member for the other: each renews what it can.
func TestAMemberRenewsForItsFleetWhatItsPassesPayFor(t *testing.T) {
	t.Parallel()
	fleet := Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}
	depot := begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot") })
	a := begun(t, t.TempDir(), inFleet(fleet))
	v, err := depot.Voucher(t.Context(), api.NewVoucher{Passes: 60})
	must(t, err)
	_, err = a.RedeemPasses(t.Context(), api.RedeemPasses{Code: v.Code})
	must(t, err)
	end, err := a.member.turn(t.Context(), depot.node.ID(), 50) // the cheapest
	must(t, err)
	end()
	if _, err := a.member.turn(t.Context(), depot.node.ID(), 61); !errors.Is(err, purse.ErrMissing) {
		t.Errorf("for what it cannot pay: %v", err)
	}
}

// logged is what a node logs.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// That another member renews is how it should be: nobody is warned of it, and the visit did not fail.
func TestThatAnotherMemberRenewsIsNoFault(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	fleet := Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}
	depot := begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot") })
	var log logged
	a := begun(t, t.TempDir(), inFleet(fleet))
	b := begun(t, t.TempDir(), func(c *Config) {
		inFleet(fleet)(c)
		c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	})
	letIn(t, depot, a, b)
	e := added(t, a, api.Add{Paths: []string{file(t, large(9), t.TempDir(), "film")}})
	_, err := a.AddToFleet(t.Context(), e.Ticket)
	must(t, err)
	rolled(t, b, "done", func(f api.Fleet) bool { return len(f.Shares) == 1 && f.Shares[0].Done == 2 })
	end, err := a.member.turn(t.Context(), depot.node.ID(), 0)
	must(t, err)
	ask := api.Hold{Entry: entriesOf(t, b, 1)[0].ID, Depots: []string{depot.node.Addrs()[0]}, Fleet: true}
	if _, err := b.Hold(t.Context(), ask); err == nil || !strings.Contains(err.Error(), "another member of the fleet is renewing") {
		t.Errorf("a hold while another member is at it: %v", err)
	}
	if good, failed := b.holds.counts(); failed > 0 || good == 0 {
		t.Errorf("%d visits were good, %d failed", good, failed)
	}
	if s := log.String(); strings.Contains(s, "does not keep") {
		t.Error(s)
	}
	end()
}

// A node that has left its fleet forgets what it had a depot keep for that, which the others still want.
func TestANodeThatLeftItsFleetForgetsWhatItHeldForIt(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	t.Run("for none", func(t *testing.T) { leftFleet(t) })
	t.Run("for another", func(t *testing.T) {
		leftFleet(t, inFleet(Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of another fleet"}))
	})
}

func leftFleet(t *testing.T, change ...func(*Config)) {
	t.Parallel()
	fleet := Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}
	dir := t.TempDir()
	depot := begun(t, t.TempDir(), func(c *Config) { c.Depot = filepath.Join(t.TempDir(), "depot") })
	a := begun(t, dir, inFleet(fleet))
	_, err := depot.AddAccount(t.Context(), api.AddAccount{Name: "fleet", Key: string(a.node.ID()), Quota: 1e9})
	must(t, err)
	var ids []string
	for i, ofFleet := range []bool{true, false} {
		e := added(t, a, api.Add{Paths: []string{file(t, large(byte(i)), t.TempDir(), "film")}})
		ids = append(ids, e.Share)
		if ofFleet {
			_, err = a.AddToFleet(t.Context(), e.Ticket)
			must(t, err)
			rolled(t, a, "done", func(f api.Fleet) bool { return len(f.Shares) == 1 && f.Shares[0].Done == 1 })
		}
		_, err = a.Hold(t.Context(), api.Hold{Entry: e.ID, Depots: []string{depot.node.Addrs()[0]}, Fleet: ofFleet})
		must(t, err)
	}
	must(t, a.Close())
	must(t, os.Remove(filepath.Join(dir, MembershipName)))
	a = begun(t, dir, change...)
	if all, err := a.StandingHolds(t.Context()); err != nil || len(all) != 1 || all[0].Share != ids[1] {
		t.Errorf("it holds %+v, %v", all, err)
	}
	if _, err := a.Release(t.Context(), api.Release{Share: ids[0]}); !errors.Is(err, api.ErrNoEntry) {
		t.Errorf("released: %v", err)
	}
	_, err = a.Release(t.Context(), api.Release{Share: ids[1]})
	must(t, err)
	for i, want := range []int{1, 0} {
		id, err := share.ParseID(ids[i])
		must(t, err)
		if l, err := depot.lender.db.Leases(t.Context(), time.Now(), id); err != nil || len(l) != want {
			t.Errorf("the depot keeps %+v, want %d; %v", l, want, err)
		}
	}
}

// That the file which says whose the holds are cannot be read is no reason to forget them.
func TestNothingIsForgottenWhenItIsNotKnownWhoseItIs(t *testing.T) {
	t.Parallel()
	m := &member{d: &Daemon{dir: t.TempDir(), log: slog.New(slog.DiscardHandler)}, of: belonging{id: "ours"}}
	must(t, os.Mkdir(filepath.Join(m.d.dir, fleetOfName), 0o700))
	if m.isNew() {
		t.Error("it is taken for another fleet's")
	}
}
