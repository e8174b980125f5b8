package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/rounds/kvurl"
	"github.com/piecelease/fetcher/share"
)

// A node whose fleet got another secret says so, and what to do: to join, or if the machine has joined already, to restart.
func TestANodeThatWasPutOutOfItsFleetSaysSo(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	m := Membership{URL: "sqlite:" + filepath.Join(t.TempDir(), "kv"), Secret: "the secret of a fleet"}
	dir := t.TempDir()
	a := begun(t, dir, inFleet(m), func(c *Config) { c.Name = "nas-7" })
	rolled(t, a, "its own", func(f api.Fleet) bool { return len(f.Members) == 1 && f.Members[0].Name == "nas-7" })
	film := added(t, a, api.Add{Paths: []string{file(t, large(9), t.TempDir(), "film")}})
	kv, err := kvurl.Open(t.Context(), m.URL)
	must(t, err)
	defer kv.Close()
	next := Membership{URL: m.URL, Secret: "another secret of the fleet", ID: m.Fleet(), Changes: 1}
	must(t, fetcher.FleetStore{KV: kv, Secret: m.Secret}.ChangeSecret(t.Context(), next.Secret))
	a.member.forget() // as when something was added
	out := func(advice string) {
		t.Helper()
		f := rolled(t, a, "no more its own: "+advice, func(f api.Fleet) bool {
			return strings.Contains(f.Away, "ceased to be a member of its fleet") && strings.Contains(f.Away, advice)
		})
		s, err := a.Status(t.Context())
		must(t, err)
		if f.At.IsZero() || f.AwaySince.IsZero() || !slices.ContainsFunc(s.Warnings, func(w string) bool { return strings.Contains(w, advice) }) {
			t.Errorf("%+v; the status warns of %q", f, s.Warnings)
		}
	}
	const toJoin, toRestart = `the fleet has another secret; join it with the token that "fetcher fleet invite" prints on another member`, "it runs with the previous secret of the fleet; restart the node"
	out(toJoin)
	refusedOut(t, a, film.Ticket, toJoin)
	must(t, next.Save(dir))
	out(toRestart)
	refusedOut(t, a, film.Ticket, toRestart)
	must(t, Leave(dir))
	out("this machine has left it; restart the node")
	must(t, fetcher.FleetStore{KV: kv, Secret: next.Secret}.ChangeSecret(t.Context(), m.Secret)) // and back
	rolled(t, a, "its own again", func(f api.Fleet) bool { return f.Away == "" })
}

// refusedOut sees what asks for something of the fleet refused, with a sentence about this node.
func refusedOut(t *testing.T, d *Daemon, ticket, why string) {
	t.Helper()
	_, added := d.AddToFleet(t.Context(), ticket)
	_, removed := d.RemoveFromFleet(t.Context(), share.IDOf(nil).String())
	_, forgot := d.ForgetMachine(t.Context(), "nas-8")
	for what, err := range map[string]error{"add": added, "remove": removed, "forget": forgot} {
		if !errors.Is(err, fetcher.ErrOtherFleet) || !strings.Contains(err.Error(), "this node is no longer a member of its fleet: "+why) {
			t.Errorf("%s: %v; want %q", what, err, why)
		}
	}
}

// A node whose settings name the file of the secret is to be restarted once that holds the new one.
func TestASecretInAFileThatChangedNeedsARestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(path, []byte("the secret of a fleet"), 0o600))
	cfg := Config{Dir: t.TempDir(), Settings: Settings{Fleet: "sqlite:" + filepath.Join(t.TempDir(), "kv"), FleetSecret: path}}
	m, err := openMember(&Daemon{dir: cfg.Dir, settings: cfg.Settings}, cfg)
	must(t, err)
	defer m.close()
	if got := m.whyOut(); !strings.Contains(got, "put the new one into the file") {
		t.Error(got)
	}
	must(t, os.WriteFile(path, []byte("another secret of it"), 0o600))
	if got := m.whyOut(); !strings.Contains(got, "previous secret") || !strings.Contains(got, "restart the node") {
		t.Error(got)
	}
}

