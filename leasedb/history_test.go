package leasedb

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/piecelease/fetcher/depot"
	tests "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
)

var long = flag.Bool("long", false, "run 10,000 random histories")

// disk is the leases beside the data.
type disk map[share.ID][]depot.Promise

func (d *disk) Write(all []depot.Promised) error {
	for _, p := range all {
		if p.Changes {
			p.Leases = depot.Changed(slices.Clone((*d)[p.Share]), p.Leases)
		}
		(*d)[p.Share] = p.Leases
	}
	return nil
}

// Grows says so of every other share that has leases.
func (d *disk) Grows(id share.ID) bool { return len((*d)[id]) > 0 && id.Bytes()[10]%2 == 0 }

func (d *disk) Promises(id share.ID) ([]depot.Promise, error) { return (*d)[id], nil }

func (d *disk) Last(id share.ID) (at time.Time, _ error) {
	for _, p := range (*d)[id] {
		at = latest(at, p.Expires)
	}
	return at, nil
}

func (d *disk) last(id share.ID) int64 {
	if at, _ := d.Last(id); !at.IsZero() {
		return at.Unix()
	}
	return 0
}

var errCrash = errors.New("crash")

// pieces is how many pieces the shares of histories have.
const pieces = 3

var ids = func() (out []share.ID) {
	for i := range 4 {
		out = append(out, share.IDOf([]byte{byte(i)}))
	}
	slices.SortFunc(out, share.ID.Compare)
	return out
}()

var people = []depot.Account{2, 3}

// A history is a database and the model beside it.
type history struct {
	*rapid.T
	ctx  testing.TB
	path string
	db   *DB
	m    *model
	n    int // requests that were made
}

// open opens the database again, as after a crash.
func (h *history) open() {
	if h.db != nil {
		h.db.Close()
	}
	db, aside, err := Open(h.ctx.Context(), h.path, h.m.disk)
	if err != nil || aside != "" {
		h.Fatalf("open: %v, set aside: %q", err, aside)
	}
	h.db = db
}

// do runs f, which is one transaction. It may crash at any of its statements: then nothing has
// happened, and it is run again.
func (h *history) do(f func() error) error {
	h.Helper()
	if at := rapid.IntRange(0, 40).Draw(h.T, "crash"); at > 0 {
		h.db.Fault = func(string) error {
			if at--; at == 0 {
				return errCrash
			}
			return nil
		}
		err := f()
		h.db.Fault = nil
		if !errors.Is(err, errCrash) {
			return err
		}
		h.open()
	}
	return f()
}

func pick[V any](h *history, what string, from ...V) V {
	return rapid.SampledFrom(from).Draw(h.T, what)
}

func (h *history) id() share.ID   { return pick(h, "share", ids...) }
func (h *history) now() time.Time { return time.Unix(h.m.now, 0) }

func (h *history) draw() depot.Ask {
	h.n++
	return depot.Ask{Account: pick(h, "account", people...), Share: h.id(), Request: fmt.Sprint(h.n), Bytes: pick[int64](h, "bytes", 40, 40, 40, 7, 60),
		Until: h.now().Add(pick(h, "until", 0, time.Hour, 20*24*time.Hour, 90*24*time.Hour)), Space: depot.Space{Free: 170, Reserve: 30}}
}

// answer compares the answer of the database with that of the model.
func (h *history) answer(what string, got func() (depot.Granted, error), g depot.Granted, why depot.Reason) {
	h.Helper()
	for range pick(h, "times", 1, 2) { // the answer may be lost, and the request repeated
		var have depot.Granted
		err := h.do(func() (err error) { have, err = got(); return err })
		var r *depot.Refusal
		switch {
		case err == nil && (why != 0 || have != g):
			h.Fatalf("%s: granted %+v, the model says %+v, %v", what, have, g, why)
		case errors.As(err, &r) && r.Reason != why, err != nil && r == nil:
			h.Fatalf("%s: %v, the model says %+v, %v", what, err, g, why)
		}
	}
}

