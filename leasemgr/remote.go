package leasemgr

import (
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// This file is what a Manager also needs when it leases to sources of other nodes, or
// depends on one that does.

// Shares says that a source is fetched from over a line: several sources of a fleet, one for each member, are one peer outside it. What waits
// for a slow line moves to another.
func (m *Manager) Shares(id, line peers.ID) {
	if i, ok := m.byID[id]; ok {
		m.sources[i].line = line
	}
}

// Restore leases the piece p to a source that is fetching it already, under a lease
// that an earlier Manager granted or that ended with a connection. It is granted
// whatever room the source has, if the piece is wanted and the source has it: what
// is in flight should not be fetched again.
func (m *Manager) Restore(id peers.ID, p share.Piece, now time.Time) (Lease, bool) {
	m.clock.tick(now)
	i, ok := m.byID[id]
	if !ok || int64(p) >= int64(m.space.n) || !m.pool.wanted.has(uint32(p)) {
		return Lease{}, false
	}
	s := m.sources[i]
	if m.barred(s).Reason != 0 || !m.may(s, uint32(p)) {
		return Lease{}, false
	}
	return m.public(m.lease(i, uint32(p), m.pool.rankOf(uint32(p)))), true
}

// HaveNot takes pieces from what a source has. Leases that it holds on them end
// without blame, and are listed in Todo.Revoked.
func (m *Manager) HaveNot(id peers.ID, pieces []share.Piece, now time.Time) Todo {
	m.clock.tick(now)
	i, ok := m.byID[id]
	if !ok {
		return m.settle()
	}
	for _, p := range pieces {
		if int64(p) >= int64(m.space.n) {
			continue
		}
		if at := m.heldBy(i, uint32(p)); at != 0 {
			m.revoke(at)
		}
		m.lose(m.sources[i], uint32(p))
	}
	return m.settle()
}

// heldBy is the lease that source i holds on a piece; zero if none.
func (m *Manager) heldBy(i, p uint32) uint32 {
	for at := m.held[p]; at != 0; at = m.twinOf(p, at) {
		if m.leases[at].source == i {
			return at
		}
	}
	return 0
}
