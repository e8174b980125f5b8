package leasemgr

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// even is a share of n pieces of one length.
type even struct {
	n      int
	length int
}

func (g even) Pieces() int              { return g.n }
func (g even) Bytes() int64             { return int64(g.n) * int64(g.length) }
func (g even) PieceLen(share.Piece) int { return g.length }

// uneven is a share of pieces with these lengths.
type uneven []int

func (g uneven) Pieces() int                { return len(g) }
func (g uneven) PieceLen(p share.Piece) int { return g[p] }
func (g uneven) Bytes() (n int64) {
	for _, l := range g {
		n += int64(l)
	}
	return n
}

func setOf(n int, pieces ...share.Piece) *share.Set {
	s := share.NewSet(n)
	for _, p := range pieces {
		s.Add(p)
	}
	return s
}

// SetPriority is SetPriorities for one run.
func (m *Manager) SetPriority(first share.Piece, n int, prio Priority, now time.Time) Todo {
	return m.SetPriorities([]Run{{first, n, prio}}, now)
}

// ids are the sources, in the order of their IDs.
func (m *Manager) ids() []peers.ID {
	var out []peers.ID
	for _, s := range m.sources {
		if s != nil {
			out = append(out, s.id)
		}
	}
	slices.Sort(out)
	return out
}

