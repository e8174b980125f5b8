package depots

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/simnet"
	"github.com/piecelease/fetcher/wire"
)

func TestMain(m *testing.M) {
	system.Lean()
	os.Exit(m.Run())
}

func idOf(c *simnet.Content) share.ID {
	if c == nil {
		return share.ID{}
	}
	return c.ID()
}

// A history is a depot, two accounts that send it requests, and the model beside it.
type history struct {
	*Story
	d      *Depot
	m      *model
	rng    *rand.Rand
	nodes  map[string]*simnet.Node
	all    []*simnet.Content
	jumped time.Duration // since the owner last confirmed it
	rotten map[*simnet.Content]bool
}

func pick[V any](h *history, from ...V) V { return from[h.rng.IntN(len(from))] }

// asked repeats a request until there is an answer, also from the depot's next life.
func (h *history) asked(account string, question any) (a wire.Held, why depot.Reason) {
	for range 60 {
		a, err := h.Held(h.nodes[account], h.d, question)
		var r *depot.Refusal
		switch {
		case err == nil:
			return a, 0
		case errors.As(err, &r) && r.Reason != depot.Away:
			return a, r.Reason
		}
		h.Pass(2 * time.Second)
	}
	h.Expect(false, "%+v is not answered", question)
	return a, depot.Away
}

func (h *history) step() {
	account, c := pick(h, "anna", "bert"), pick(h, h.all...)
	kind := pick(h, "hold", "hold", "replace", "replace", "replace", "renew", "release", "sleep", "sleep", "sleep", "rot", "jump", "crash")
	if kind != "jump" && h.rng.IntN(3) > 0 {
		power := h.rng.IntN(2) == 0 && kind != "sleep" // the time that it slept would not be measured then
		h.d.CrashIn(1+h.rng.IntN(70), power)
	}
	h.Timeline().Note("%s: %s %s", kind, account, c.Manifest.Name)
	length := pick(h, 24*time.Hour, 10*24*time.Hour, 60*24*time.Hour)
	switch kind {
	case "hold":
		h.hold(account, c, h.HoldOf(h.d, c, length))
	case "replace":
		q := h.HoldOf(h.d, c, length)
		q.Name = pick(h, "x", "y")
		if n := h.m.names[mName{account, q.Name}]; n != nil && h.rng.IntN(4) > 0 {
			q.Expect, q.Supersedes = idOf(n.share), idOf(n.next)
		}
		h.hold(account, c, q)
	case "renew":
		h.renew(account, c, length)
	case "release":
		a, why := h.asked(account, wire.Release{Share: c.ID(), Request: h.Request()})
		h.m.tick(time.Unix(a.At, 0))
		l := h.m.leases[mHeld{account, c}]
		h.Expect((l != nil) == (why == 0) && (why == 0 || why == depot.NoLease), "release: %v, and the model has %+v", why, l)
		h.m.end(mHeld{account, c})
	case "sleep":
		h.d.Sleep(pick(h, time.Hour, 23*time.Hour, 5*24*time.Hour, 20*24*time.Hour))
		h.Pass(61 * time.Minute)
	case "rot":
		if h.d.CrashIn(0, false); h.settled() && h.d.State(c) == depot.Stable && h.d.Here(c) == nil {
			h.d.Rot(c, h.rng)
			h.rotten[c] = true
			h.Do(h.d, actors.ScrubNow{})
		}
	case "jump":
		h.jump()
	case "crash":
		h.d.CrashIn(1, h.rng.IntN(2) == 0)
		h.Do(h.d, actors.CrawlNow{})
	}
	h.compare()
}

func (h *history) hold(account string, c *simnet.Content, q wire.Hold) {
	a, why := h.asked(account, q)
	for ; why == depot.Leaving; a, why = h.asked(account, q) {
		h.m.tick(time.Unix(a.At, 0))
		h.Expect(!h.m.relied(c), "%s is leaving, and somebody relies on it", c.Manifest.Name)
		h.Pass(depot.Retry)
	}
	h.m.tick(time.Unix(a.At, 0))
	until, want := h.m.hold(account, c, q)
	h.Expect(why == want, "hold %+v of %s by %s: %v, the model says %v", q, c.Manifest.Name, account, why, want)
	if why == 0 {
		h.near(a, until)
	}
}

