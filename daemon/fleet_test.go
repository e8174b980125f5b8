package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/share"
)

// inFleet makes a daemon a member of the fleet of a store.
func inFleet(m Membership) func(*Config) {
	return func(c *Config) {
		if err := m.Save(c.Dir); err != nil {
			panic(err)
		}
	}
}

// rolled waits until the fleet of a daemon is as it should be.
func rolled(t testing.TB, d *Daemon, what string, is func(api.Fleet) bool) api.Fleet {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		f, err := d.Fleet(t.Context())
		must(t, err)
		if is(f) {
			return f
		}
		if time.Now().After(end) {
			t.Fatalf("the fleet is not %s: %+v", what, f)
		}
	}
}

// entriesOf waits until a daemon has n entries.
func entriesOf(t testing.TB, d *Daemon, n int) []api.Entry {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		all, err := d.Entries(t.Context())
		must(t, err)
		if len(all) == n {
			return all
		}
		if time.Now().After(end) {
			t.Fatalf("%d entries, not %d: %+v", len(all), n, all)
		}
	}
}

// A share added to a fleet is an entry of each member, even after a restart; when it is taken off
// the list while a member is away, that member's entry goes too.
func TestWhatAFleetHasAreEntriesOfItsMembers(t *testing.T) {
	t.Parallel()
	m := Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}
	content := large(9)
	origin := begun(t, t.TempDir())
	served := added(t, origin, api.Add{Paths: []string{file(t, content, t.TempDir(), "film")}})
	dirs := []string{t.TempDir(), t.TempDir()}
	a, b := begun(t, dirs[0], inFleet(m), func(c *Config) { c.Name = "office" }), begun(t, dirs[1], inFleet(m))
	if _, err := a.AddToFleet(t.Context(), served.Ticket); err != nil {
		t.Fatal(err)
	}
	f := rolled(t, b, "done", func(f api.Fleet) bool { return len(f.Shares) == 1 && f.Shares[0].Done == 2 })
	if s := f.Shares[0]; s.Share != served.Share || s.Name != "film" || len(s.Members) != 2 || !s.Members[0].Begun || s.Members[0].Verified != int64(len(content)) || s.Term == 0 {
		t.Errorf("the rollout: %+v", s)
	}
	if !slices.ContainsFunc(f.Members, func(p api.FleetMember) bool { return p.Peer == string(a.node.ID()) && p.Name == "office" }) {
		t.Errorf("the machine's name is not told: %+v", f.Members)
	}
	all, err := b.Rounds(t.Context())
	if err != nil || len(all) != 1 || !strings.Contains(all[0].Round, served.Share) || all[0].State != "running" || !all[0].Office || !all[0].Ends.IsZero() || all[0].Holder != f.Shares[0].Coordinator || all[0].Term != f.Shares[0].Term {
		t.Errorf("rounds: %+v, %v", all, err)
	}
	e := entriesOf(t, b, 1)[0]
	if !e.Fleet || e.State != api.Served {
		t.Errorf("the entry: %+v", e)
	}
	same(t, filepath.Join(dirs[1], "in", "film"), content)
	if _, err := b.Remove(t.Context(), e.ID, true); !errors.Is(err, api.ErrRequest) || !strings.Contains(err.Error(), "fleet remove") {
		t.Errorf("removed on one machine: %v", err)
	}
	_, err = b.Set(t.Context(), e.ID, api.Set{Paused: new(true)})
	must(t, err)
	rolled(t, a, "paused and done", func(f api.Fleet) bool {
		return f.Shares[0].Done == 2 && slices.ContainsFunc(f.Shares[0].Members, func(p api.FleetProgress) bool { return p.Done && p.Waits == "paused" })
	})
	_, err = b.Set(t.Context(), e.ID, api.Set{Paused: new(false)})
	must(t, err)
	must(t, b.Close())
	b = begun(t, dirs[1])
	e = until(t, b, e.ID, "here again", in(api.Served))
	must(t, origin.Close()) // from here on only members have it
	late := begun(t, t.TempDir(), inFleet(m))
	rolled(t, late, "done by three", func(f api.Fleet) bool { return f.Shares[0].Done == 3 })
	must(t, b.Close())
	if _, err := a.RemoveFromFleet(t.Context(), served.Share); err != nil {
		t.Fatal(err)
	}
	entriesOf(t, a, 0)
	b = begun(t, dirs[1])
	entriesOf(t, b, 0)
	same(t, filepath.Join(dirs[1], "in", "film"), content)
}

