package leasemgr

import (
	"math"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// A hedge is a second lease on a piece, for another source. It is granted when
// nothing unleased is left for the asker, or a reader waits for that piece, and
// the holder is overdue or clearly slower than the asker. Of an overdue piece a
// source ten times faster than the holder takes the lease over instead. Where two
// hold it already, rates may be from before their lines became slow: then so does a
// source that brought ten blocks while the holder brought none. Its own rate is not
// enough: when this node's line became slow, all rates are from before.
//
// The waste is bounded: the pieces held twice and what hedges fetched twice
// before never exceed m.allowance() together.

// hedgeLag keeps hedges away from holders that are slower only by chance.
const hedgeLag = 20 * time.Millisecond

// Bounds of one search for a hedge: sources examined, and leases of each. What it
// misses is found at the next try, or by the others.
const (
	maxHolders = 64
	maxProbes  = 16
)

// A source that could only hedge asks again after retrySoonest at the earliest and
// retryLatest at the latest, or later by up to retryGap for each that waits.
const (
	retrySoonest = instant(50 * time.Millisecond)
	retryLatest  = instant(time.Second)
	retryGap     = instant(time.Millisecond)
)

// allowance is how many bytes hedges may put at stake.
func (m *Manager) allowance() int64 {
	share := int64(max(m.cfg.HedgeShare, 0) * float64(m.bytes))
	return max(share, m.cfg.HedgeFloor)
}

// needs is the time a source would take for n more bytes.
func (s *source) needs(n int64) time.Duration {
	if !s.measured {
		return math.MaxInt64 / 4
	}
	return s.trip + s.takes(s.pending+n)
}

// speed is a source's rate, measured or estimated from what came in so far.
func (m *Manager) speed(s *source) float64 {
	if s.measured {
		return s.rate
	}
	busy := max(time.Duration(m.clock.at-s.busySince), time.Microsecond)
	return float64(s.busyGot+share.BlockSize) / busy.Seconds()
}

// left is how much longer a holder is expected to take. One that should be done is
// expected to stay silent for as long again as it has been.
func (m *Manager) left(s *source, l *lease) time.Duration {
	life := s.life(l)
	eta := life + instant(s.trip+seconds(float64(m.ahead(s, l))/m.speed(s)))
	return time.Duration(max(eta-m.clock.at, m.clock.at-max(life, 0)))
}

// In a crowd many share each line, so a holder is often slow for a moment, and what it has begun to send when
// another was faster arrives for nothing. So a holder is clearly slower there only at crowdFactor times the usual factor.
const (
	crowdParts  = 12 // sources with a part of the share
	crowdFactor = 3
)

// slower says whether a holder that takes left is clearly slower than s would be with n
// more bytes.
func (m *Manager) slower(left time.Duration, s *source, n int64) bool {
	factor := m.cfg.HedgeFactor
	if m.self != "" && m.parts >= crowdParts && len(m.readers) == 0 {
		factor *= crowdFactor
	}
	return float64(left) > factor*float64(s.needs(n))+float64(hedgeLag)
}

// lap is a run of TakeoverFactor blocks that came from a source.
type lap struct {
	began, begins instant // of the last whole one, and of the one now
	got           int64   // of the one now
}

func (l *lap) add(n uint32, now instant, whole int64) {
	if l.got == 0 {
		l.begins = now
	}
	if l.got += int64(n); l.got >= whole {
		l.began, l.got = l.begins, 0
	}
}

// onTime says whether weighing a holder's leases for s would change nothing: none is overdue,
// none waits longer for its holder than a clearly slower one would, and none is due
// before next. The head is due first, and the tail is left last.
func (m *Manager) onTime(holder, s *source, next instant) bool {
	head, tail := &m.leases[holder.head], &m.leases[holder.tail]
	if due := m.due(holder, head); due < next || due <= m.clock.at {
		return false
	}
	queue := float64(int64(tail.start-head.start) - int64(head.got) + int64(tail.length))
	left := max(holder.trip+seconds(queue/m.speed(holder)), time.Duration(m.clock.at-max(holder.base, 0)))
	return !m.slower(left, s, 0)
}

// offer is what a source can do with another's lease.
type offer struct {
	at   uint32 // the lease; zero if none
	take bool   // take it over, instead of sharing it
	left time.Duration
}

// standing says whether a source may share a lease.
type standing uint8

const (
	closed standing = iota // not a lease the source can ever share
	early                  // its holder is on time, and not clearly slower
	open                   // it can be shared now
)

// weigh returns whether source i could share a lease or take it over, and when it
// will be overdue if not now.
func (m *Manager) weigh(i, at uint32) (o offer, how standing, due instant) {
	l := &m.leases[at]
	s, holder := m.sources[i], m.sources[l.source]
	if l.source == i || l.twin != 0 && m.leases[l.twin].source == i || !m.may(s, l.piece) {
		return offer{}, closed, never
	}
	due = m.due(holder, l)
	overdue := m.clock.at >= due
	take := overdue && (s.measured && s.rate >= m.cfg.TakeoverFactor*m.speed(holder) || l.twin != 0 && s.lap.began > holder.life(l))
	if l.twin != 0 && !take {
		return offer{}, closed, due
	}
	left := m.left(holder, l)
	slower := m.slower(left, s, int64(l.length))
	if !overdue && !slower {
		return offer{}, early, due
	}
	if (m.spared(s) || s.relied) && !m.awaited(l.piece) {
		return offer{}, closed, m.clock.at + lookAgain
	}
	if slower && m.moves(s, holder, l, left) {
		return offer{at, true, left}, open, due
	}
	if m.hedged+m.stats.Duplicate+m.stake(l, take) > m.allowance() || !m.room(s, int64(l.length)) {
		return offer{}, closed, m.clock.at + retryLatest
	}
	return offer{at, take, left}, open, due
}

// moves says whether a source that holds nothing may take over a lease under which nothing has come, of a clearly slower holder: what waits for
// a slow line costs nothing to move to another, except for what it carries now. The rates of sources whose line many share vary, hence the
// factor. A rate may be from better times: a lease moves once, and to no source that failed lately.
func (m *Manager) moves(s, holder *source, l *lease, left time.Duration) bool {
	n := int64(l.length)
	free := s.count == 0 && len(s.shunned) == 0 && s.line != holder.line && m.room(s, n)
	slower := float64(left) > 2*m.cfg.HedgeFactor*float64(s.needs(n))
	return free && slower && l.twin == 0 && !l.moved && !m.begun.has(l.piece) && !m.oldest(holder.line, l)
}

// oldest says whether no lease of a line was granted before l: it is what the line carries now.
func (m *Manager) oldest(line peers.ID, l *lease) bool {
	for _, i := range m.alarms {
		if o := m.sources[i]; o.line == line && m.leases[o.head].token < l.token {
			return false
		}
	}
	return true
}

// stake is what a second holder, or another second one, adds to the possible waste.
func (m *Manager) stake(l *lease, take bool) int64 {
	switch {
	case !take:
		return int64(l.length)
	case l.twin != 0:
		return int64(min(l.got, m.leases[l.twin].got))
	default:
		return 0
	}
}

// hedge looks for a lease to share with source i, for which nothing unleased is
// left.
func (m *Manager) hedge(i uint32) (uint32, Refusal) {
	var best offer
	next := never
	try := func(at uint32) standing {
		o, how, due := m.weigh(i, at)
		next = min(next, due)
		if how == open && o.left > best.left {
			best = o
		}
		return how
	}
	m.holders(func(s *source) {
		if next != never && m.onTime(s, m.sources[i], m.matters(next)) {
			return
		}
		// The last of a queue would wait longest; the first will be overdue first.
		// Those between are examined only while the outer ones are shared already,
		// or not for this source.
		probes := maxProbes
		for at := s.tail; at != 0 && probes > 0 && try(at) == closed; at = m.leases[at].prev {
			probes--
		}
		probes = maxProbes
		for at := s.head; at != 0 && probes > 0 && try(at) == closed; at = m.leases[at].next {
			probes--
		}
	})
	if best.at != 0 {
		return m.second(i, best), Refusal{}
	}
	if s := m.sources[i]; len(s.deferred) > 0 || s.left || m.spared(s) {
		return 0, m.spare(s, next)
	}
	none, leased := NoneHere, AllLeased
	if next == never && m.onDemand {
		none, leased = Unread, Unread
	}
	if next == never && (m.leased == 0 || !m.couldUse(m.sources[i])) {
		return 0, Refusal{Reason: none}
	}
	next = min(max(next, m.clock.at+retrySoonest), m.clock.at+retryLatest)
	return 0, Refusal{Reason: leased, Until: m.clock.time(m.retry(next))}
}

// matters is the time before which something due is asked about sooner than at next.
func (m *Manager) matters(next instant) instant {
	if next <= m.clock.at+retrySoonest {
		return 0
	}
	return min(next, m.clock.at+retryLatest)
}

// retry is when a source that would like to hedge at next may try, so that those that
// wait do not all come at once.
func (m *Manager) retry(next instant) instant {
	latest := next + instant(m.sleepers)*retryGap
	m.retryAt = min(max(m.retryAt+retryGap, next), latest)
	return m.retryAt
}

// holders calls visit for sources that hold leases: those whose deadline is near,
// which stand at the front of the heap, and when there are more, others in turn.
func (m *Manager) holders(visit func(*source)) {
	n := len(m.alarms)
	front := n
	if n > maxHolders {
		front = maxHolders / 2
		for range maxHolders / 2 {
			m.turn++
			visit(m.sources[m.alarms[front+m.turn%(n-front)]])
		}
	}
	for _, i := range m.alarms[:front] {
		visit(m.sources[i])
	}
}

// second gives source i the piece of another's lease.
func (m *Manager) second(i uint32, o offer) uint32 {
	l := m.leases[o.at]
	m.grants++
	if o.take {
		// The new lease goes in before the old one ends, so that the piece does
		// not become wanted in between.
		m.stats.Taken++
		if l.twin != 0 {
			m.revoke(o.at)
			return m.pair(i, l.twin)
		}
		at := m.pair(i, o.at)
		m.revoke(o.at)
		m.leases[at].hedge, m.leases[at].moved = false, true
		return at
	}
	m.stats.Hedged++
	m.stats.HedgedBytes += int64(l.length)
	return m.pair(i, o.at)
}

// pair makes a second lease beside the one at first.
func (m *Manager) pair(i, first uint32) uint32 {
	at := m.newLease(i, m.leases[first].piece, true)
	m.leases[at].twin, m.leases[first].twin = first, at
	m.hedged += int64(m.leases[first].length)
	return at
}

// rescue hedges the piece a reader waits for, if a slow source holds it and
// source i could do better.
func (m *Manager) rescue(i uint32) uint32 {
	for _, r := range m.readers {
		at := m.held[r.at]
		for ; at != 0; at = m.twinOf(r.at, at) {
			if o, how, _ := m.weigh(i, at); how == open {
				at = m.second(i, o)
				m.hurry(at)
				return at
			}
		}
	}
	return 0
}