// near expects a lease to end when the model says; if its answer was lost it was granted
// a moment earlier.
func (h *history) near(a wire.Held, until time.Time) {
	got := time.Unix(a.Expires, 0)
	h.Expect(!got.After(until) && until.Sub(got) < 5*time.Minute, "the lease ends at %v, the model says %v", got, until)
	for k, l := range h.m.leases {
		if k.c.ID() == a.Share && l.until.Equal(until) {
			l.until = got
		}
	}
}

func (h *history) renew(account string, c *simnet.Content, length time.Duration) {
	q := wire.Renew{Share: c.ID(), Request: h.Request(), Until: h.d.Reading().Wall.Add(length).Unix()}
	a, why := h.asked(account, q)
	h.m.tick(time.Unix(a.At, 0))
	l := h.m.leases[mHeld{account, c}]
	until, want := h.m.until(l, q.Until)
	if l == nil {
		want = depot.NoLease
	}
	h.Expect(why == want, "renew: %v, the model says %v, and has %+v", why, want, l)
	if why == 0 && want == 0 {
		l.until = until
		h.near(a, until)
	}
}

// jump sets the clock, or makes its owner set it right and confirm it, unless the model could
// not tell what is held from then on.
func (h *history) jump() {
	h.d.CrashIn(0, false)
	h.settled()
	if h.jumped != 0 && h.rng.IntN(2) == 0 && !h.m.revives(h.d.Reading().Wall.Add(-h.jumped)) {
		h.d.SetClock(h.d.Ahead() - h.jumped)
		h.jumped = 0
		h.Do(h.d, actors.ClockOK{})
		h.m.now = time.Time{} // confirmed by its owner it may go back
	} else {
		by := pick(h, time.Hour, -time.Hour, 5*time.Hour, 20*time.Hour, -20*time.Hour, 365*24*time.Hour)
		h.d.SetClock(h.d.Ahead() + by)
		h.jumped += by
	}
	h.stands()
	h.Pass(61 * time.Minute)
}

// stands asks the depot for its status until it answers.
func (h *history) stands() actors.DepotStatus {
	for range 60 {
		if st, err := h.Do(h.d, actors.CollectNow{}); err == nil && !h.d.Dying() {
			h.m.tick(st.Now)
			return st
		}
		h.Pass(2 * time.Second)
	}
	h.Expect(false, "it does not say how it stands")
	return actors.DepotStatus{}
}

// settled waits until the depot runs, everything that is held is here, and names have moved.
func (h *history) settled() bool {
	h.stands()
	return h.Until("all that is held is here", time.Hour, func() bool {
		if h.d.Dying() || !h.d.Running() {
			return false
		}
		for _, c := range h.all {
			s := h.d.State(c)
			if s == depot.Stable {
				h.m.arrived(c)
			} else if h.m.held(c) && !(s == depot.Corrupt && h.rotten[c] && !h.m.awaited(c)) {
				return false
			}
		}
		return true
	})
}

// compare fails unless the depot does what the model says.
func (h *history) compare() {
	if !h.settled() {
		return
	}
	h.d.CrashIn(0, false)
	st := h.stands()
	if h.jumped.Abs() > depot.MaxDrift {
		h.Expect(st.Frozen, "the clock jumped by %v, and is believed", h.jumped)
	}
	for _, c := range h.all {
		switch {
		case h.m.relied(c):
			h.kept(c)
		case !st.Frozen:
			h.Gone(h.d, c)
			h.m.gone(c)
		}
	}
	for account, x := range h.nodes {
		h.same(account, x)
	}
}

// kept expects a share to be here, except for what rotted and is not repaired yet.
func (h *history) kept(c *simnet.Content) {
	if !h.m.held(c) && h.d.State(c) == depot.Coming {
		return // it never came, and its grace is not over
	}
	err := h.d.Here(c)
	h.Expect(err == nil || h.rotten[c], "somebody relies on %s, which is %v: %v", c.Manifest.Name, h.d.State(c), err)
	if err == nil {
		delete(h.rotten, c)
	}
}

// holdings are the leases of an account according to the depot, asked until it answers.
func (h *history) holdings(x *simnet.Node) []wire.Holding {
	got, err := h.Holdings(x, h.d)
	for range 60 { // after a power cut, it takes a while to be seen again
		if err == nil {
			break
		}
		h.Pass(2 * time.Second)
		got, err = h.Holdings(x, h.d)
	}
	h.Expect(err == nil, "%v", err)
	return got
}