// What a member's owner has asked for stays the owner's, even if the fleet has it too; and a fleet's
// entry that is no longer on the list may be removed.
func TestWhatAnOwnerAskedForIsNotTheFleets(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	m := Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}
	a := begun(t, t.TempDir(), inFleet(m))
	own := added(t, a, api.Add{Paths: []string{file(t, large(3), t.TempDir(), "own")}})
	_, err := a.AddToFleet(t.Context(), own.Ticket)
	must(t, err)
	rolled(t, a, "done", func(f api.Fleet) bool { return len(f.Shares) == 1 && f.Shares[0].Done == 1 })
	_, err = a.RemoveFromFleet(t.Context(), own.Share)
	must(t, err)
	rolled(t, a, "empty", func(f api.Fleet) bool { return len(f.Shares) == 0 })
	if all := entriesOf(t, a, 1); all[0].Fleet || all[0].State != api.Served {
		t.Errorf("%+v", all)
	}
	k, err := a.added(t.Context(), catalog.Wish{Source: own.Ticket, Peers: []string{"/ip4/127.0.0.1/tcp/1/p2p/12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN"}, Dir: t.TempDir(), Fleet: true})
	must(t, err)
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) { // it learns that the list is empty, and may remove it itself
		if _, err = a.Remove(t.Context(), int64(k.id), false); err == nil || errors.Is(err, api.ErrNoEntry) || time.Now().After(end) {
			break
		}
	}
	if err != nil && !errors.Is(err, api.ErrNoEntry) {
		t.Errorf("a relic of a list: %v", err)
	}
}

// A member's report has room for the whole advice.
func TestTheAdviceOnWhatIsNotServedFitsAReport(t *testing.T) {
	t.Parallel()
	id := share.IDOf([]byte("x"))
	if got := unserved(nil, id); !strings.HasSuffix(got, ": there, run fetcher fleet add PATH if no file changed, or fetcher fleet remove "+id.String()) || len(got) > 200 {
		t.Errorf("%d bytes: %s", len(got), got)
	}
}

// What is advised for files that were edited after their fleet got them works: the edited ones reach the other member.
func TestAFleetTakesWhatWasEditedAsItIsAdvised(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	m := Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}
	dir := t.TempDir()
	a, b := begun(t, t.TempDir(), inFleet(m)), begun(t, dir, inFleet(m))
	path := file(t, "as it was", t.TempDir(), "notes")
	was := added(t, a, api.Add{Paths: []string{path}})
	_, err := a.AddToFleet(t.Context(), was.Ticket)
	must(t, err)
	rolled(t, b, "done", func(f api.Fleet) bool { return len(f.Shares) == 1 && f.Shares[0].Done == 2 })
	must(t, os.WriteFile(path, []byte("as it was edited"), 0o600))
	now := until(t, a, was.ID, "another version", func(e api.Entry) bool { return e.State == api.Served && len(e.Older) == 1 })
	_, err = a.added(t.Context(), catalog.Wish{Source: was.Ticket, Dir: t.TempDir(), Fleet: true})
	if err == nil || !strings.Contains(err.Error(), "the share's files were edited on this member: undo the edits; or, on this member, run fetcher fleet remove "+was.Share+" and then fetcher fleet add PATH") || len(err.Error()) > 200 {
		t.Errorf("the advice: %v", err)
	}
	_, err = a.RemoveFromFleet(t.Context(), was.Share)
	must(t, err)
	_, err = a.AddToFleet(t.Context(), now.Ticket)
	must(t, err)
	rolled(t, b, "in need of repair", func(f api.Fleet) bool {
		return len(f.Shares) == 1 && slices.ContainsFunc(f.Shares[0].Members, func(p api.FleetProgress) bool {
			return strings.Contains(p.Waits, ". Repair the entry with fetcher set")
		})
	})
	e := entriesOf(t, b, 1)[0]
	if e.Name != "notes" {
		t.Errorf("what is to be repaired is called %q", e.Name)
	}
	_, err = b.Set(t.Context(), e.ID, api.Set{Repair: true})
	must(t, err)
	rolled(t, b, "done again", func(f api.Fleet) bool { return len(f.Shares) == 1 && f.Shares[0].Done == 2 })
	same(t, filepath.Join(dir, "in", "notes"), "as it was edited")
}

