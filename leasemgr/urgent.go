package leasemgr

// The piece a reader waits for is fetched first by whichever source holds it: its lease
// goes to the head of the source's queue, and the pool that works through that queue is
// told, by Lease.Urgent with the grant or by Todo.Urgent later. The leases it passes
// are given the time it takes.

// awaited says whether a reader waits for p.
func (m *Manager) awaited(p uint32) bool {
	for _, r := range m.readers {
		if r.at == p {
			return true
		}
	}
	return false
}

// hurry puts a lease first in its source's queue. It reports whether that moved it.
func (m *Manager) hurry(at uint32) bool {
	l := &m.leases[at]
	s := m.sources[l.source]
	if s.head == at {
		return false
	}
	m.leases[l.prev].next = l.next
	if l.next != 0 {
		m.leases[l.next].prev = l.prev
	} else {
		s.tail = l.prev
	}
	head := &m.leases[s.head]
	l.start = head.start - uint64(l.length) // only differences count
	l.prev, l.next, head.prev = 0, s.head, at
	s.head = at
	s.base = max(s.base, l.seen)
	m.setAlarm(l.source)
	return true
}

// hurryHolders hurries the leases on p.
func (m *Manager) hurryHolders(p uint32) {
	for at := m.held[p]; at != 0; at = m.twinOf(p, at) {
		if m.hurry(at) {
			m.todo.Urgent = append(m.todo.Urgent, m.public(at))
		}
	}
}
