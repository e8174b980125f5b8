package leasemgr

import (
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

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
			m.todo.Revoked = append(m.todo.Revoked, m.public(at))
			m.stats.Revoked++
			m.end(at, revoked)
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
