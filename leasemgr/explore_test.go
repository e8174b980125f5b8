package leasemgr

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

var long = flag.Bool("long", false, "also run what takes minutes")

// An event is one call, from a fixed list, on a machine. It reports whether it made
// sense in this state.
type event struct {
	name string
	do   func(*machine) bool
}

// smallPlan is a plan small enough to try everything with.
type smallPlan struct {
	pieces  int
	sources []plannedSource
	reader  bool // someone waits for piece 0
	core    bool // leave out the events that only add states of the same kind
	bare    bool // only asking, completing, crashing and time
}

type plannedSource struct {
	id    peers.ID
	rate  float64 // measured; 0: not measured
	lacks int     // a piece it does not have, or -1
}

// quantum is the only step of time. A lease is overdue after one and ends after
// two, so ages are few and the states finite.
const quantum = time.Second

func (p smallPlan) start(fatal func(string, ...any)) *machine {
	now := time.Unix(1000, 0)
	x := &machine{fatal: fatal, n: p.pieces, now: now, live: map[share.Token]Lease{}, open: map[peers.ID]int{}}
	cfg := Config{Patience: peers.Patience{First: 2 * quantum, Slack: 2 * quantum}, ShunFor: quantum, HedgeFloor: 1 << 40}
	x.m = New(cfg, Plan{Layout: even{p.pieces, share.BlockSize}, Epoch: 1, Seed: 1}, now)
	for _, s := range p.sources {
		x.names = append(x.names, s.id)
		p.connect(x, s)
	}
	if p.reader {
		x.apply(x.m.SetReader(1, 0, 1, now))
	}
	return x
}

func (p smallPlan) connect(x *machine, s plannedSource) {
	x.m.AddSource(s.id, x.now)
	have := share.FullSet(p.pieces)
	if s.lacks >= 0 {
		have.Remove(share.Piece(s.lacks))
	}
	x.apply(x.m.SetHave(s.id, have, x.now))
	if s.rate > 0 {
		x.apply(x.m.Measured(s.id, s.rate, 0, x.now))
	}
}

// events are all calls that can come in any state, in any order.
func (p smallPlan) events() (out []event) {
	add := func(name string, do func(*machine) bool) { out = append(out, event{name, do}) }
	add("a second passes", func(x *machine) bool {
		x.now = x.now.Add(quantum)
		x.apply(x.m.Expire(x.now))
		return true
	})
	for _, s := range p.sources {
		add(fmt.Sprint(s.id, " asks"), func(x *machine) bool { x.acquire(s.id, 1); return true })
		add(fmt.Sprint(s.id, " crashes"), func(x *machine) bool { x.crash(s.id); return true })
		add(fmt.Sprint(s.id, " is back"), func(x *machine) bool {
			if _, ok := x.m.byID[s.id]; ok || p.bare {
				return false
			}
			p.connect(x, s)
			return true
		})
		for q := range share.Piece(p.pieces) {
			// Acquire breaks ties by lot; this makes every choice be tried.
			add(fmt.Sprint(s.id, " reserves ", q), func(x *machine) bool {
				if p.bare || x.m.state(uint32(q)) != IsWanted {
					return false
				}
				x.reserve(s.id, q)
				return true
			})
			lease := func(x *machine) (Lease, bool) {
				for _, l := range x.holders(q) {
					if l.Source == s.id {
						return l, true
					}
				}
				return Lease{}, false
			}
			with := func(name string, do func(*machine, Lease)) {
				add(fmt.Sprint(s.id, " ", name, " ", q), func(x *machine) bool {
					l, ok := lease(x)
					if ok {
						do(x, l)
					}
					return ok
				})
			}
			with("completes", func(x *machine, l Lease) { x.verify(q, l.Token) })
			if p.bare {
				continue
			}
			with("fails", func(x *machine, l Lease) { x.fail(l, BadData) })
			if p.core {
				continue
			}
			with("gives back", func(x *machine, l Lease) { x.fail(l, GaveBack) })
			with("brings half of", func(x *machine, l Lease) {
				if x.m.leases[x.m.live(s.id, q, l.Token)].got == 0 {
					x.apply(x.m.Progress(s.id, q, l.Token, share.BlockSize/2, x.now))
				}
			})
		}
	}
	for q := range share.Piece(p.pieces) {
		// What an old holder sends late: its token is no longer live, or was
		// never granted, and its bytes count all the same.
		add(fmt.Sprint("late bytes complete ", q), func(x *machine) bool {
			if p.bare || x.m.verified.has(uint32(q)) {
				return false
			}
			x.verify(q, 7)
			return true
		})
		add(fmt.Sprint("a stale call on ", q), func(x *machine) bool {
			for _, l := range x.ended {
				if l.Piece == q && !p.bare {
					x.ifStale(l, func() Todo { return x.m.Progress(l.Source, q, l.Token, 1, x.now) })
					x.fail(l, BadData)
					return true
				}
			}
			return false
		})
	}
	return out
}

