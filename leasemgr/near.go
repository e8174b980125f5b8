package leasemgr

import (
	"time"

	"github.com/piecelease/fetcher/peers"
)

// Peers of one network share its line to the world. When they fetch a share together, each piece need
// cross that line once: each of them asks the sources beyond it for the pieces whose lot is its own (ours.go),
// and gets the others from its neighbours. So a source beyond the line is asked for no piece that a
// neighbour has or is to ask for, and does not hedge, as long as we are busy with our part, at a source that is not far
// slower, and for half as long again, and then as long as neighbours bring SpareFactor times what it could, if that was measured.
//
// Neighbours are those less than nearTrip away. Beyond the line are sources at least nearFactor times as
// far away. Nobody is relied on for longer: when nothing comes from anywhere, or the neighbours have had
// their time and bring too little, all is asked for as if there were none, for a while.
const (
	nearTrip   = 5 * time.Millisecond
	nearFactor = 4
	nearGrace  = instant(time.Second)      // added to half of the time that our part took
	nearSilent = instant(4 * time.Second)  // without a byte from anybody, neighbours are not relied on
	nearAgain  = instant(10 * time.Second) // after which they are relied on again
	// nearFetches is how long a neighbour counts as one that fetches since it last got a piece.
	nearFetches = instant(30 * time.Second)
)

// reliance is how far the neighbours are relied on.
type reliance struct {
	begun  bool    // our part is
	since  instant // begun: when it was
	done   instant // when it was done; 0: it is not
	not    instant // until then they are not relied on
	fed    instant // since when those beyond the line bring the rest of our part; 0: they do not
	alone  instant // until then they are not relied on
	flowed instant // when a byte last came from anybody
}

// Away says how long the round trip of the connection to a source is; 0: that is not known.
func (m *Manager) Away(id peers.ID, trip time.Duration) {
	if i, ok := m.byID[id]; ok {
		m.sources[i].away = trip
	}
}

func (s *source) near() bool { return s.away > 0 && s.away < nearTrip }

// neighbours are the lots of the neighbours that fetch the share, if s is beyond the line that we share with them.
func (m *Manager) neighbours(s *source) []uint64 {
	m.lots = m.lots[:0]
	if m.self == "" || s.away < nearTrip {
		return nil
	}
	for _, o := range m.sources {
		if o != nil && o.near() && s.away >= nearFactor*o.away && m.fetches(o) {
			m.lots = append(m.lots, o.lots)
		}
	}
	return m.lots
}

// misses reports whether a source has said that it misses some of the share. One that only turned out not to have
// what it claims need not fetch it: nothing is left to that one.
func (m *Manager) misses(o *source) bool {
	return o.told && !o.lacks && !o.banned && o.have.n < m.space.n
}

// fetches reports whether a neighbour has shown that it fetches the share: one that serves a part of it
// on, and wants no more, is to ask for nothing.
func (m *Manager) fetches(o *source) bool {
	return m.misses(o) && o.grew > 0 && m.clock.at < o.grew+nearFetches
}

// relies reports whether a source beyond the line is asked for our part alone.
func (m *Manager) relies(s *source) bool {
	r, now := &m.reliance, m.clock.at
	if now < r.not {
		return false
	}
	if !r.begun {
		*r = reliance{begun: true, since: now, flowed: now}
	}
	switch {
	case now >= r.flowed+nearSilent:
	case m.busyBeyond(s):
		r.done = 0
		return true
	case r.done == 0:
		r.done = now
		return true
	case now < r.done+(r.done-r.since)/2+nearGrace || s.measured && m.fromNear.now(m.clock.at) >= m.cfg.SpareFactor*s.rate:
		return true
	}
	*r = reliance{not: now + nearAgain}
	return false
}

// busyBeyond reports whether a source that is no neighbour, and not far slower than s, has a lease.
func (m *Manager) busyBeyond(s *source) bool {
	for _, o := range m.sources {
		if o != nil && o.count > 0 && !o.near() && !o.farSlower(s) {
			return true
		}
	}
	return false
}

// slowFactor is how many times as fast as another busy source one is that does not wait for it.
const slowFactor = 4

// farSlower reports whether o may be busy for minutes with what s does in seconds.
func (o *source) farSlower(s *source) bool {
	return s.measured && o.measured && s.rate > slowFactor*o.rate
}

// ourPart is the next piece for a source beyond the line: one that is ours to ask for, and that no neighbour has.
func (m *Manager) ourPart(s *source, lots []uint64) (p uint32, rank int, ok bool) {
	if s.left = !s.measured && m.probes(); s.left {
		return 0, 0, false
	}
	if s.have.n == m.space.n {
		if p, rank, ok = m.ourPartOfAll(s, len(lots)); ok || s.left {
			return p, rank, ok
		}
		lots = m.neighbours(s)
	}
	p, rank, ok = m.rarest(s, lots, true)
	s.left = !ok
	return p, rank, ok
}

// nearHas reports whether a neighbour has p.
func (m *Manager) nearHas(p uint32) bool {
	for _, o := range m.sources {
		if o != nil && o.near() && !o.banned && o.have.has(p, m.space.n) {
			return true
		}
	}
	return false
}
