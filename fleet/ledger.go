package fleet

import (
	"slices"
	"time"

	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// ledger is what a Coordinator knows of its members: what they say they have, what
// their sources have, and what is leased to them.
type ledger struct {
	cfg     Config
	now     time.Time
	m       *leasemgr.Manager
	allowed map[peers.ID]bool
	members map[peers.ID]*member
	order   []*member // in the order of arrival
	outlets map[peers.ID]*outlet
	outside map[peers.ID]int // outlets of each source
	claims  claims
	todo    Todo
}

// member is a node of the fleet.
type member struct {
	peer    peers.ID
	port    Port // zero: gone
	addrs   []string
	have    *share.Set
	ready   bool
	until   time.Time // gone: when it is forgotten
	outlets []*outlet // in the order of arrival
	doubts  *doubts   // nil: none
	doubted bool      // by another member
}

func (mb *member) gone() bool { return mb.port == Port{} }

// outlet is a source outside the fleet of one member.
type outlet struct {
	of     *member
	source peers.ID
	id     peers.ID   // for the manager
	has    *share.Set // what the member says that it has
	parked bool       // was refused before the run began to lease
	idle   bool       // got no lease when it asked last
	got    time.Time  // when bytes of it were last reported
	since  time.Time  // the same, or when something was last leased to it
}

// outletID is the name of an outlet for the manager.
func outletID(member, source peers.ID) peers.ID { return member + "/" + source }

// send has something sent, unless it is for nobody: a member that goes is not told what becomes of its leases.
func (l *ledger) send(to Port, m any) {
	if to != (Port{}) {
		l.todo.Send = append(l.todo.Send, Send{to, m})
	}
}

func (l *ledger) notify(peer peers.ID, change Change) {
	here := 0
	for _, mb := range l.order {
		if !mb.gone() {
			here++
		}
	}
	l.todo.Events = append(l.todo.Events, Event{peer, change, here})
}

// ---- sources and leases ----

// open returns an outlet, a new one if there is none. Nil: the source is inside the
// fleet, or the member has too many.
func (l *ledger) open(mb *member, source peers.ID) *outlet {
	id := outletID(mb.peer, source)
	if o := l.outlets[id]; o != nil {
		return o
	}
	if inside := l.members[source]; inside != nil && !inside.gone() || source == "" || len(mb.outlets) >= maxOutlets {
		return nil
	}
	o := &outlet{of: mb, source: source, id: id, has: share.NewSet(mb.have.Len())}
	l.outlets[id] = o
	l.outside[source]++
	mb.outlets = append(mb.outlets, o)
	l.m.AddSource(id, l.now)
	l.m.Shares(id, source)
	return o
}

// close ends an outlet: its leases return.
func (l *ledger) close(o *outlet) {
	delete(l.outlets, o.id)
	if l.outside[o.source]--; l.outside[o.source] == 0 {
		delete(l.outside, o.source)
	}
	o.of.outlets = slices.DeleteFunc(o.of.outlets, func(x *outlet) bool { return x == o })
	l.do(l.m.RemoveSource(o.id, l.now))
}

// do tells the members what the manager decided.
func (l *ledger) do(todo leasemgr.Todo) {
	l.revoke(todo.Expired)
	l.revoke(todo.Revoked)
	for _, id := range todo.Wake {
		o := l.outlets[id]
		l.send(o.of.port, wire.LeasesAvailable{Share: l.cfg.Share, Source: o.source})
	}
}

// revoke tells the holders of some leases that these have ended, neighbours together.
func (l *ledger) revoke(leases []leasemgr.Lease) {
	for len(leases) > 0 {
		n := 1
		for n < len(leases) && n < wire.MaxLeases && leases[n].Source == leases[0].Source {
			n++
		}
		o := l.outlets[leases[0].Source]
		m := wire.LeaseRevoked{Share: l.cfg.Share, Source: o.source}
		for _, x := range leases[:n] {
			m.Items = append(m.Items, wire.Revoked{Piece: x.Piece, Token: x.Token})
		}
		l.send(o.of.port, m)
		leases = leases[n:]
	}
}

// ---- who has what ----

// gain notes that a member has a piece, under which lease if that is known.
func (l *ledger) gain(mb *member, p share.Piece, tokens ...share.Token) {
	if mb.have.Add(p) {
		l.claim(mb, p, true, tokens...)
	}
}

func (l *ledger) claim(mb *member, p share.Piece, has bool, tokens ...share.Token) {
	l.weigh(p, func() { l.claims.count(mb, p, has) }, tokens...)
}

// weigh changes who has a piece, or who is doubted. A piece that a member has is leased
// to nobody, except to members that doubt all that say they have it.
func (l *ledger) weigh(p share.Piece, change func(), tokens ...share.Token) {
	was := l.claims.fetchers(p)
	change()
	l.claims.judge(p)
	is := l.claims.fetchers(p)
	if l.claims.copies[p] > 0 && is == nil {
		l.do(l.m.Verified(p, l.now, tokens...))
	}
	for _, mb := range l.order {
		if before, now := was == nil || was[mb], is == nil || is[mb]; before != now {
			l.lend(mb, p, now)
		}
	}
	if l.claims.copies[p] == 0 || is != nil {
		l.do(l.m.Unverified(p, l.now))
	}
}

// lend lets a member fetch a piece from those of its sources that have it, or ends that.
func (l *ledger) lend(mb *member, p share.Piece, may bool) {
	for _, o := range mb.outlets {
		switch one := []share.Piece{p}; {
		case !o.has.Has(p):
		case may:
			l.do(l.m.Have(o.id, one, l.now))
		default:
			l.do(l.m.HaveNot(o.id, one, l.now))
		}
	}
}

// ---- pieces that members could not get from each other ----

// missing records what a member could not get from one other, or from any.
func (l *ledger) missing(mb *member, m wire.SourceDown) {
	if len(m.Pieces) == 0 {
		l.doubtAll(mb, m.Source)
		return
	}
	for _, p := range m.Pieces {
		if m.Source != "" {
			l.doubt(mb, m.Source, p)
			continue
		}
		for _, o := range l.order {
			if o.have.Has(p) { // what it gets later could not be missed yet
				l.doubt(mb, o.peer, p)
			}
		}
	}
}

// mayDoubt reports whether a member's report on a peer can matter.
func (l *ledger) mayDoubt(mb *member, about peers.ID) bool {
	return about != mb.peer && l.allowed[about]
}

// doubt notes that a member did not get a piece from another. The doubt holds for as
// long as it is a member, whatever the other says later.
func (l *ledger) doubt(mb *member, about peers.ID, p share.Piece) {
	if !l.mayDoubt(mb, about) {
		return
	}
	d := l.claims.of(mb)
	if d.about(about, p) {
		return
	}
	if d.some[about] == nil {
		d.some[about] = share.NewSet(mb.have.Len())
	}
	if d.some[about].Add(p) {
		l.distrust(d, about, p)
	}
}

// doubtAll notes that a member can get nothing from another.
func (l *ledger) doubtAll(mb *member, about peers.ID) {
	if !l.mayDoubt(mb, about) {
		return
	}
	d := l.claims.of(mb)
	if d.all[about] {
		return
	}
	if of := l.members[about]; of != nil {
		for p := range of.have.All() {
			if !d.about(about, p) {
				l.distrust(d, about, p)
			}
		}
	}
	d.all[about] = true
}

func (l *ledger) distrust(d *doubts, about peers.ID, p share.Piece) {
	of := l.members[about]
	if of == nil || !of.have.Has(p) {
		return
	}
	if !of.doubted {
		of.doubted = true
		l.notify(about, MemberDoubted)
	}
	l.weigh(p, func() { d.trusted[p]-- })
}

// believe ends the doubts of a member.
func (l *ledger) believe(mb *member) {
	d := mb.doubts
	if d == nil {
		return
	}
	for p := range d.free.Clone().All() {
		l.weigh(p, func() { d.trusted[p]++ })
	}
	l.claims.end(mb)
}