// check returns what is wrong inside the manager, or nil.
func (m *Manager) check() error {
	var errs []string
	fail := func(format string, args ...any) { errs = append(errs, fmt.Sprintf(format, args...)) }

	// Each piece of the plan in exactly one state; each wanted one in exactly one layer.
	leased, have, wanted := 0, 0, 0
	for p := range uint32(m.space.n) {
		in := 0
		for r := m.pool.first(0); r >= 0; r = m.pool.first(r + 1) {
			l := m.pool.layers[r]
			if !bitmap(l.words).has(p) {
				continue
			}
			in++
			if r/perLevel != m.level(p) || (r%perLevel == 0) != m.begun.has(p) {
				fail("piece %d stands at rank %d", p, r)
			}
			if r%perLevel == 1 && !m.unsorted && m.rarity.of(p) > 0 {
				fail("piece %d stands where nobody looks", p)
			}
		}
		isWanted := m.plan.has(p) && !m.verified.has(p) && m.held[p] == 0
		if isWanted != m.pool.wanted.has(p) || isWanted != (in == 1) || in > 1 {
			fail("piece %d: should be wanted %t, is %t, in %d layers", p, isWanted, m.pool.wanted.has(p), in)
		}
		if m.held[p] != 0 {
			leased++
			if m.verified.has(p) || !m.plan.has(p) {
				fail("piece %d is %s and leased", p, m.state(p))
			}
		}
		if isWanted {
			wanted++
		}
		if m.plan.has(p) && m.verified.has(p) {
			have++
		}
		count := 0
		for _, s := range m.sources {
			if s != nil && !s.banned && s.have.n < m.space.n && s.have.has(p, m.space.n) {
				count++
			}
		}
		if count != m.rarity.of(p) {
			fail("piece %d is counted %d times, had %d times", p, m.rarity.of(p), count)
		}
	}
	if leased != m.leased || have != m.have || wanted != m.pool.count || m.plan.count() != m.total {
		fail("counts %d %d %d of %d, should be %d %d %d of %d", m.pool.count, m.leased, m.have, m.total, wanted, leased, have, m.plan.count())
	}
	for r, l := range m.pool.layers {
		if l == nil {
			continue
		}
		if bitmap(l.words).count() != l.count {
			fail("rank %d counts %d, holds %d", r, l.count, bitmap(l.words).count())
		}
		for w, x := range l.words {
			if l.sum[w/64]>>(w%64)&1 == 1 != (x != 0) {
				fail("rank %d: summary of word %d is wrong", r, w)
			}
		}
		for c, x := range l.sum {
			if l.top[c/64]>>(c%64)&1 == 1 != (x != 0) {
				fail("rank %d: summary of chunk %d is wrong", r, c)
			}
		}
		if used := m.pool.used[r/64]>>(r%64)&1 == 1; used != (l.count > 0) {
			fail("rank %d: marked as used: %t", r, used)
		}
	}

	// Each lease is in its source's queue, in held, and counted.
	live, fulls, parts, hedged, sleepers := 0, 0, 0, int64(0), 0
	for i, s := range m.sources {
		if s == nil {
			continue
		}
		if m.byID[s.id] != uint32(i) {
			fail("source %s is not at %d", s.id, i)
		}
		if !s.banned && s.have.n == m.space.n && m.space.n > 0 {
			fulls++
		}
		if !s.banned && s.have.n > 0 && s.have.n < m.space.n {
			parts++
		}
		n, pending, prev := 0, int64(0), uint32(0)
		first := never
		for at := s.head; at != 0; at = m.leases[at].next {
			l := &m.leases[at]
			n++
			pending += int64(l.length - l.got)
			if l.prev != prev || l.source != uint32(i) {
				fail("queue of %s is broken at lease %d", s.id, l.token)
			}
			if m.held[l.piece] != at && m.leases[m.held[l.piece]].twin != at {
				fail("lease %d on %d is not held", l.token, l.piece)
			}
			if l.twin != 0 {
				hedged += int64(l.length)
				if m.leases[l.twin].source == l.source || m.leases[l.twin].twin != at {
					fail("twins on piece %d are one source's, or no twins", l.piece)
				}
			}
			first = min(first, m.deadline(s, l))
			prev = at
		}
		live += n
		if n != s.count || pending != s.pending || prev != s.tail {
			fail("%s: %d leases, %d pending, counted %d, %d", s.id, n, pending, s.count, s.pending)
		}
		if n > 0 && (s.slot == 0 || m.alarms[s.slot-1] != uint32(i) || s.alarm != first) {
			fail("%s: alarm at %d, first deadline %d", s.id, s.alarm, first)
		}
		if n == 0 && s.slot != 0 {
			fail("%s: alarm without a lease", s.id)
		}
		if (s.waiting != 0) != m.asleep.has(uint32(i)) {
			fail("%s: waits for %q, asleep %t", s.id, s.waiting, m.asleep.has(uint32(i)))
		}
		if s.waiting != 0 {
			sleepers++
		}
		pop := 0
		for p := range uint32(m.space.n) {
			if s.have.has(p, m.space.n) {
				pop++
			}
		}
		if pop != s.have.n {
			fail("%s has %d pieces, counted %d", s.id, pop, s.have.n)
		}
	}
	if hedged/2 != m.hedged || fulls != m.fulls || parts != m.parts || sleepers != m.sleepers || len(m.leases) != 1+len(m.free)+live {
		fail("hedged %d/%d, fulls %d/%d, parts %d/%d, asleep %d/%d, leases %d/%d", m.hedged, hedged/2, m.fulls, fulls, m.parts, parts,
			m.sleepers, sleepers, len(m.leases)-1-len(m.free), live)
	}
	for k, s := range m.sources {
		if s == nil {
			continue
		}
		for _, next := range []instant{0, m.clock.at + retryLatest, never - 1} {
			if err := m.checkOnTime(uint32(k), next); err != nil {
				fail("%s: %s", s.id, err)
			}
		}
	}
	for at := range m.alarms {
		if at > 0 && m.alarms.less(m.sources, at, (at-1)/2) {
			fail("heap of alarms is out of order at %d", at)
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("%s", strings.Join(errs, "\n"))
	}
	return nil
}

// checkOnTime weighs each lease of each holder that has nothing to give to source k before next.
func (m *Manager) checkOnTime(k uint32, next instant) error {
	for _, holder := range m.sources {
		if holder == nil || holder.head == 0 || !m.onTime(holder, m.sources[k], next) {
			continue
		}
		for at := holder.head; at != 0; at = m.leases[at].next {
			if _, how, due := m.weigh(k, at); how == open || due < next {
				return fmt.Errorf("%s is on time until %d, but lease %d is due at %d, standing %d", holder.id, next, m.leases[at].token, due, how)
			}
		}
	}
	return nil
}

// fingerprint is everything that decides what happens, except cursors and the
// random order of equals: what a refused or stale call must not change.
func (m *Manager) fingerprint() string {
	b := fmt.Append(nil, m.paused, m.stats, m.counter, m.readers)
	num := func(xs ...int64) {
		for _, x := range xs {
			b = strconv.AppendInt(append(b, ' '), x, 36)
		}
	}
	flag := func(xs ...bool) {
		for _, x := range xs {
			b = strconv.AppendBool(b, x)
		}
	}
	for p := range uint32(m.space.n) {
		b = append(b, m.state(p)...)
		num(int64(m.level(p)))
		flag(m.begun.has(p))
		for at := m.held[p]; at != 0; at = m.twinOf(p, at) {
			l := m.leases[at]
			num(int64(l.source), int64(l.token), int64(l.got), int64(m.deadline(m.sources[l.source], &l)))
			flag(l.hedge)
		}
	}
	for _, s := range m.sources {
		if s == nil {
			continue
		}
		b = append(b, s.id...)
		num(int64(s.have.n), int64(s.count), s.pending, int64(s.rate), int64(s.trip), int64(s.score*1000))
		flag(s.measured, s.banned, s.recalled)
		num(int64(s.recallAt), int64(s.spareTo), int64(len(s.deferred)))
		for _, p := range s.shunned {
			num(int64(p))
		}
	}
	return string(b)
}
