package leasemgr

import (
	"hash/fnv"

	"github.com/piecelease/fetcher/peers"
)

// Those who fetch a share together ask who has all of it for different pieces, so that
// each comes once over a line that they share, and is passed on from there. No word is
// needed for that: for each piece every peer has a lot, which follows from its ID, and
// of ourselves and the sources that miss some of the share themselves whoever has the
// least is to ask for it. A piece of ours goes out before any that is another's.
//
// It is an order, and nobody is relied on. What is another's is asked for when nothing
// of ours is found; and left to the others as long as those who miss some bring us
// SpareFactor times what the source could. What they bring is what really came.
const (
	mostTries = 256  // pieces of others that one search passes over
	lotPieces = 4096 // lots that are drawn for a share, where it has as many pieces: else disks would jump at each
)

// lotsOf is what all lots of a peer follow from.
func lotsOf(id peers.ID) uint64 {
	h := fnv.New64a()
	h.Write([]byte(id))
	return h.Sum64()
}

// lotFor is a peer's lot for a piece; neighbours have the same in large shares.
func (m *Manager) lotFor(lots uint64, p uint32) uint64 {
	return mix(lots ^ mix(uint64(p/min(longestRun, 1+uint32(m.space.n)/lotPieces))))
}

// rivals are the lots of those who fetch the share from s beside us.
func (m *Manager) rivals(s *source) []uint64 {
	m.lots = m.lots[:0]
	if m.self == "" || m.fulls == len(m.byID) {
		return nil
	}
	for _, o := range m.sources {
		if o != nil && o != s && o.told && !o.banned && o.have.n < m.space.n {
			m.lots = append(m.lots, o.lots)
		}
	}
	return m.lots
}

// another says whether one of them is to ask for p, and not we.
func (m *Manager) another(rivals []uint64, p uint32) bool {
	own := m.lotFor(m.ownLots, p)
	for _, lots := range rivals {
		if m.lotFor(lots, p) < own {
			return true
		}
	}
	return false
}

// ourNext is nextOf without the pieces that are for others, for as many as may be passed over.
func (m *Manager) ourNext(s *source, l *layer, from, to uint32, rivals []uint64, tries *int) (uint32, bool) {
	p, ok := m.nextOf(s, l, from, to)
	for ok && m.another(rivals, p) {
		if *tries--; *tries < 0 {
			return 0, false
		}
		p, ok = m.nextOf(s, l, p+1, to)
	}
	return p, ok
}

// fed says whether the rest may be left to others.
func (m *Manager) fed(s *source) bool {
	return m.fromParts.now(m.clock.at) >= m.cfg.SpareFactor*max(s.rate, leastRate)
}