// key identifies a state, as far as it decides what can happen: with ages instead of
// times, without counters, and without the random numbers that break ties.
func (x *machine) key() string {
	m := x.m
	var b []byte
	num := func(xs ...int64) {
		for _, x := range xs {
			b = strconv.AppendInt(append(b, ' '), x, 36)
		}
	}
	for p := range uint32(x.n) {
		b = strconv.AppendBool(append(b, m.state(p)[3]), m.begun.has(p))
		for at := m.held[p]; at != 0; at = m.twinOf(p, at) {
			l := &m.leases[at]
			s := m.sources[l.source]
			b = strconv.AppendBool(append(b, s.id...), l.hedge)
			b = strconv.AppendBool(b, s.head == at)
			num(int64(l.got), int64(m.deadline(s, l)-m.clock.at))
		}
	}
	for _, id := range x.names {
		i, ok := m.byID[id]
		if !ok {
			b = append(b, '-')
			continue
		}
		s := m.sources[i]
		b = append(b, byte(s.waiting))
		if s.head != 0 && !s.measured {
			// Its speed follows from these.
			num(min(int64(m.clock.at-s.busySince), int64(4*quantum)), s.busyGot)
		}
	}
	for _, e := range m.shunned {
		if s := m.sources[e.source]; s != nil && s.serial == e.serial {
			b = append(b, s.id...)
			num(int64(e.piece), int64(e.until-m.clock.at))
		}
	}
	return string(b)
}

// explore visits every reachable state, and returns how many there are, and how
// often things happened.
func explore(t *testing.T, p smallPlan, limit int) (states int, hedges, takeovers bool) {
	events := p.events()
	type visit struct {
		parent, event int
		x             *machine
	}
	visits := []visit{{parent: -1}}
	at := 0
	fatal := func(format string, args ...any) {
		t.Helper()
		var steps []string
		for v := visits[at]; v.parent >= 0; v = visits[v.parent] {
			steps = append(steps, events[v.event].name)
		}
		slices.Reverse(steps)
		t.Fatalf("after %s:\n%s", strings.Join(steps, ", "), fmt.Sprintf(format, args...))
	}
	visits[0].x = p.start(fatal)
	seen := map[string]bool{visits[0].x.key(): true}
	for ; at < len(visits); at++ {
		if len(visits) > limit {
			t.Fatalf("more than %d states", limit)
		}
		from := visits[at].x
		for e := range events {
			x := from.clone()
			if !events[e].do(x) {
				continue
			}
			x.drain()
			x.invariants()
			hedges = hedges || x.m.stats.Hedged > 0
			takeovers = takeovers || x.m.stats.Taken > 0
			if key := x.key(); !seen[key] {
				seen[key] = true
				visits = append(visits, visit{at, e, x})
			}
		}
		from.terminates()
		visits[at].x = nil
	}
	return len(visits), hedges, takeovers
}

// clone returns a machine in the same state.
func (x *machine) clone() *machine {
	y := *x
	y.live, y.open = maps.Clone(x.live), maps.Clone(x.open)
	y.ended = slices.Clone(x.ended[max(0, len(x.ended)-4):])
	y.m = x.m.clone()
	return &y
}