// same expects an account to hold what the model says, and to use what that takes.
func (h *history) same(account string, x *simnet.Node) {
	got := h.holdings(x)
	n := 0
	for k, l := range h.m.leases {
		if k.account != account {
			continue
		}
		n++
		i := slices.IndexFunc(got, func(g wire.Holding) bool { return g.Share == k.c.ID() })
		h.Expect(i >= 0 && got[i].Expires == l.until.Unix(), "%s holds %s until %v; the depot says %+v", account, k.c.Manifest.Name, l.until, got)
	}
	h.Expect(n == len(got), "%s has %d leases, and the depot says %+v", account, n, got)
	u := h.Used(x, h.d)
	h.Expect(u.Used == h.m.used(account) && u.Used <= u.Quota, "%s uses %d bytes of %d, the model says %d", account, u.Used, u.Quota, h.m.used(account))
}

// beginning makes the depot, the accounts and the shares of a history.
func beginning(s *Story) *history {
	h := &history{Story: s, d: New(s.Net, Config{Name: "depot"}), m: newModel(), rng: s.Rand("history"), nodes: map[string]*simnet.Node{}, rotten: map[*simnet.Content]bool{}}
	h.d.Excuse()
	h.d.Stepped = func(from, to time.Time) {
		h.Expect(to.Sub(from) > depot.MaxStep, "a respite for a step from %v to %v", from, to)
		h.m.step(from, to)
	}
	for i := range 3 {
		h.all = append(h.all, s.Folder(fmt.Sprint("share", i), 2, 60_000+10_000*i))
	}
	for _, account := range []string{"anna", "bert"} {
		x := s.Add(simnet.NodeConfig{Name: account})
		for _, c := range h.all {
			x.Seed(c)
		}
		h.nodes[account], h.m.quota[account] = x, 2*depot.Bytes(h.all[2].Manifest)+1
		h.d.Account(account, h.m.quota[account], x)
	}
	s.Pass(time.Minute) // it has looked at its clock
	return h
}

// play is a random history.
func play(steps int) func(*Story) {
	return func(s *Story) {
		h := beginning(s)
		for range steps {
			h.step()
		}
	}
}

// TestHistories compares random histories of a whole depot with the model: holds,
// replacements, renewals, expiry, kills and power cuts at any change of disk and database,
// clocks that jump, and bits that rot.
//
//	DEPOT_SEEDS=10000   how many; default 30
//	DEPOT_FROM=1000     the first; default 1
//	BUDGET=1m           after that, no more than 30
func TestHistories(t *testing.T) {
	histories(t, rig.Most(30, 12), play(12))
}

// histories runs one story with many seeds.
func histories(t *testing.T, seeds int, tell func(*Story)) {
	if rig.Raced || testing.Short() {
		seeds = 5
	}
	seeds, from := rig.Number("DEPOT_SEEDS", seeds), rig.Number("DEPOT_FROM", 1)
	s := &simnet.Scenario{Name: "history", Limit: Limit, Set: func(r *simnet.Run) { Tell(r, tell) }}
	var next, failed atomic.Int64
	for core := range 2 {
		t.Run(fmt.Sprint(core), func(t *testing.T) {
			t.Parallel()
			for i := next.Add(1); i <= int64(seeds) && failed.Load() < 5 && (i <= 30 || rig.TimeLeft()); i = next.Add(1) {
				if r := s.Run(uint64(from)+uint64(i-1), 0); !r.OK() {
					failed.Add(1)
					t.Error(r.Report())
				}
			}
		})
	}
}

// One account holds one share again, for as long and for longer, and another share until the same time.
func TestAnAccountHoldsSeveralShares(t *testing.T) {
	histories(t, 1, func(s *Story) {
		d := New(s.Net, Config{Name: "depot"})
		s.Pass(time.Second)
		a, b := s.File("a", 20_000), s.File("b", 20_000)
		d.Copy(a)
		d.Copy(b)
		s.Do(d, actors.CrawlNow{})
		s.Is(d, a, depot.Stable)
		s.Is(d, b, depot.Stable)
		until := d.Reading().Wall.Add(240 * time.Hour)
		d.HoldAs("x", a, until)
		d.HoldAs("x", a, until)
		d.HoldAs("x", a, until.Add(time.Hour))
		d.HoldAs("x", b, until)
		if got := d.Promised("x", a); !got.Equal(until.Add(time.Hour)) {
			t.Errorf("a is held until %v", got)
		}
		if got := d.Promised("x", b); !got.Equal(until) {
			t.Errorf("b is held until %v", got)
		}
	})
}
