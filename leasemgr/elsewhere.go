package leasemgr

import (
	"math"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// A node that many peers fetch from gives a piece to one of them at a time, and sends
// the others elsewhere for it (peers.Uploads). Three things follow for a peer that is sent.
//
// The piece is not asked for there until the time that the source names: Defer. It
// is fetched from another source as soon as one announces it.
//
// A source that has the whole share is spared for a while: as long as the other
// sources bring us SpareFactor times what it could, it is asked only for what nobody
// else has. Only bytes that really came count, so claims cannot get a source spared;
// when they ebb away, the source is asked again. A piece that another source failed
// with is asked for in any case.
//
// And when the others bring us less although they had pressAfter to begin, we are
// pressed, and leases say so (Lease.Pressed): a source that is told so does not send us
// elsewhere for what it has sent already. If another source has the whole share, nothing has
// to get around first: the one that sent us is spared for pressSoon, and no longer. That we are pressed by then is
// believed only of a source that was measured: of another nobody knows that it could bring more.
const (
	elsewhereFor = time.Second           // when the source names no time
	maxElsewhere = 10 * time.Second      // the longest that is believed
	maxDeferred  = 4096                  // pieces of one source; with more it starts over
	flowMemory   = 2 * time.Second       // over which the rate of the others is smoothed
	shortest     = 10 * time.Millisecond // time over which a rate is believed
	lookAgain    = instant(500 * time.Millisecond)
	pressAfter   = instant(4 * time.Second)
	pressSoon    = instant(1500 * time.Millisecond)
	maxFailed    = 256 // pieces that others failed with, in one search
	// leastRate is the assumed rate of a source of which nothing is known, in bytes per
	// second: a block in pressAfter. The rate of the others ebbs away but never reaches 0.
	leastRate = share.BlockSize / 4
)

// Defer is Fail with Elsewhere when the source names a time: it is not asked for
// the piece again before retry has passed. Without one, retry is zero.
func (m *Manager) Defer(id peers.ID, p share.Piece, token share.Token, retry time.Duration, now time.Time) Todo {
	return m.fail(id, p, token, Elsewhere, retry, now)
}

// elsewhere keeps p from a source that sent us elsewhere for it.
func (m *Manager) elsewhere(s *source, p uint32, retry time.Duration) {
	if retry <= 0 {
		retry = elsewhereFor
	}
	until := m.clock.at + instant(min(retry, maxElsewhere))
	if len(s.deferred) == 0 || len(s.deferred) >= maxDeferred {
		s.deferred, s.recallAt = map[uint32]instant{}, never
	}
	s.deferred[p] = until
	s.recallAt = min(s.recallAt, until)
	if s.have.n < m.space.n || m.cfg.SpareFor < 0 {
		return
	}
	if m.clock.at >= s.spareTo {
		s.spareAt, s.recalled = m.clock.at, false
	}
	s.spareTo = m.clock.at + instant(m.cfg.SpareFor)
}

// Spare says that a source sent us to others before it was asked for a piece: it is spared
// while they begin, as long as one of them has the whole share.
func (m *Manager) Spare(id peers.ID, now time.Time) {
	m.clock.tick(now)
	if i, ok := m.byID[id]; ok && m.cfg.SpareFor >= 0 {
		s := m.sources[i]
		s.spareAt, s.spareTo, s.recalled = m.clock.at, m.clock.at+pressSoon, false
	}
}

// recall lets a source be asked again for pieces that it gave to others long enough
// ago. When the others bring next to nothing it lets it be asked once for all of them:
// because we are pressed, the answer may differ.
func (m *Manager) recall(s *source) {
	starved := !s.recalled && m.starved(s)
	if len(s.deferred) == 0 || m.clock.at < s.recallAt && !starved {
		return
	}
	s.recalled = s.recalled || starved
	s.recallAt = never
	for p, until := range s.deferred { // each is judged on its own: the order does not matter
		if starved || until <= m.clock.at {
			delete(s.deferred, p)
		} else {
			s.recallAt = min(s.recallAt, until)
		}
	}
	if s.have.n < m.space.n {
		s.cursor = cursor{} // it may have passed them
	}
}

// defers says whether p is kept from the source that gave it to others.
func (s *source) defers(p uint32) bool {
	if len(s.deferred) == 0 {
		return false
	}
	_, yes := s.deferred[p]
	return yes
}

// flow is bytes per second, smoothed over flowMemory.
type flow struct {
	rate  float64
	at    instant // when that was so
	since instant // when the first bytes came; 0: none have
}

func (f *flow) add(n uint32, now instant) {
	if f.since == 0 {
		f.since = now
	}
	f.rate, f.at = f.now(now)+float64(n)/flowMemory.Seconds(), now
}

func (f *flow) now(now instant) float64 {
	return f.rate * math.Exp(-float64(now-f.at)/float64(flowMemory))
}

// sofar is now, over the time since the first bytes while that is short.
func (f *flow) sofar(now instant) float64 {
	age := max(now-f.since, instant(shortest))
	return f.now(now) / -math.Expm1(-float64(age)/float64(flowMemory))
}

// flows counts n bytes that came from a source.
func (m *Manager) flows(s *source, n uint32) {
	if m.clock.at >= s.spareTo {
		m.flow.add(n, m.clock.at)
	}
	if s.have.n < m.space.n {
		m.fromParts.add(n, m.clock.at)
	}
	switch {
	case s.near():
		m.fromNear.add(n, m.clock.at)
	case s.have.n < m.space.n:
		m.fromBeyond.add(n, m.clock.at)
	}
	m.reliance.flowed = m.clock.at
}

// flowing is the rate of all sources that are not to be spared, in bytes per second.
func (m *Manager) flowing() float64 { return m.flow.now(m.clock.at) }

// spared says whether a source is asked only for what nobody else has.
func (m *Manager) spared(s *source) bool {
	if m.clock.at >= s.spareTo {
		return false
	}
	return m.flowing() >= m.cfg.SpareFactor*max(s.rate, leastRate) || m.clock.at < s.spareAt+pressSoon && m.othersWhole(s)
}

// pressed says whether a source that sends us elsewhere should know that others
// bring us too little.
func (m *Manager) pressed(s *source) bool {
	if m.clock.at >= s.spareTo || m.clock.at < s.spareAt+pressSoon || m.spared(s) {
		return false
	}
	return m.clock.at >= s.spareAt+pressAfter || s.measured && m.othersWhole(s)
}

// starved reports whether a source that sends us elsewhere is all we have.
func (m *Manager) starved(s *source) bool {
	return m.pressed(s) && m.flowing() < leastRate
}

// onlyHere is the next piece for a spared source: one that no other source has, or
// that another failed with.
func (m *Manager) onlyHere(s *source) (p uint32, rank int, ok bool) {
	if m.othersWhole(s) {
		return m.failedElsewhere(s)
	}
	own := 0 // the source's own part of the rarity count
	if s.have.n < m.space.n {
		own = 1
	}
	n := uint32(m.space.n)
	for r := m.pool.first(0); r >= 0; r = m.pool.first(r + 1) {
		if class := r%perLevel - 1; class >= 0 && class != own {
			continue // neither begun nor rare enough
		}
		m.draws++
		from := uint32(mix(m.seed^mix(m.draws)) % uint64(n))
		l := m.pool.layers[r]
		if p, ok = m.rareOf(s, l, own, from, n); !ok {
			p, ok = m.rareOf(s, l, own, 0, from)
		}
		if ok {
			return p, r, true
		}
	}
	return m.failedElsewhere(s)
}

// rareOf is nextOf without the pieces that others have too.
func (m *Manager) rareOf(s *source, l *layer, own int, from, to uint32) (uint32, bool) {
	p, ok := m.nextOf(s, l, from, to)
	for ok && m.rarity.of(p) > own {
		p, ok = m.nextOf(s, l, p+1, to)
	}
	return p, ok
}

// othersWhole reports whether another source has everything, and is neither banned nor
// to be spared itself.
func (m *Manager) othersWhole(s *source) bool {
	if m.fulls == 0 {
		return false
	}
	for _, o := range m.sources {
		if o != nil && o != s && o.have.n == m.space.n && !o.banned && m.clock.at >= o.spareTo {
			return true
		}
	}
	return false
}

// failedElsewhere is a wanted piece that is kept from a source that failed with it.
func (m *Manager) failedElsewhere(s *source) (p uint32, rank int, ok bool) {
	for _, e := range m.shunned[:min(len(m.shunned), maxFailed)] {
		if m.pool.wanted.has(e.piece) && m.may(s, e.piece) {
			return e.piece, m.pool.rankOf(e.piece), true
		}
	}
	return 0, 0, false
}

// spare refuses a lease to a source that is spared, or that sent us elsewhere. next is when
// it could share a lease.
func (m *Manager) spare(s *source, next instant) Refusal {
	if len(s.deferred) > 0 {
		next = min(next, s.recallAt)
	}
	next = min(max(next, m.clock.at+retrySoonest), m.clock.at+lookAgain)
	return Refusal{Reason: Spared, Until: m.clock.time(next)}
}

// idle says whether a source waits for pieces.
func (s *source) idle() bool {
	return s.waiting == NoneHere || s.waiting == AllLeased || s.waiting == Spared || s.waiting == Unread
}
