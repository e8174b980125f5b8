package leasemgr

import (
	"cmp"
	"slices"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// Todo is what the caller has to do. Its zero value is nothing. The caller owns
// the slices.
type Todo struct {
	Revoked  []Lease    // ended through no fault of their source: cancel what is under way
	Expired  []Lease    // their deadline passed: cancel, and count it against the source
	Finished []Lease    // ended with their piece: nothing to cancel
	Urgent   []Lease    // a reader waits for their piece: fetch it before others
	Wake     []peers.ID // refused sources that may ask again, best first
	Done     bool       // the last piece of the plan has just been verified
}

// Why is the reason for granting nothing, or nothing more.
type Why uint8

// Reasons for a refusal, and what ends it.
const (
	UnknownSource Why = 1 + iota // never
	AllVerified                  // never; a wake-up if a piece turns out bad
	IsBanned                     // a wake-up
	IsPaused                     // a wake-up
	AtCapacity                   // a wake-up
	NoneHere                     // a wake-up
	AllLeased                    // a wake-up, and Until: a hedge may be possible then
	Spared                       // a wake-up, and Until
	Unread                       // a wake-up, and Until while anything is leased: that may fail, or need a hedge
)

func (w Why) String() string {
	return [...]string{"", "not a source of this transfer", "every piece is verified", "banned for sending wrong data",
		"the transfer is paused", "it holds as many leases as it may", "it has none of the pieces this node lacks",
		"every piece it has and this node lacks is leased", "it is busy with many peers, and others have the pieces that this node lacks",
		"nobody reads what this node lacks"}[w]
}

// Refusal is why a source got fewer leases than it asked for. Its zero value means that
// it got all.
type Refusal struct {
	Reason Why
	Fleet  string    // the fleet's reason, for people, if it is the fleet that grants no more
	Until  time.Time // when to ask again unless woken before; zero: wait for the wake-up
	Never  bool      // asking again makes no sense
}

// String is the refusal in words for people; empty if it is none.
func (r Refusal) String() string { return cmp.Or(r.Fleet, r.Reason.String()) }

// refuse notes that a source waits.
func (m *Manager) refuse(i uint32, no Refusal) Refusal {
	s := m.sources[i]
	s.waiting = no.Reason
	if !m.asleep.has(i) {
		m.asleep.set(i)
		m.sleepers++
	}
	return no
}

// roused notes that a source does not wait any more.
func (m *Manager) roused(i uint32) {
	m.sources[i].waiting = 0
	if m.asleep.has(i) {
		m.asleep.clear(i)
		m.sleepers--
	}
}

// rouse puts a waiting source on the list of those to wake.
func (m *Manager) rouse(i uint32) {
	if m.asleep.has(i) {
		m.roused(i)
		m.wake = append(m.wake, i)
	}
}

// rouseAll wakes the waiting sources for which which is true.
func (m *Manager) rouseAll(which func(*source) bool) {
	for i := range m.asleep.all() {
		if which(m.sources[i]) {
			m.rouse(i)
		}
	}
}

// freed wakes a source that waits for room, because it may have some.
func (m *Manager) freed(i uint32) {
	if s := m.sources[i]; s.waiting == AtCapacity && m.room(s, 1) {
		m.rouse(i)
	}
}

// couldUse reports whether the source has a piece that we lack.
func (m *Manager) couldUse(s *source) bool {
	for w := range m.plan {
		if m.plan[w]&^m.verified[w]&s.have.word(w, m.space) != 0 {
			return true
		}
	}
	return false
}

// owed reports whether there is something to tell that no Todo has told.
func (m *Manager) owed() bool {
	return len(m.todo.Revoked) > 0 || len(m.wake) > 0 || len(m.returned) > 0 && m.sleepers > 0
}

// settle ends a call: it wakes the sources that could use what came back, and hands
// over everything there is to do.
func (m *Manager) settle() Todo {
	if len(m.returned) > 0 {
		m.offer()
	}
	out := m.todo
	m.todo = Todo{}
	if len(m.wake) > 0 {
		m.orderWake()
		out.Wake = make([]peers.ID, 0, len(m.wake))
		for _, i := range m.wake {
			out.Wake = append(out.Wake, m.sources[i].id)
		}
		m.wake = m.wake[:0]
	}
	return out
}

// firstOffers is how many sources are told of a piece that came back, besides two for
// each such piece. Most of those that are told take it, so it would be a waste to tell more
// than a few; but if it stays wanted, twice as many more are told every offerEvery, until
// all have been.
const (
	firstOffers = 8
	offerEvery  = instant(50 * time.Millisecond)
)

// offer wakes sources that wait and could use a piece that came back.
func (m *Manager) offer() {
	if m.sleepers == 0 {
		m.returned = m.returned[:0]
		return
	}
	m.offers = firstOffers + 2*len(m.returned)
	m.offered = append(m.offered, m.returned...)
	m.returned = m.returned[:0]
	m.offerMore()
}

// offerMore wakes the next of those that wait.
func (m *Manager) offerMore() {
	m.offered = slices.DeleteFunc(m.offered, func(p uint32) bool { return !m.pool.wanted.has(p) })
	before := len(m.wake)
	all := m.rouseSome(m.offers, m.wantsOffered)
	m.offers += len(m.wake) - before
	m.offerAt = m.clock.at + offerEvery
	if all {
		m.offered = m.offered[:0]
	}
}

// rouseSome wakes up to n of the waiting sources for which which is true, going on
// where it stopped, and reports whether it has seen all that wait.
func (m *Manager) rouseSome(n int, which func(*source) bool) bool {
	from := m.offerTurn
	for _, second := range [...]bool{false, true} {
		for i := range m.asleep.all() {
			switch {
			case second != (i < from) || !which(m.sources[i]):
			case n <= 0:
				m.offerTurn = i
				return false
			default:
				m.rouse(i)
				n--
			}
		}
	}
	return true
}

// wantsOffered says whether a waiting source could use a piece that came back.
func (m *Manager) wantsOffered(s *source) bool {
	switch s.waiting {
	case AllVerified:
		return true
	case NoneHere, AllLeased, Spared, Unread:
		for _, p := range m.offered {
			if m.may(s, p) {
				return true
			}
		}
	}
	return false
}

// orderWake puts the best sources first: the source woken first asks first. Now and
// then one drawn by lot goes before them, so that no source stays unknown because
// others are better.
func (m *Manager) orderWake() {
	if len(m.wake) == 1 {
		return
	}
	worth := func(i uint32) float64 {
		s := m.sources[i]
		return s.score * max(s.rate, 1)
	}
	slices.SortStableFunc(m.wake, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(worth(b), worth(a)), cmp.Compare(a, b))
	})
	m.draws++
	x := mix(m.seed ^ mix(m.draws))
	if float64(x>>11)/(1<<53) < m.cfg.Explore {
		at := int(mix(x) % uint64(len(m.wake)))
		i := m.wake[at]
		copy(m.wake[1:at+1], m.wake[:at])
		m.wake[0] = i
	}
}