// What a fleet has put into the catalog is the owner's after the node has gone to another fleet, except what the fleet
// kept for itself.
func TestWhatAFleetHadIsTheOwnersInAnother(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	kvs, dir := t.TempDir(), t.TempDir()
	m := Membership{URL: "sqlite:" + filepath.Join(kvs, "kv"), Secret: "the secret of a fleet"}
	origin := begun(t, t.TempDir())
	film := added(t, origin, api.Add{Paths: []string{file(t, large(9), t.TempDir(), "film")}})
	own := added(t, origin, api.Add{Paths: []string{file(t, large(5), t.TempDir(), "backup")}})
	a := begun(t, dir, inFleet(m))
	_, err := a.AddToFleet(t.Context(), film.Ticket)
	must(t, err)
	_, err = a.member.store.AddInternal(t.Context(), own.Ticket, "")
	must(t, err)
	rolled(t, a, "done", func(f api.Fleet) bool { return len(f.Shares) == 2 && f.Shares[0].Done+f.Shares[1].Done == 2 })
	must(t, a.Close())
	must(t, Leave(dir))
	a = begun(t, dir)
	if all := entriesOf(t, a, 2); all[0].Fleet || all[1].Fleet {
		t.Errorf("of no fleet: %+v", all)
	}
	must(t, a.Close())
	a = begun(t, dir, inFleet(m))
	if all := entriesOf(t, a, 2); !all[0].Fleet || !all[1].Fleet {
		t.Errorf("of the same fleet again: %+v", all)
	}
	rolled(t, a, "followed", func(api.Fleet) bool { return len(a.member.Report()) == 2 })
	must(t, Leave(dir))
	_, err = a.RemoveFromFleet(t.Context(), film.Share) // before it is restarted
	must(t, err)
	until(t, a, entriesOf(t, a, 2)[0].ID, "its owner's", func(e api.Entry) bool { return !e.Fleet && e.Share == film.Share })
	must(t, a.Close())
	a = begun(t, dir, inFleet(Membership{URL: "sqlite:" + filepath.Join(kvs, "other"), Secret: "the secret of another"}))
	all := entriesOf(t, a, 1)
	if all[0].Fleet || all[0].Share != film.Share {
		t.Errorf("of another fleet: %+v", all)
	}
	id, err := share.ParseID(own.Share)
	must(t, err)
	if _, err := os.Stat(a.member.internal(id)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what the fleet kept for itself: %v", err)
	}
	if _, err := a.Remove(t.Context(), all[0].ID, false); err != nil {
		t.Error(err)
	}
}

// A node stays in its fleet when that gets another secret, its store another password or the fleet another store, and
// when it joins what settings gave it, or the other way round.
func TestAnotherSecretIsNoOtherFleet(t *testing.T) {
	t.Parallel()
	const here, moved = "nats://a:b@10.0.0.5,10.0.0.6/ours?replicas=3", "nats://10.0.0.7/ours"
	of := func(id, url string, joined bool) belonging {
		place, err := kvurl.Place(url)
		must(t, err)
		return belonging{id, place, joined}
	}
	joined := of("one", here, true)
	for _, x := range []struct {
		was, is belonging
		new     bool
	}{
		{of("one", here, false), of("one", "nats://a:b@10.0.0.5,10.0.0.6/ours", false), false},
		{of("one", here, false), of("two", "nats://a:c@10.0.0.6,10.0.0.5/ours", false), false},
		{of("one", here, false), of("two", "nats://10.0.0.5,10.0.0.6/theirs", false), true},
		{of("one", here, false), of("one", moved, false), false},
		{of("one", here, false), of("two", moved, false), true},
		{of("one", here, false), of("one", moved, true), false},
		{of("two", here, false), joined, false},
		{joined, of("two", here, false), false},
		{joined, of("two", moved, false), true},
		{joined, of("one", moved, true), false},
		{joined, of("two", here, true), true}, // the store was emptied, and another fleet founded there
	} {
		if x.is.sameAs(x.was.String()) == x.new {
			t.Errorf("%+v after %+v: new %v", x.is, x.was, !x.new)
		}
	}
}