// clone copies everything in a Manager; TestCloneForgetsNothing checks that.
func (m *Manager) clone() *Manager {
	n := *m
	for _, b := range []*bitmap{&n.plan, &n.urgent[0], &n.urgent[1], &n.urgent[2], &n.verified, &n.begun, &n.pool.wanted, &n.asleep} {
		*b = slices.Clone(*b)
	}
	n.pool.spare = nil
	for r, l := range m.pool.layers {
		if l != nil {
			n.pool.layers[r] = &layer{l.count, slices.Clone(l.words), slices.Clone(l.sum), slices.Clone(l.top)}
		}
	}
	n.held, n.leases, n.free = slices.Clone(m.held), slices.Clone(m.leases), slices.Clone(m.free)
	n.gaps, n.alarms, n.shunned, n.readers = slices.Clone(m.gaps), slices.Clone(m.alarms), slices.Clone(m.shunned), slices.Clone(m.readers)
	n.rarity.bits, n.log = slices.Clone(m.rarity.bits), slices.Clone(m.log)
	n.todo.Revoked, n.todo.Expired, n.todo.Finished = slices.Clone(m.todo.Revoked), slices.Clone(m.todo.Expired), slices.Clone(m.todo.Finished)
	n.todo.Urgent = slices.Clone(m.todo.Urgent)
	n.returned, n.wake = slices.Clone(m.returned), slices.Clone(m.wake)
	n.byID, n.lots = maps.Clone(m.byID), nil
	n.sources = make([]*source, len(m.sources))
	for i, s := range m.sources {
		if s == nil {
			continue
		}
		c := *s
		c.have.chunks, c.have.near, c.have.at = slices.Clone(s.have.chunks), nil, 0
		for k, chunk := range c.have.chunks {
			if chunk != nil && !m.space.isFull(k, chunk) {
				c.have.chunks[k] = slices.Clone(chunk)
			}
		}
		c.cursor.extra, c.shunned = slices.Clone(s.cursor.extra), slices.Clone(s.shunned)
		c.deferred = maps.Clone(s.deferred)
		n.sources[i] = &c
	}
	return &n
}

// terminates checks, from any state, that everything the present sources have gets done
// if they work from now on, and that no lease is left then.
func (x *machine) terminates() {
	for rounds := 0; ; rounds++ {
		x.claim(11, rounds < 20, "no end in sight")
		idle := true
		for _, id := range x.m.ids() {
			x.acquire(id, 1)
		}
		for p := range share.Piece(x.n) {
			for _, l := range x.holders(p) {
				idle = false
				x.verify(p, l.Token)
			}
		}
		x.invariants()
		left := false
		for _, id := range x.m.ids() {
			left = left || x.m.couldUse(x.m.sources[x.m.byID[id]])
		}
		if idle && !left {
			break
		}
		x.now = x.now.Add(quantum)
		x.apply(x.m.Expire(x.now))
	}
	x.claim(11, len(x.live) == 0, "leases are left: %v", x.live)
}

// TestEveryInterleavingOfSmallPlans tries all orders of all events on small plans,
// hedges and takeovers included: no piece leaks, no grant is doubled, and every
// state can end. With -long the plans have two and three pieces and sources.
func TestEveryInterleavingOfSmallPlans(t *testing.T) {
	fast := func(id peers.ID) plannedSource { return plannedSource{id, 1e12, -1} }
	slow := func(id peers.ID) plannedSource { return plannedSource{id, 1e8, -1} }
	fresh := func(id peers.ID) plannedSource { return plannedSource{id, 0, -1} }
	two := []plannedSource{fast("a"), slow("b")}
	for _, p := range []struct {
		smallPlan
		long bool
	}{
		{smallPlan{pieces: 1, sources: two}, false},
		{smallPlan{pieces: 1, sources: []plannedSource{fresh("a"), fresh("b")}}, false},
		{smallPlan{pieces: 2, sources: two, core: true}, false},
		{smallPlan{pieces: 1, sources: []plannedSource{fast("a"), slow("b"), slow("c")}, core: true}, false},
		{smallPlan{pieces: 2, sources: two}, true},
		{smallPlan{pieces: 2, sources: two, reader: true}, true},
		{smallPlan{pieces: 2, sources: []plannedSource{fast("a"), {"b", 1e8, 1}, slow("c")}, core: true}, true},
		{smallPlan{pieces: 3, sources: two, bare: true}, true},
	} {
		name := fmt.Sprintf("%d pieces, %d sources, reader %t, core %t, bare %t", p.pieces, len(p.sources), p.reader, p.core, p.bare)
		t.Run(name, func(t *testing.T) {
			if len(p.sources) > 2 || p.pieces > 1 {
				testrig.OnlyLong(t)
			}
			if p.long && !*long {
				t.Skip("only with -long")
			}
			start := time.Now()
			states, hedges, takeovers := explore(t, p.smallPlan, 5_000_000)
			t.Logf("%d states, hedges %t, takeovers %t, %s", states, hedges, takeovers, time.Since(start))
			if !hedges {
				t.Error("no state had a hedge")
			}
		})
	}
}
