package depots

import (
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/simnet"
	"github.com/piecelease/fetcher/wire"
)

// model says which account may rely on which share until when, in the simplest way: from what
// accounts were told, and the time. Histories compare the whole depot with it.
type model struct {
	now    time.Time // by the depot's clock
	leases map[mHeld]*mLease
	names  map[mName]*mNamed
	lapsed map[*simnet.Content]time.Time // the end of the last lease that expired
	quota  map[string]int64
}

type mHeld struct {
	account string
	c       *simnet.Content
}

type mLease struct {
	until time.Time
	own   bool // asked for itself, not through a name
}

type mName struct{ account, name string }

type mNamed struct{ share, next *simnet.Content }

func newModel() *model {
	return &model{leases: map[mHeld]*mLease{}, names: map[mName]*mNamed{}, lapsed: map[*simnet.Content]time.Time{}, quota: map[string]int64{}}
}

// tick lets time pass: a lease expires exactly at its second.
func (m *model) tick(now time.Time) {
	if now.After(m.now) {
		m.now = now
	}
	for h, l := range m.leases {
		if !m.now.Before(l.until) {
			if l.until.After(m.lapsed[h.c]) {
				m.lapsed[h.c] = l.until
			}
			m.end(h)
		}
	}
}

// step is told of a step forward of the depot's time. What was left of a lease is left, at most depot.Respite, and
// what was left of a grace.
func (m *model) step(from, to time.Time) {
	for _, l := range m.leases {
		l.until = stepped(l.until, from, to)
	}
	for c, end := range m.lapsed {
		m.lapsed[c] = stepped(end, from, to)
	}
}

// stepped is where a step moves an end.
func stepped(end, from, to time.Time) time.Time {
	left := min(end.Sub(from.Truncate(time.Second)), depot.Respite)
	if at := to.Truncate(time.Second).Add(left); left > -depot.Grace && at.After(end) {
		return at
	}
	return end
}

func (m *model) end(h mHeld) {
	delete(m.leases, h)
	for k, n := range m.names {
		if k.account != h.account {
			continue
		}
		if n.share == h.c {
			n.share = nil
		}
		if n.next == h.c {
			n.next = nil
		}
		if *n == (mNamed{}) {
			delete(m.names, k)
		}
	}
}

func (m *model) used(account string) (n int64) {
	for h := range m.leases {
		if h.account == account {
			n += depot.Bytes(h.c.Manifest)
		}
	}
	return n
}

// held reports whether any account holds a share, and relied whether any may rely on it, which
// includes the grace.
func (m *model) held(c *simnet.Content) bool {
	for h := range m.leases {
		if h.c == c {
			return true
		}
	}
	return false
}

func (m *model) relied(c *simnet.Content) bool {
	end, ok := m.lapsed[c]
	return m.held(c) || ok && m.now.Before(end.Add(depot.Grace))
}

const longest = 31 * 24 * time.Hour

// hold returns the expected answer to a Hold at a time: 0 and the end of the lease, or the reason
// for a refusal. The model changes accordingly.
func (m *model) hold(account string, c *simnet.Content, q wire.Hold) (time.Time, depot.Reason) {
	k := mName{account, q.Name}
	n := m.names[k]
	if n == nil {
		n = &mNamed{}
	}
	if q.Name != "" && (idOf(n.share) != q.Expect || idOf(n.next) != q.Supersedes && n.next != c) {
		return time.Time{}, depot.NameMoved
	}
	h := mHeld{account, c}
	l := m.leases[h]
	until, why := m.until(l, q.Until)
	if why != 0 {
		return until, why
	}
	if l == nil && m.used(account)+q.Bytes > m.quota[account] {
		return time.Time{}, depot.OverQuota
	}
	if l == nil {
		l = &mLease{}
		m.leases[h] = l
	}
	l.until, l.own = until, l.own || q.Name == ""
	if q.Name != "" {
		old := n.next
		m.names[k], n.next = n, c
		if old != c {
			m.drop(mHeld{account, old})
		}
		if n.share == c {
			n.next = nil
		}
	}
	return l.until, 0
}

// until is when a lease ends that is asked for until then; l is nil if there is none.
// Time stands still while the clock is not trusted, so that it may be beyond that.
func (m *model) until(l *mLease, asked int64) (time.Time, depot.Reason) {
	until := time.Unix(asked, 0)
	if most := m.now.Add(longest); until.After(most) {
		until = most
	}
	if !m.now.Before(until) {
		return until, depot.BadTime
	}
	if l != nil && l.until.After(until) {
		until = l.until
	}
	return until, 0
}

// drop ends a lease that neither the account itself nor a name needs.
func (m *model) drop(h mHeld) {
	for k, n := range m.names {
		if k.account == h.account && (n.share == h.c || n.next == h.c) {
			return
		}
	}
	if l := m.leases[h]; l != nil && !l.own {
		m.end(h)
	}
}

// arrived moves the names that waited for a share that is now STABLE.
func (m *model) arrived(c *simnet.Content) {
	for k, n := range m.names {
		if n.next == c {
			old := n.share
			n.share, n.next = c, nil
			if old != nil {
				m.drop(mHeld{k.account, old})
			}
		}
	}
}

// revives reports whether a lease that expired by a clock that was ahead is live if the clock is set
// to a time. The depot may have swept it by then or not; what it promised stays on its disk.
func (m *model) revives(at time.Time) bool {
	for _, end := range m.lapsed {
		if at.Before(end) {
			return true
		}
	}
	return false
}

// awaited reports whether a name will point to a share when that is complete.
func (m *model) awaited(c *simnet.Content) bool {
	for _, n := range m.names {
		if n.next == c {
			return true
		}
	}
	return false
}

// gone forgets a share that nobody relied on.
func (m *model) gone(c *simnet.Content) { delete(m.lapsed, c) }
