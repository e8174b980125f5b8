package leasemgr

import (
	"math"
	"slices"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// SetHave replaces what a source has; nil: that is not known any more. The set is not kept. The source's
// leases on pieces that it no longer has end.
func (m *Manager) SetHave(id peers.ID, have *share.Set, now time.Time) Todo {
	m.clock.tick(now)
	i, ok := m.byID[id]
	if !ok {
		return m.settle()
	}
	s := m.sources[i]
	m.uncount(s)
	had, was := s.have.n, s.told
	s.have, s.told, s.lacks = m.space.parse(have), have != nil, false
	if s.told && (s.have.n == 0 || was && s.have.n > had) {
		s.grew = m.clock.at
	}
	m.count(s)
	s.cursor = cursor{}
	for at := s.head; at != 0; {
		l := m.leases[at]
		if !s.have.has(l.piece, m.space.n) {
			m.revoke(at)
		}
		at = l.next
	}
	m.relentAll()
	if s.idle() {
		if m.couldUse(s) {
			m.rouse(i)
		}
	}
	return m.settle()
}

// Have adds pieces to what a source has.
func (m *Manager) Have(id peers.ID, pieces []share.Piece, now time.Time) Todo {
	m.clock.tick(now)
	i, ok := m.byID[id]
	if !ok {
		return m.settle()
	}
	s := m.sources[i]
	for _, p := range pieces {
		if int64(p) >= int64(m.space.n) || !m.gain(s, uint32(p)) {
			continue
		}
		s.grew, s.lacks = m.clock.at, false
		if s.shuns(uint32(p)) {
			m.relent(uint32(p))
		}
		if m.plan.has(uint32(p)) && !m.verified.has(uint32(p)) && s.idle() && m.ofUse(i, uint32(p)) {
			m.rouse(i)
		}
	}
	return m.settle()
}

// ofUse says whether a source that waits should ask because it has p now. One that was told when to ask again
// would be refused before, unless p is leased to nobody or it could share a lease on it at once.
func (m *Manager) ofUse(i, p uint32) bool {
	s, at := m.sources[i], m.held[p]
	if at == 0 || s.waiting == NoneHere || s.waiting == Unread {
		return true
	}
	for ; at != 0; at = m.twinOf(p, at) {
		if _, how, _ := m.weigh(i, at); how == open {
			return true
		}
	}
	return false
}

// count enters a source's have-set into the rarities.
func (m *Manager) count(s *source) {
	switch {
	case s.banned || s.have.n == 0:
	case s.have.n == m.space.n:
		m.fulls++
	default:
		m.parts++
		m.rarity.addSet(&s.have, m.space)
		m.unsorted = true
	}
}

// uncount takes it out again.
func (m *Manager) uncount(s *source) {
	switch {
	case s.banned || s.have.n == 0:
	case s.have.n == m.space.n:
		m.fulls--
	default:
		m.parts--
		m.rarity.subSet(&s.have, m.space)
	}
}

// gain gives p to a source, and says whether that was new.
func (m *Manager) gain(s *source, p uint32) bool {
	if s.have.has(p, m.space.n) {
		return false
	}
	if s.have.n == 0 || s.have.n == m.space.n-1 {
		m.uncount(s)
		s.have.set(p, true, m.space)
		m.count(s)
		s.cursor = cursor{}
		return true
	}
	s.have.set(p, true, m.space)
	if !s.banned {
		m.rarity.add(int(p/64), 1<<(p%64))
		m.rarity.stale = true
	}
	if m.pool.wanted.has(p) {
		rank := m.pool.rankOf(p)
		if rank%perLevel == 1 { // no partial source had it, so none searches that rank
			m.rerank(p)
		} else {
			m.remember(s, ranked{p, uint16(rank)})
		}
	}
	return true
}

// lose takes p from a source.
func (m *Manager) lose(s *source, p uint32) {
	if !s.have.has(p, m.space.n) {
		return
	}
	if s.have.n == m.space.n || s.have.n == 1 {
		m.uncount(s)
		s.have.set(p, false, m.space)
		m.count(s)
		s.cursor = cursor{}
		m.relent(p)
		return
	}
	s.have.set(p, false, m.space)
	if !s.banned {
		m.rarity.sub(int(p/64), 1<<(p%64))
		m.rarity.stale = true
	}
	m.relent(p)
}

// Measured says how fast a source is: its rate in bytes per second, and its round
// trip. Values that make no sense are ignored. It sets the source's window and
// deadlines.
func (m *Manager) Measured(id peers.ID, rate float64, trip time.Duration, now time.Time) Todo {
	m.clock.tick(now)
	i, ok := m.byID[id]
	if !ok || !(rate > 0) || math.IsInf(rate, 0) || trip < 0 {
		return m.settle()
	}
	s := m.sources[i]
	s.measured = true
	s.rate = min(max(rate, 1), maxRate)
	s.trip = min(trip, maxTrip)
	m.setAlarm(i)
	m.freed(i)
	return m.settle()
}

// Rank sets the score of a source and whether it is banned. A score
// below Config.MinPeerScore leaves it one lease at a time; scores also order
// wake-ups. A ban takes its leases away and lasts until Rank says otherwise.
func (m *Manager) Rank(id peers.ID, score float64, banned bool, now time.Time) Todo {
	m.clock.tick(now)
	i, ok := m.byID[id]
	if !ok {
		return m.settle()
	}
	s := m.sources[i]
	if !math.IsNaN(score) {
		s.score = score
	}
	switch {
	case !banned && s.banned:
		m.pardon(i)
	case banned && !s.banned:
		m.ban(s)
	}
	m.freed(i)
	return m.settle()
}

func (m *Manager) ban(s *source) {
	m.uncount(s)
	s.banned = true
	m.relentAll()
	for s.head != 0 {
		m.revoke(s.head)
	}
}

func (m *Manager) pardon(i uint32) {
	s := m.sources[i]
	s.banned = false
	m.count(s)
	s.cursor = cursor{}
	m.relentAll()
	if s.waiting == IsBanned {
		m.rouse(i)
	}
}

// shun keeps a source from being asked for a piece for a while.
type shun struct {
	source uint32
	serial uint64
	piece  uint32
	until  instant
}

// maxShun bounds the pieces kept from one source.
const maxShun = 64

// shuns says whether p is kept from the source for now.
func (s *source) shuns(p uint32) bool {
	return len(s.shunned) > 0 && slices.Contains(s.shunned, p)
}

// shun keeps p from a source that just failed with it, unless relent says not to.
func (m *Manager) shun(i, p uint32) {
	s := m.sources[i]
	if m.cfg.ShunFor < 0 || s.banned || s.shuns(p) || len(s.shunned) >= maxShun {
		return
	}
	s.shunned = append(s.shunned, p)
	m.shunned = append(m.shunned, shun{i, s.serial, p, m.clock.at + instant(m.cfg.ShunFor)})
	m.relent(p)
}

// relent lets sources that failed with p be asked again if all that have it failed: a
// source that failed before is better than none. The one that failed last stays out,
// unless it is the only one.
func (m *Manager) relent(p uint32) {
	last, count := -1, 0
	for k, e := range m.shunned {
		if e.piece == p && m.barsHolder(e) {
			last, count = k, count+1
		}
	}
	if count == 0 || count < m.fulls+m.rarity.of(p) {
		return
	}
	var failed []shun
	kept := m.shunned[:0]
	for k, e := range m.shunned {
		if e.piece == p && m.barsHolder(e) && (k != last || count == 1) {
			failed = append(failed, e)
		} else {
			kept = append(kept, e)
		}
	}
	m.shunned = kept
	for _, e := range failed {
		m.forgive(e)
	}
}

// barsHolder says whether a piece is kept from a source that has it and could
// fetch it otherwise.
func (m *Manager) barsHolder(e shun) bool {
	s := m.sources[e.source]
	return s != nil && s.serial == e.serial && !s.banned && s.have.has(e.piece, m.space.n)
}

// relentAll calls relent for every piece, because what a source can be asked for has changed.
func (m *Manager) relentAll() {
	if len(m.shunned) == 0 {
		return
	}
	failed := make(map[uint32]int, len(m.shunned))
	var pieces []uint32
	for _, e := range m.shunned {
		if m.barsHolder(e) {
			if failed[e.piece]++; failed[e.piece] == 1 {
				pieces = append(pieces, e.piece)
			}
		}
	}
	for _, p := range pieces {
		if failed[p] >= m.fulls+m.rarity.of(p) {
			m.relent(p)
		}
	}
}

// unshun ends the shuns whose time is over.
func (m *Manager) unshun() {
	n := 0
	for n < len(m.shunned) && m.shunned[n].until <= m.clock.at {
		m.forgive(m.shunned[n])
		n++
	}
	if n > 0 {
		m.shunned = slices.Delete(m.shunned, 0, n)
	}
}

func (m *Manager) forgive(e shun) {
	s := m.sources[e.source]
	if s == nil || s.serial != e.serial {
		return
	}
	s.shunned = slices.DeleteFunc(s.shunned, func(p uint32) bool { return p == e.piece })
	if !s.have.has(e.piece, m.space.n) {
		return
	}
	if m.pool.wanted.has(e.piece) && s.have.n < m.space.n {
		m.remember(s, ranked{e.piece, uint16(m.pool.rankOf(e.piece))})
	}
	if s.idle() {
		m.rouse(e.source)
	}
}