func (h *history) step() {
	kind := pick(h, "step", "hold", "hold", "hold", "renew", "release", "replace", "replace", "replace", "pass", "pass", "complete", "complete", "complete",
		"measure", "fail", "look", "look", "mend", "found", "sweep", "collect", "collect", "remove", "cycle", "switch", "crash", "terms", "bare")
	a := h.draw()
	s := h.m.get(a.Share)
	ctx := h.ctx.Context()
	switch kind {
	case "hold":
		g, why := h.m.grant(a, true)
		h.answer(kind, func() (depot.Granted, error) { return h.db.Hold(ctx, h.now(), a) }, g, why)
	case "renew":
		g, why := h.m.renew(a)
		h.answer(kind, func() (depot.Granted, error) { return h.db.Renew(ctx, h.now(), a) }, g, why)
	case "release":
		g, why := h.m.release(a)
		h.answer(kind, func() (depot.Granted, error) { return h.db.Release(ctx, h.now(), a) }, g, why)
	case "replace":
		r := depot.Replace{Ask: a, Name: pick(h, "name", "x", "y")}
		if n := h.m.names[mName{a.Account, r.Name}]; n != nil && pick(h, "right", true, true, false) {
			r.Expect, r.Supersedes = n.share, n.next
		}
		g, why := h.m.replace(r)
		h.answer(kind, func() (depot.Granted, error) { return h.db.Replace(ctx, h.now(), r) }, g, why)
	case "pass":
		h.m.tick(h.m.now + pick[int64](h, "seconds", 1, 1800, 3600, 24*3600, 19*24*3600, 62*24*3600))
	case "terms":
		h.m.quota[a.Account] = pick[int64](h, "quota", 0, 50, 100, 200)
		h.check(h.do(func() error {
			return h.db.SetAccount(ctx, a.Account, depot.Terms{Quota: h.m.quota[a.Account], MaxLease: time.Duration(h.m.longest) * time.Second})
		}))
	case "crash":
		h.open()
	case "bare": // what lay beside the data is gone: only the database still has the leases
		delete(*h.m.disk, a.Share)
	default:
		h.keep(kind, a.Share, s)
	}
}