// A node runs even if its fleet's store is away, and says so; one that belongs to no fleet says
// that.
func TestTheStoreOfAFleetMayBeAway(t *testing.T) {
	t.Parallel()
	dir, began := filepath.Join(t.TempDir(), "later"), time.Now()
	m := Membership{URL: "sqlite:" + filepath.Join(dir, "kv"), Secret: "the secret of a fleet"}
	a := begun(t, t.TempDir(), inFleet(m))
	f, err := a.Fleet(t.Context())
	if err != nil || !strings.Contains(f.Away, "has not been usable for") || f.AwaySince.Before(began) || f.AwaySince.After(time.Now()) {
		t.Errorf("%+v, %v", f, err)
	}
	says := func() bool {
		s, err := a.Status(t.Context())
		must(t, err)
		return s.Fleet && slices.ContainsFunc(s.Warnings, func(w string) bool { return strings.Contains(w, "the store of the fleet has not been usable for") })
	}
	if !says() {
		t.Error("the status does not say that the store is away")
	}
	if len(f.Shares) != 0 {
		t.Errorf("shares of which it knows nothing: %+v", f.Shares)
	}
	film, peer := share.IDOf([]byte("film")), "12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN"
	_, err = a.added(t.Context(), catalog.Wish{Source: film.String(), Peers: []string{"/ip4/127.0.0.1/tcp/1/p2p/" + peer}, Dir: t.TempDir(), Fleet: true})
	must(t, err)
	f, err = a.Fleet(t.Context())
	if err != nil || !f.At.IsZero() || len(f.Shares) != 1 || f.Shares[0].Share != film.String() || len(f.Members) != 1 || f.Members[0].Peer != string(a.node.ID()) {
		t.Errorf("what it has itself: %+v, %v", f, err)
	}
	must(t, os.Mkdir(dir, 0o700))
	rolled(t, a, "there", func(f api.Fleet) bool { return f.Away == "" && f.AwaySince.IsZero() && len(f.Members) == 1 })
	if says() {
		t.Error("the status says that the store is away")
	}
	alone := begun(t, t.TempDir())
	if _, err := alone.Fleet(t.Context()); !errors.Is(err, api.ErrNoEntry) {
		t.Errorf("no fleet: %v", err)
	}
	if _, err := alone.Rounds(t.Context()); !errors.Is(err, api.ErrNoEntry) {
		t.Errorf("the rounds of no fleet: %v", err)
	}
	if _, err := alone.AddToFleet(t.Context(), "x"); !errors.Is(err, api.ErrNoEntry) {
		t.Errorf("no fleet: %v", err)
	}
}

// silent is a store that answers nothing, as when its server is stopped.
type silent struct{ rounds.KV }

func (silent) Get(ctx context.Context, _ string) (rounds.Entry, error) {
	<-ctx.Done()
	return rounds.Entry{}, rounds.Unanswered(ctx)
}

func (silent) Watch(ctx context.Context, _ string, _ func([]rounds.Entry)) error {
	<-ctx.Done()
	return rounds.Unanswered(ctx)
}

func TestAStoreThatDoesNotAnswerIsNotWaitedForLongerThanTheClientWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Daemon{member: &member{store: fetcher.FleetStore{KV: silent{}, Secret: "the secret of a fleet"}}}
		ticket, err := share.NewTicket(share.IDOf(nil), []multiaddr.Multiaddr{multiaddr.StringCast("/ip4/127.0.0.1/tcp/1/p2p/" + peerA)})
		must(t, err)
		for name, ask := range map[string]func() (api.FleetShare, error){
			"add":    func() (api.FleetShare, error) { return d.AddToFleet(t.Context(), ticket.String()) },
			"remove": func() (api.FleetShare, error) { return d.RemoveFromFleet(t.Context(), share.IDOf(nil).String()) },
		} {
			began := time.Now()
			if _, err := ask(); !errors.Is(err, share.ErrNetwork) || !strings.Contains(err.Error(), "does not answer") {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(began); took != fleetTime {
				t.Errorf("%s took %v", name, took)
			}
		}
	})
}