// What a node knows of its fleet is kept at each start, so that the secret and then the store may be another.
func TestTheStoreMovesAfterTheSecretChanged(t *testing.T) {
	t.Parallel()
	m := &member{d: &Daemon{dir: t.TempDir()}}
	for _, of := range []belonging{{"one", "here", true}, {"two", "here", false}, {"two", "there", false}, {"one", "there", true}} {
		if m.of = of; m.isNew() {
			t.Errorf("%+v is another fleet", of)
		}
	}
	m.of = belonging{"three", "elsewhere", false}
	for range 2 {
		if !m.isNew() {
			t.Error("another fleet is noted before what it left is dealt with")
		}
	}
	must(t, m.settle())
	if m.isNew() {
		t.Error("another fleet is not kept")
	}
}

func TestAFleetIsLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := Leave(dir); !errors.Is(err, ErrMembership) {
		t.Errorf("none: %v", err)
	}
	m := Membership{URL: "sqlite:x", Secret: "the secret of a fleet"}
	m.Next = "the only copy of the next"
	must(t, m.Save(dir))
	if err := Leave(dir); err == nil || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("in the midst of a change: %v", err)
	}
	must(t, os.Remove(filepath.Join(dir, MembershipName)))
	m.Next = ""
	must(t, m.Save(dir))
	must(t, Leave(dir))
	if _, ok, err := Joined(dir); ok || err != nil {
		t.Errorf("after it was left: %v", err)
	}
}

// A node is a member of the fleet that it was started for until it is restarted. Meanwhile its machine may have gone to another, or which it belongs
// to may be unreadable: then nothing is taken from its owner.
func TestWhatAFleetHadStaysWhileTheMachineGoesToAnother(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	kvs := t.TempDir()
	other := Membership{URL: "sqlite:" + filepath.Join(kvs, "other"), Secret: "the secret of another"}
	secret := file(t, other.Secret, t.TempDir(), "secret")
	origin := begun(t, t.TempDir())
	for name, x := range map[string]struct {
		goes func(t *testing.T, d *Daemon)
		owns bool
	}{
		"joined": {func(t *testing.T, d *Daemon) { must(t, Leave(d.dir)); must(t, other.Save(d.dir)) }, true},
		"set": {func(t *testing.T, d *Daemon) {
			_, err := d.Reload(Settings{Fleet: other.URL, FleetSecret: secret})
			must(t, err)
		}, true},
		"unreadable": {func(t *testing.T, d *Daemon) {
			must(t, os.WriteFile(filepath.Join(d.dir, MembershipName), []byte("{"), 0o600))
		}, false},
	} {
		film := added(t, origin, api.Add{Paths: []string{file(t, large(9), t.TempDir(), name)}})
		a := begun(t, t.TempDir(), inFleet(Membership{URL: "sqlite:" + filepath.Join(kvs, name), Secret: "the secret of a fleet"}))
		_, err := a.AddToFleet(t.Context(), film.Ticket)
		must(t, err)
		e := until(t, a, entriesOf(t, a, 1)[0].ID, "fetched", in(api.Served))
		rolled(t, a, "followed", func(api.Fleet) bool { return len(a.member.Report()) == 1 })
		x.goes(t, a)
		id, err := share.ParseID(film.Share)
		must(t, err)
		a.member.Update(t.Context(), nil, []share.ID{id}) // it was taken off the list
		until(t, a, e.ID, "its owner's, unless it is not known", func(e api.Entry) bool { return e.Fleet != x.owns && e.State == api.Served })
		must(t, a.Close())
	}
}
