package leasemgr

import (
	"math"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// instant is time as the manager counts it: nanoseconds since New. It never goes
// back, and goes on at the speed of the caller's clock when that was set back.
type instant int64

const never instant = math.MaxInt64

type clock struct {
	wall time.Time // what the caller said last
	at   instant
}

func (c *clock) tick(now time.Time) {
	if d := now.Sub(c.wall); d > 0 {
		c.at += instant(d)
	}
	c.wall = now
}

// time is an instant on the caller's clock.
func (c *clock) time(i instant) time.Time {
	if i == never {
		return time.Time{}
	}
	return c.wall.Add(time.Duration(i - c.at))
}

// A source's leases form a queue in the order in which they were granted, which
// is the order in which a pool asks for them. The deadline of a lease is the last
// sign of life, plus slack, plus the time its bytes and those queued ahead of it
// take at the source's rate:
//
//	life + min(slack + ahead/rate, LeaseDuration)
//
// Signs of life are the grant, progress on the lease itself, progress on or
// completion of the head of the queue, and that this node itself holds the source up. Progress on other leases is not one: a piece
// that is passed over reaches the head and then runs out of time. So the head has the
// earliest deadline of its queue, and progress on the head extends all deadlines.
// While a source is silent no deadline moves, so every lease ends.
//
// That a source says that it is busy is a sign of life while no other source has
// anything: see Busy. It moves deadlines, and not the time from which others may hedge.

// life is the last sign of life that counts for a lease.
func (s *source) life(l *lease) instant { return max(s.base, l.seen) }

// slack is how late a source may be.
func (m *Manager) slack(s *source) time.Duration {
	return m.cfg.Patience.Of(s.measured, s.trip)
}

// ahead is the number of bytes up to the end of a lease in its source's queue.
func (m *Manager) ahead(s *source, l *lease) int64 {
	head := &m.leases[s.head]
	if l == head {
		return int64(l.length - l.got)
	}
	return int64(l.start-head.start) - int64(head.got) + int64(l.length-l.got)
}

// takes is the time a measured source needs for n bytes. An unmeasured one is given
// Patience.First between two signs of life instead, whatever its queue.
func (s *source) takes(n int64) time.Duration {
	if !s.measured {
		return 0
	}
	return seconds(float64(n) / s.rate)
}

// seconds converts s to a Duration without overflow.
func seconds(s float64) time.Duration {
	if s > 1e9 {
		return 1e9 * time.Second
	}
	return time.Duration(s * float64(time.Second))
}

// deadline is when a lease ends: it is live while now < deadline.
func (m *Manager) deadline(s *source, l *lease) instant {
	return max(s.life(l), s.excused) + instant(min(m.slack(s)+s.takes(m.ahead(s, l)), m.cfg.LeaseDuration))
}

// Busy says that a source told us to ask again later. If no other source has anything,
// nobody could be asked in its place, and its leases last longer: to cancel requests that
// wait in its queue and to make them again would only cost it what it has begun to send.
func (m *Manager) Busy(id peers.ID, now time.Time) Todo {
	m.clock.tick(now)
	if i, ok := m.byID[id]; ok && m.fulls+m.parts == 1 { // if it has leases, it is that one
		m.sources[i].excused = m.clock.at
		m.setAlarm(i)
	}
	return m.settle()
}

// Excuse says that what a source would send is held up by this node itself. None of its leases is late, nor leased to
// another for that, meanwhile.
func (m *Manager) Excuse(id peers.ID, now time.Time) Todo {
	m.clock.tick(now)
	if i, ok := m.byID[id]; ok {
		m.sources[i].base = m.clock.at
		m.setAlarm(i)
	}
	return m.settle()
}

// due is when a lease is overdue: a quarter of its slack is used up.
func (m *Manager) due(s *source, l *lease) instant {
	return s.life(l) + instant(min(m.slack(s)/4+s.takes(m.ahead(s, l)), m.cfg.LeaseDuration))
}

// setAlarm puts a source at its place in the heap of deadlines. To be called
// whenever its head, its signs of life or its rate changed.
func (m *Manager) setAlarm(i uint32) {
	s := m.sources[i]
	if s.head == 0 {
		m.alarms.remove(m.sources, i)
		return
	}
	s.alarm = m.deadline(s, &m.leases[s.head])
	m.alarms.fix(m.sources, i)
}

// alarms is a binary heap of source indexes by source.alarm; source.slot is the
// place in it plus one, zero when not in it.
type alarms []uint32

func (h *alarms) fix(ss []*source, i uint32) {
	s := ss[i]
	if s.slot == 0 {
		*h = append(*h, i)
		s.slot = len(*h)
	}
	h.up(ss, s.slot-1)
	h.down(ss, s.slot-1)
}

func (h *alarms) remove(ss []*source, i uint32) {
	at := ss[i].slot - 1
	if at < 0 {
		return
	}
	last := len(*h) - 1
	h.swap(ss, at, last)
	*h = (*h)[:last]
	ss[i].slot = 0
	if at < last {
		h.up(ss, at)
		h.down(ss, at)
	}
}

func (h alarms) less(ss []*source, a, b int) bool {
	x, y := ss[h[a]], ss[h[b]]
	return x.alarm < y.alarm || x.alarm == y.alarm && h[a] < h[b]
}

func (h alarms) swap(ss []*source, a, b int) {
	h[a], h[b] = h[b], h[a]
	ss[h[a]].slot, ss[h[b]].slot = a+1, b+1
}

func (h alarms) up(ss []*source, at int) {
	for at > 0 && h.less(ss, at, (at-1)/2) {
		h.swap(ss, at, (at-1)/2)
		at = (at - 1) / 2
	}
}

func (h alarms) down(ss []*source, at int) {
	for {
		low := at
		for c := 2*at + 1; c <= 2*at+2 && c < len(h); c++ {
			if h.less(ss, c, low) {
				low = c
			}
		}
		if low == at {
			return
		}
		h.swap(ss, at, low)
		at = low
	}
}

// Wake is when Expire next has something to do; zero if never. It may lie in the
// past if the last call left something over.
func (m *Manager) Wake() time.Time {
	at := never
	if len(m.alarms) > 0 {
		at = m.sources[m.alarms[0]].alarm
	}
	if len(m.shunned) > 0 {
		at = min(at, m.shunned[0].until)
	}
	if len(m.offered) > 0 {
		at = min(at, m.offerAt)
	}
	if m.owed() {
		at = min(at, m.clock.at)
	}
	return m.clock.time(at)
}

// Expire ends what has run out by now: leases, and the times for which a source is
// not asked again for a piece.
func (m *Manager) Expire(now time.Time) Todo {
	m.clock.tick(now)
	for len(m.alarms) > 0 {
		i := m.alarms[0]
		s := m.sources[i]
		if s.alarm > m.clock.at {
			break
		}
		at := s.head
		m.todo.Expired = append(m.todo.Expired, m.public(at))
		p := m.leases[at].piece
		m.end(at, silent)
		m.shun(i, p)
	}
	m.unshun()
	if len(m.offered) > 0 && m.offerAt <= m.clock.at {
		m.offerMore()
	}
	return m.settle()
}
