package leasemgr

import (
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// A Lease is the right of one source to fetch one piece for a bounded time.
type Lease struct {
	Piece   share.Piece
	Source  peers.ID
	Token   share.Token
	Granted time.Time
	Expires time.Time // as things stand; progress extends it
	Hedge   bool      // another source held the piece when this was granted
	Begun   bool      // some blocks may be verified already: ask the verifier
	Urgent  bool      // a reader waits for the piece: fetch it before others
	Pressed bool      // the source sends us elsewhere, and others bring us too little: tell it so
}

// Reason is why a lease ended without its piece.
type Reason uint8

// Reasons for Fail.
const (
	GaveBack  Reason = iota // nobody is to blame
	BadData                 // the source sent what is not the share's
	Missed                  // its deadline passed
	NotFound                // the source does not have the piece after all
	Lost                    // the connection to the source
	Disk                    // what came could not be written
	Elsewhere               // the source gave the piece to others, and it is to be fetched from them; see Defer
)

// reasons are the reasons in words for people.
var reasons = [...]string{"gave it back", "sent wrong data", "missed its deadline", "does not have the piece",
	"connection lost", "could not be written", "gave it to others"}

func (r Reason) String() string { return reasons[r] }

// lease is a live lease: in its source's queue and in Manager.held.
type lease struct {
	token      share.Token
	granted    instant
	seen       instant // granted, or its last own progress
	start      uint64  // bytes queued on the source before it, ever
	piece      uint32
	source     uint32
	length     uint32 // bytes
	got        uint32 // bytes that came in
	next, prev uint32 // neighbours in the source's queue, zero at its ends
	twin       uint32 // the other lease on the piece, zero if none
	hedge      bool
	moved      bool // from another source
}

// outcome is how a lease leaves.
type outcome uint8

const (
	finished outcome = iota // its piece is verified, through its source
	alone                   // its piece is verified without credit to anybody, and it was the only lease on it
	failed                  // the source failed
	silent                  // its deadline passed
	revoked                 // taken away; nobody's fault
)

// tally adds the end of a lease to the statistics, and returns its public name.
func (m *Manager) tally(how outcome) End {
	switch how {
	case finished:
		m.stats.Finished++
		return Finished
	case failed:
		m.stats.Failed++
		return Failed
	case silent:
		m.stats.Expired++
		return Expired
	}
	m.stats.Revoked++
	return Revoked
}

// newLease appends a lease to a source's queue.
func (m *Manager) newLease(i, p uint32, hedge bool) uint32 {
	at := uint32(len(m.leases))
	if n := len(m.free); n > 0 {
		at, m.free = m.free[n-1], m.free[:n-1]
	} else {
		m.leases = append(m.leases, lease{})
	}
	s := m.sources[i]
	m.counter++
	l := &m.leases[at]
	*l = lease{
		token:   share.Token(m.epoch<<40 | m.counter),
		granted: m.clock.at,
		seen:    m.clock.at,
		start:   s.queued,
		piece:   p,
		source:  i,
		length:  uint32(m.layout.PieceLen(share.Piece(p))),
		prev:    s.tail,
		hedge:   hedge,
	}
	m.stats.Granted++
	m.record(at, Granted, 0)
	s.queued += uint64(l.length)
	s.count++
	s.pending += int64(l.length)
	if s.tail != 0 {
		m.leases[s.tail].next = at
		s.tail = at
		return at
	}
	s.head, s.tail = at, at
	s.base = m.clock.at
	s.busySince, s.busyGot = m.clock.at, 0
	m.setAlarm(i)
	return at
}

// end takes a live lease out. Its piece is wanted again unless it is verified, no
// longer in the plan, or held by another source as well.
func (m *Manager) end(at uint32, how outcome) {
	l := m.leases[at]
	s := m.sources[l.source]
	if e := m.tally(how); e != Failed { // Fail has recorded that with its reason
		m.record(at, e, 0)
	}
	m.unlink(s, at, how)
	s.count--
	s.pending -= int64(l.length - l.got)
	m.setAlarm(l.source)
	m.freed(l.source)

	if l.twin != 0 {
		m.endTwin(at, l)
	} else {
		m.held[l.piece] = 0
		m.leased--
		if m.plan.has(l.piece) && !m.verified.has(l.piece) {
			m.want(l.piece)
		}
	}
	m.leases[at] = lease{}
	m.free = append(m.free, at)
}

// revoke ends a live lease through no fault of its source, and lists it in the Todo.
func (m *Manager) revoke(at uint32) {
	m.todo.Revoked = append(m.todo.Revoked, m.public(at))
	m.end(at, revoked)
}

// unlink takes a lease out of its source's queue.
func (m *Manager) unlink(s *source, at uint32, how outcome) {
	l := &m.leases[at]
	wasHead := s.head == at
	if l.prev != 0 {
		m.leases[l.prev].next = l.next
	} else {
		s.head = l.next
	}
	if l.next != 0 {
		m.leases[l.next].prev = l.prev
	} else {
		s.tail = l.prev
	}
	switch {
	case !wasHead:
	case how == finished || how == alone:
		s.base = m.clock.at
	case s.head != 0:
		s.base = max(s.base, m.leases[s.head].seen)
	}
}

// endTwin ends one of two leases on a piece. What both brought is waste, at most.
func (m *Manager) endTwin(at uint32, l lease) {
	other := &m.leases[l.twin]
	other.twin = 0
	if m.held[l.piece] == at {
		m.held[l.piece] = l.twin
	}
	m.hedged -= int64(l.length)
	m.stats.Duplicate += int64(min(l.got, other.got))
}

// live is the lease of a source with this token, or zero if there is none that
// is live now.
func (m *Manager) live(id peers.ID, p share.Piece, token share.Token) uint32 {
	i, ok := m.byID[id]
	if !ok || int64(p) >= int64(m.space.n) {
		return 0
	}
	for at := m.held[p]; at != 0; at = m.twinOf(uint32(p), at) {
		l := &m.leases[at]
		if l.source == i && l.token == token && m.clock.at < m.deadline(m.sources[i], l) {
			return at
		}
	}
	return 0
}

// twinOf steps from the first lease on a piece to the second.
func (m *Manager) twinOf(p, at uint32) uint32 {
	if m.held[p] == at {
		return m.leases[at].twin
	}
	return 0
}

// public is a lease as callers see it.
func (m *Manager) public(at uint32) Lease {
	l := &m.leases[at]
	s := m.sources[l.source]
	return Lease{
		Piece:   share.Piece(l.piece),
		Source:  s.id,
		Token:   l.token,
		Granted: m.clock.time(l.granted),
		Expires: m.clock.time(m.deadline(s, l)),
		Hedge:   l.hedge,
		Begun:   m.begun.has(l.piece),
		Urgent:  m.awaited(l.piece),
		Pressed: m.pressed(s),
	}
}