// check fails if err is an error.
func (h *history) check(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// edge fails unless err says that there is no such edge exactly when may is false.
func (h *history) edge(kind string, may bool, err error) {
	h.Helper()
	if (err == nil) != may {
		h.Fatalf("%s: %v; the model says that it may be: %v", kind, err, may)
	}
}

// keep does what the depot itself does, or its disk.
func (h *history) keep(kind string, id share.ID, s *mShare) {
	ctx, m := h.ctx.Context(), h.m
	switch kind {
	case "complete":
		may := s.state == depot.Coming && s.measured
		h.edge(kind, may, h.do(func() error { return h.db.Complete(ctx, h.now(), id) }))
		if may {
			s.state = depot.Stable
			m.arrive(id)
		}
	case "measure":
		_, err := h.db.Measure(ctx, h.now(), id, 40)
		h.edge(kind, s.state == depot.Coming, err)
		if err == nil {
			s.bytes, s.measured = 40, true
			m.endAll(id, func(l *mLease) bool { return l.bytes != 40 })
			if l := s.leases[depot.StarterAccount]; l != nil {
				l.bytes = 40
			}
		}
	case "fail":
		h.edge(kind, s.state == depot.Coming, h.do(func() error { _, err := h.db.Fail(ctx, h.now(), id); return err }))
		if s.state == depot.Coming {
			m.endAll(id, func(*mLease) bool { return true })
		}
	case "look":
		h.look(id, s, pick[uint8](h, "bad", 0, 1, 1, 3, 7))
	case "mend":
		h.edge(kind, s.state == depot.Corrupt, h.do(func() error { return h.db.Mended(ctx, h.now(), id) }))
		if s.state == depot.Corrupt {
			s.state, s.lost, s.struck = depot.Stable, 0, 0
			m.arrive(id)
		}
	case "found":
		h.found(id, s, pick(h, "whole", true, false))
	case "cycle":
		h.check(h.do(func() error { return h.db.CycleDone(ctx, h.now(), "", depot.Cycle{Cycle: int64(h.n)}) }))
		m.complete = true
	case "switch":
		m.gc, m.frozen = pick(h, "gc", true, true, false), pick(h, "frozen", false, false, true)
		h.check(h.do(func() error { return h.db.SetGC(ctx, m.gc) }))
		h.check(h.do(func() error { return h.db.SetClock(ctx, h.now(), nil, m.frozen) }))
	case "sweep":
		h.check(h.do(func() error { _, _, err := h.db.Sweep(ctx, h.now(), 1); return err }))
	case "collect":
		may := m.complete && m.gc && !m.frozen && m.collectable(id)
		h.edge(kind, may, h.do(func() error { return h.db.Collect(ctx, h.now(), id) }))
		if may {
			s.state = depot.Going
		}
	case "remove":
		h.remove(id, s)
	}
}

func (m *model) endAll(id share.ID, which func(*mLease) bool) {
	for a, l := range m.get(id).leases {
		if a != depot.StarterAccount && which(l) {
			m.end(id, a)
		}
	}
}

func (h *history) look(id share.ID, s *mShare, bad uint8) {
	set := share.NewSet(pieces)
	for p := range pieces {
		if bad>>p&1 == 1 {
			set.Add(share.Piece(p))
		}
	}
	may := s.state == depot.Stable || s.state == depot.Corrupt
	h.edge("look", may, h.do(func() error { _, err := h.db.Looked(h.ctx.Context(), h.now(), h.now(), id, set); return err }))
	switch both := bad & s.struck; {
	case !may:
	case both == 0:
		s.struck, s.struckAt = bad, h.m.now
	case h.m.now-s.struckAt >= 3600:
		s.struck, s.struckAt = bad, h.m.now
		s.state, s.lost = depot.Corrupt, s.lost|both
	}
}

func (h *history) found(id share.ID, s *mShare, whole bool) {
	h.check(h.do(func() error {
		_, err := h.db.Found(h.ctx.Context(), h.now(), id, 40, whole, (*h.m.disk)[id])
		return err
	}))
	if s.state == depot.Going && h.m.disk.last(id)+24*3600 > h.m.now { // the database is older
		delete(h.m.shares, id)
		s = h.m.get(id)
	}
	if s.state == depot.None {
		s.state, s.bytes, s.measured, s.lapsed = depot.Coming, 40, whole, 0
		if whole {
			s.state = depot.Stable
		}
		h.m.shares[id] = s
		starter := h.m.now + 62*24*3600
		for _, p := range (*h.m.disk)[id] {
			if p.Account == "starter" {
				starter = p.Expires.Unix()
			}
		}
		if starter > h.m.now {
			s.leases[depot.StarterAccount] = &mLease{s.bytes, starter, true}
		} else {
			s.lapsed = starter
		}
	}
	for _, p := range (*h.m.disk)[id] {
		account := map[string]depot.Account{"starter": depot.StarterAccount, "p2": 2, "p3": 3}[p.Account]
		switch at, l := p.Expires.Unix(), s.leases[account]; {
		case s.state == depot.Going:
		case at <= h.m.now:
			s.lapsed = max(s.lapsed, at)
		case l == nil:
			s.leases[account] = &mLease{s.bytes, at, true}
		case at > l.expires:
			l.expires, l.own = at, true
		}
	}
}

func (h *history) remove(id share.ID, s *mShare) {
	ctx, m := h.ctx.Context(), h.m
	may := s.state == depot.Going && m.complete && m.gc && !m.frozen
	ok := false
	h.edge("removable", may, h.do(func() (err error) { ok, err = h.db.Removable(ctx, h.now(), id); return err }))
	if !may {
		h.edge("removed", s.state == depot.Going, h.do(func() error { return h.db.Removed(ctx, h.now(), id) }))
	} else if kept := m.disk.last(id)+24*3600 > m.now; ok == kept {
		h.Fatalf("%v may be removed: %v, and the disk says that it is kept: %v", id, ok, kept)
	} else if ok {
		delete(*m.disk, id)
		h.check(h.do(func() error { return h.db.Removed(ctx, h.now(), id) }))
	}
	if s.state == depot.Going && (!may || ok) {
		delete(m.shares, id)
	}
}

// compare fails unless the database agrees with the model.
func (h *history) compare() {
	ctx, m := h.ctx.Context(), h.m
	for _, a := range append(people, depot.StarterAccount) {
		u, err := h.db.Usage(ctx, h.now(), a)
		if err != nil || u.Used != m.used(a) || u.Complete != m.complete {
			h.Fatalf("usage of %d: %+v, %v; the model says %d, %v", a, u, err, m.used(a), m.complete)
		}
		names, err := h.db.Names(ctx, h.now(), a)
		h.check(err)
		want := map[mName]mNamed{}
		for k, n := range m.names {
			if k.account == a {
				want[k] = *n
			}
		}
		got := map[mName]mNamed{}
		for _, n := range names {
			got[mName{a, n.Name}] = mNamed{n.Share, n.Coming}
		}
		if !maps.Equal(got, want) {
			h.Fatalf("names of %d: %v, the model says %v", a, got, want)
		}
	}
	h.check(sums(ctx, h.db))
	candidates, _, err := h.db.Candidates(ctx, h.now(), share.ID{}, 10)
	h.check(err)
	for _, id := range ids {
		is := slices.ContainsFunc(candidates, func(s depot.Kept) bool { return s.Share == id })
		h.compareShare(id, is)
		may, err := h.db.MayGo(ctx, h.now(), id)
		if h.check(err); may != is {
			h.Fatalf("%v may go: %v, and is among the candidates: %v", id, may, is)
		}
	}
}

func (h *history) compareShare(id share.ID, candidate bool) {
	ctx, s := h.ctx.Context(), h.m.get(id)
	got, err := h.db.Share(ctx, id)
	if err != nil || got.State != s.state || (s.state != depot.None && got.Bytes != s.bytes) {
		h.Fatalf("%v: %+v, %v; the model says %v, %d bytes", id, got, err, s.state, s.bytes)
	}
	leases, err := h.db.Leases(ctx, h.now(), id)
	h.check(err)
	have := map[depot.Account]mLease{}
	for _, l := range leases {
		have[l.Account] = mLease{l.Bytes, l.Expires.Unix(), s.leases[l.Account] != nil && s.leases[l.Account].own}
	}
	want := map[depot.Account]mLease{}
	for a, l := range s.leases {
		want[a] = *l
	}
	if !reflect.DeepEqual(have, want) {
		h.Fatalf("leases of %v: %v, the model says %v", id, have, want)
	}
	if candidate != h.m.collectable(id) {
		h.Fatalf("%v would be collected: %v, the model says %v", id, candidate, !candidate)
	}
	missing, err := h.db.Missing(ctx, id, pieces)
	if err != nil || (missing != nil && missing.Bytes()[0] != s.lost) || (missing == nil && s.lost != 0) {
		h.Fatalf("%v misses %v, %v; the model says %b", id, missing, err, s.lost)
	}
}

// TestHistories compares random histories with the model: holds, replacements,
// renewals, releases, expiry, damage, collecting, crashes at any statement, and a
// clock that jumps.
func TestHistories(t *testing.T) {
	t.Parallel()
	if *long {
		flag.Set("rapid.checks", "10000")
	} else if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		flag.Set("rapid.checks", fmt.Sprint(tests.Most(50, 6)))
		if tests.Raced {
			flag.Set("rapid.checks", "10")
		}
	}
	n := 0
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		n++
		h := &history{T: rt, ctx: t, path: filepath.Join(dir, fmt.Sprint(n)), m: &model{now: 1_000_000_000, longest: 31 * 24 * 3600,
			quota: map[depot.Account]int64{2: 100, 3: 100}, shares: map[share.ID]*mShare{}, names: map[mName]*mNamed{}, disk: &disk{}}}
		h.open()
		defer func() { h.db.Close() }()
		for _, a := range people {
			id, err := h.db.AddAccount(t.Context(), h.now(), fmt.Sprint("p", a), depot.Terms{Quota: 100, MaxLease: time.Duration(h.m.longest) * time.Second})
			if err != nil || id != a {
				rt.Fatal(id, err)
			}
		}
		if rapid.Bool().Draw(rt, "running") {
			h.keep("cycle", share.ID{}, nil)
			h.m.gc = true
			h.check(h.db.SetGC(t.Context(), true))
		}
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			h.step()
			h.compare()
		}
	})
}
