package leasemgr

import (
	"hash/fnv"

	"github.com/piecelease/fetcher/peers"
)

// Peers that fetch a share together ask a source that has all of it for different pieces,
// so that each piece comes once over a line that they share, and is passed on from there.
// This takes no messages: for each piece every peer has a lot, which follows from its ID,
// and among ourselves and the sources that miss some of the share the one with the least
// lot is to ask for it. A piece of ours is leased before any that is another's.
//
// It is only an order; nobody is relied on. Another's piece is asked for when none of
// ours is found, and left to the others as long as those that miss some bring us
// SpareFactor times what the source could. Only bytes that really came count.
const (
	mostTries  = 256  // pieces of others that one search passes over
	nearlyEven = 0.8  // of what as many others bring as there are, when each sends us as much as the source
	lotPieces  = 4096 // most lots drawn for a share: one for each piece would make disks jump at each
)

// lotsOf is the number from which all lots of a peer follow.
func lotsOf(id peers.ID) uint64 {
	h := fnv.New64a()
	h.Write([]byte(id))
	return h.Sum64()
}

// lotFor is a peer's lot for a piece; in large shares neighbouring pieces have the same.
func (m *Manager) lotFor(lots uint64, p uint32) uint64 {
	return mix(lots ^ mix(uint64(p/m.lotRun())))
}

// lotRun is how many neighbouring pieces have the same lot.
func (m *Manager) lotRun() uint32 { return min(longestRun, 1+uint32(m.space.n)/lotPieces) }

// rivals are the lots of the other peers that fetch the share from s.
func (m *Manager) rivals(s *source) []uint64 {
	m.lots = m.lots[:0]
	if m.self == "" || m.fulls == len(m.byID) {
		return nil
	}
	for _, o := range m.sources {
		if o != nil && o != s && m.misses(o) {
			m.lots = append(m.lots, o.lots)
		}
	}
	return m.lots
}

// another reports whether one of the rivals, not this node, is to ask for p.
func (m *Manager) another(rivals []uint64, p uint32) bool {
	own := m.lotFor(m.ownLots, p)
	for _, lots := range rivals {
		if m.lotFor(lots, p) < own {
			return true
		}
	}
	return false
}

// ourNext is nextOf without the pieces left to others; tries bounds how many it passes over.
func (m *Manager) ourNext(s *source, l *layer, from, to uint32, rivals []uint64, tries *int) (uint32, bool) {
	p, ok := m.nextOf(s, l, from, to)
	for ok {
		next, run := p+1, m.lotRun()
		if m.another(rivals, p) {
			next = (p/run + 1) * run
		} else if !s.relied || len(rivals) == 0 || !m.nearHas(p) {
			break
		}
		if *tries--; *tries < 0 {
			return 0, false
		}
		p, ok = m.nextOf(s, l, next, to)
	}
	return p, ok
}

// fed reports whether the rest may be left to others. Where the source is as near as they are, all
// lines are likely alike: then the others bring as many times what it does as they are,
// and that soon.
func (m *Manager) fed(s *source) bool {
	brought, factor := m.fromParts.now(m.clock.at), m.cfg.SpareFactor
	if s.near() {
		brought, factor = m.fromParts.sofar(m.clock.at), min(factor, nearlyEven*float64(len(m.lots)))
	}
	return brought >= factor*max(s.rate, leastRate)
}
