package leasemgr

import (
	"cmp"
	"slices"
	"time"

	"github.com/piecelease/fetcher/share"
)

// Priority is how urgent the pieces of a file are. The zero value is Normal.
type Priority int8

const (
	Skip   Priority = -2 // not to be fetched
	Low    Priority = -1
	Normal Priority = 0
	High   Priority = 1
)

// level is the place of a piece's priority among the ranks.
func (m *Manager) level(p uint32) int {
	for level, b := range m.urgent {
		if b != nil && b.has(p) {
			return level
		}
	}
	return levelOf(Normal)
}

func levelOf(p Priority) int { return int(High - p) }

// levelMasks are the pieces of word w, by level.
func (m *Manager) levelMasks(w int) (masks [levels]uint64) {
	rest := ^uint64(0)
	for level, b := range m.urgent {
		if b != nil {
			masks[level] = b[w]
			rest &^= b[w]
		}
	}
	masks[levelOf(Normal)] = rest
	return masks
}

// Run is pieces side by side that have one priority.
type Run struct {
	First    share.Piece
	N        int
	Priority Priority
}

// SetPriorities says how urgent runs of pieces are. Skip takes them out of the plan:
// their leases are revoked, what is verified stays. It takes time in proportion to the
// share, whatever the number of runs.
func (m *Manager) SetPriorities(runs []Run, now time.Time) Todo {
	m.clock.tick(now)
	for _, r := range runs {
		from := min(int64(r.First), int64(m.space.n))
		to := min(from+int64(max(r.N, 0)), int64(m.space.n))
		for p := uint32(from); p < uint32(to); p++ {
			m.setLevel(p, r.Priority)
		}
	}
	done := m.have == m.total
	m.recount()
	m.sort()
	m.todo.Done = m.todo.Done || !done && m.have == m.total
	return m.settle()
}

func (m *Manager) setLevel(p uint32, prio Priority) {
	for _, b := range m.urgent {
		if b != nil {
			b.clear(p)
		}
	}
	if level := levelOf(prio); prio == High || prio == Low {
		if m.urgent[level] == nil {
			m.urgent[level] = make(bitmap, m.space.words)
		}
		m.urgent[level].set(p)
	}
	if in := prio != Skip; in != m.plan.has(p) {
		m.setPlanned(p, in)
	}
}

func (m *Manager) setPlanned(p uint32, in bool) {
	n := int64(m.layout.PieceLen(share.Piece(p)))
	if in {
		m.plan.set(p)
		m.bytes += n
		m.returned = append(m.returned, p)
		return
	}
	m.plan.clear(p)
	m.bytes -= n
	for at := m.held[p]; at != 0; at = m.held[p] {
		m.revoke(at)
	}
}

// Reader names a reader of the share while it is fetched.
type Reader uint32

// reader is the range that a reader waits for.
type reader struct {
	id Reader
	at uint32 // the piece it waits for, or will wait for next
	to uint32 // the end of what it will read soon
}

// maxAhead bounds the pieces examined for a reader at each grant.
const maxAhead = 256

// SetReader says that a reader is at a piece and will read the pieces after it, n
// in all (at most 256). Among pieces of one priority these go first, the nearest
// first, and a slow holder of the first one is hedged at once.
func (m *Manager) SetReader(id Reader, at share.Piece, n int, now time.Time) Todo {
	m.clock.tick(now)
	m.dropReader(id)
	from := min(int64(at), int64(m.space.n))
	to := min(from+int64(min(max(n, 0), maxAhead)), int64(m.space.n))
	if from == to {
		return m.settle()
	}
	m.readers = append(m.readers, reader{id, uint32(from), uint32(to)})
	slices.SortFunc(m.readers, func(a, b reader) int { return cmp.Compare(a.id, b.id) })
	for q := uint32(from); m.onDemand && q < uint32(to); q++ {
		if m.pool.wanted.has(q) {
			m.returned = append(m.returned, q) // so that waiting sources are told of it
		}
	}
	if m.held[from] != 0 {
		m.hurryHolders(uint32(from))
		m.rouseAll(func(s *source) bool { return (s.waiting == AllLeased || s.waiting == Unread) && m.may(s, uint32(from)) })
	}
	return m.settle()
}

// DropReader says that a reader is gone.
func (m *Manager) DropReader(id Reader) { m.dropReader(id) }

func (m *Manager) dropReader(id Reader) {
	m.readers = slices.DeleteFunc(m.readers, func(r reader) bool { return r.id == id })
}

// nearest is the wanted piece a source may have that some reader needs soonest,
// of the highest priority.
func (m *Manager) nearest(s *source) (p uint32, rank int, ok bool) {
	best, level := uint32(0), levels
	for _, r := range m.readers {
		for q := r.at; q < r.to; q++ {
			if !m.pool.wanted.has(q) || !m.may(s, q) {
				continue
			}
			if l := m.level(q); l < level || l == level && q-r.at < best {
				p, best, level, ok = q, q-r.at, l, true
			}
		}
	}
	if !ok {
		return 0, 0, false
	}
	return p, m.pool.rankOf(p), true
}
