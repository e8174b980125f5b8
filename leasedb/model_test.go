package leasedb

import (
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
)

// model says who may rely on which share until when, in the simplest way: nothing is counted,
// and nothing is deferred. Histories compare the database with it.
type model struct {
	now      int64
	quota    map[depot.Account]int64
	longest  int64
	shares   map[share.ID]*mShare
	names    map[mName]*mNamed
	complete bool
	gc       bool
	frozen   bool
	disk     *disk // the leases beside the data, which both see
}

type mShare struct {
	state         depot.State
	bytes, lapsed int64
	measured      bool
	struckAt      int64
	struck, lost  uint8 // bits of pieces
	leases        map[depot.Account]*mLease
}

type mLease struct {
	bytes, expires int64
	own            bool
}

type mName struct {
	account depot.Account
	name    string
}

type mNamed struct{ share, next share.ID }

func (m *model) get(id share.ID) *mShare {
	if s := m.shares[id]; s != nil {
		return s
	}
	return &mShare{leases: map[depot.Account]*mLease{}}
}

// tick lets time pass: a lease is gone at the second of its end.
func (m *model) tick(now int64) {
	m.now = now
	for id, s := range m.shares {
		for a, l := range s.leases {
			if l.expires <= now {
				s.lapsed = max(s.lapsed, l.expires)
				m.end(id, a)
			}
		}
	}
}

func (m *model) end(id share.ID, a depot.Account) {
	delete(m.shares[id].leases, a)
	for k, n := range m.names {
		if k.account != a {
			continue
		}
		if n.share == id {
			n.share = share.ID{}
		}
		if n.next == id {
			n.next = share.ID{}
		}
		if *n == (mNamed{}) {
			delete(m.names, k)
		}
	}
}

func (m *model) used(a depot.Account) (n int64) {
	for _, s := range m.shares {
		if l := s.leases[a]; l != nil {
			n += l.bytes
		}
	}
	return n
}

func (m *model) grant(a depot.Ask, own bool) (depot.Granted, depot.Reason) {
	s, until := m.get(a.Share), min(a.Until.Unix(), m.now+m.longest)
	l := s.leases[a.Account]
	switch {
	case s.state == depot.Going:
		return depot.Granted{}, depot.Leaving
	case until <= m.now:
		return depot.Granted{}, depot.BadTime
	case l != nil && a.Bytes != l.bytes, l == nil && s.measured && a.Bytes != s.bytes:
		return depot.Granted{}, depot.WrongBytes
	}
	had := m.now
	if l == nil {
		coming := int64(0)
		for _, o := range m.shares {
			if o.state == depot.Coming {
				coming += o.bytes
			}
		}
		fresh := max(0, a.Bytes-s.bytes)
		if m.used(a.Account)+a.Bytes > m.quota[a.Account] {
			return depot.Granted{}, depot.OverQuota
		}
		if fresh > 0 && coming+fresh > a.Space.Free-a.Space.Reserve {
			return depot.Granted{}, depot.NoSpace
		}
		if s.state == depot.None {
			s.state = depot.Coming
			m.shares[a.Share] = s
		}
		l = &mLease{bytes: a.Bytes}
		s.leases[a.Account], s.bytes = l, max(s.bytes, a.Bytes)
	} else {
		had = l.expires
	}
	l.expires, l.own = max(until, l.expires), l.own || own
	return depot.Granted{State: s.state, Bytes: a.Bytes, Expires: time.Unix(l.expires, 0), Added: time.Duration(l.expires-had) * time.Second}, 0
}

func (m *model) renew(a depot.Ask) (depot.Granted, depot.Reason) {
	l := m.get(a.Share).leases[a.Account]
	if l == nil {
		return depot.Granted{}, depot.NoLease
	}
	a.Bytes = l.bytes
	return m.grant(a, false)
}

func (m *model) release(a depot.Ask) (depot.Granted, depot.Reason) {
	s := m.get(a.Share)
	l := s.leases[a.Account]
	if l == nil {
		return depot.Granted{}, depot.NoLease
	}
	m.end(a.Share, a.Account)
	return depot.Granted{State: s.state, Bytes: l.bytes}, 0
}

func (m *model) replace(r depot.Replace) (depot.Granted, depot.Reason) {
	k := mName{r.Account, r.Name}
	n := m.names[k]
	if n == nil {
		n = &mNamed{}
	}
	if n.share != r.Expect || (n.next != r.Supersedes && n.next != r.Share) {
		return depot.Granted{}, depot.NameMoved
	}
	g, why := m.grant(r.Ask, false)
	if why != 0 {
		return g, why
	}
	old := n.next
	m.names[k], n.next = n, r.Share
	m.drop(old, r.Account)
	if n.next == n.share {
		n.next = share.ID{}
	} else if m.shares[r.Share].state == depot.Stable {
		m.arrive(r.Share)
	}
	return g, 0
}

// drop ends a lease that neither the account itself nor a name needs.
func (m *model) drop(id share.ID, a depot.Account) {
	l := m.get(id).leases[a]
	for k, n := range m.names {
		if k.account == a && (n.share == id || n.next == id) {
			return
		}
	}
	if l != nil && !l.own {
		m.end(id, a)
	}
}

// arrive moves the names that waited for a share which is now stable.
func (m *model) arrive(id share.ID) {
	for k, n := range m.names {
		if n.next == id {
			old := n.share
			n.share, n.next = id, share.ID{}
			m.drop(old, k.account)
		}
	}
}

// collectable reports whether nobody relies on a share any more.
func (m *model) collectable(id share.ID) bool {
	s := m.get(id)
	kept := max(s.lapsed, m.disk.last(id)) + 24*3600
	return s.state != depot.None && s.state != depot.Going && len(s.leases) == 0 && kept <= m.now
}