// unfit is a store that answers, and cannot be used.
type unfit struct{ rounds.KV }

func (unfit) Get(context.Context, string) (rounds.Entry, error) {
	return rounds.Entry{}, fmt.Errorf("%w: it keeps nothing", rounds.ErrUnfit)
}

func TestWhyAStoreCannotBeUsedIsSaidThroughTheNode(t *testing.T) {
	t.Parallel()
	d := &Daemon{member: &member{store: fetcher.FleetStore{KV: unfit{}, Secret: "the secret of a fleet"}}}
	if _, err := d.RemoveFromFleet(t.Context(), share.IDOf(nil).String()); !errors.Is(err, share.ErrNetwork) || !strings.Contains(err.Error(), "cannot be used: it keeps nothing") {
		t.Error(err)
	}
}

// A node that the store does not let in says so, and how it is given the URL with another password.
func TestANodeIsToldOfAnotherPassword(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() { // a NATS server, as far as it goes
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			fmt.Fprint(c, "INFO {\"server_id\":\"x\",\"max_payload\":99999,\"auth_required\":true}\r\n")
			c.Read(make([]byte, 1))
			fmt.Fprint(c, "-ERR 'Authorization Violation'\r\n")
			time.AfterFunc(time.Second, func() { c.Close() })
		}
	}()
	m, dir := Membership{URL: "nats://" + l.Addr().String() + "/f", Secret: "the secret of a fleet"}, t.TempDir()
	a := begun(t, dir, inFleet(m))
	says := func(want string) {
		t.Helper()
		f, err := a.Fleet(t.Context())
		if err != nil || !strings.Contains(f.Away, " s: its server does not let this user in: ") || !strings.Contains(f.Away, want) {
			t.Errorf("%+v, %v", f, err)
		}
	}
	says(`give "fetcher fleet invite" the URL`)
	m.URL = "nats://me:x@" + l.Addr().String() + "/f"
	must(t, m.Save(dir))
	says("Restart the node")
	secret := file(t, m.Secret, t.TempDir(), "secret")
	a = begun(t, t.TempDir(), func(c *Config) { c.Fleet, c.FleetSecret = m.URL, secret })
	says(`the URL in the setting "fleet"`)
}

func TestAMembershipIsOfTheSettingsOrTheDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	url := "sqlite:" + filepath.Join(dir, "kv")
	secret, short := file(t, " the secret of a fleet\n", dir, "secret"), file(t, "short", dir, "short")
	for _, x := range []struct {
		s    Settings
		want string
	}{
		{Settings{Fleet: url}, "go together"},
		{Settings{FleetSecret: secret}, "go together"},
		{Settings{Fleet: url, FleetSecret: "secret"}, "path from the root"},
		{Settings{Fleet: url, FleetSecret: short}, "has 5 bytes"},
		{Settings{Fleet: url, FleetSecret: secret + "x"}, "cannot be read"},
		{Settings{Fleet: "ours", FleetSecret: secret}, "not the URL"},
	} {
		x.s.Listen = []string{"127.0.0.1:0"}
		d, err := Open(context.Background(), Config{Dir: t.TempDir(), Settings: x.s})
		if err == nil {
			d.Close()
		}
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%+v: %v", x.s, err)
		}
	}
	d := begun(t, t.TempDir(), func(c *Config) {
		c.Fleet, c.FleetSecret = url, secret
		file(t, `{"url":"sqlite:/nowhere/at/all","secret":"the secret of another"}`, c.Dir, MembershipName)
	})
	if d.member.store.Secret != "the secret of a fleet" {
		t.Error("the settings do not go first")
	}
	for _, text := range []string{"", "{", `{"url":"","secret":"the secret of a fleet"}`, `{"url":"sqlite:x","secret":"short"}`} {
		file(t, text, dir, MembershipName)
		if _, ok, err := Joined(dir); ok || !errors.Is(err, ErrMembership) {
			t.Errorf("%q: %v, %v", text, ok, err)
		}
	}
}
