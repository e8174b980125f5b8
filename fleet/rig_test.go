package fleet

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// pieces is a share of that many pieces, all of them small.
type pieces int

func (n pieces) Pieces() int              { return int(n) }
func (n pieces) Bytes() int64             { return int64(n) * share.MinPiece }
func (n pieces) PieceLen(share.Piece) int { return share.MinPiece }

var (
	theShare = share.IDOf([]byte("the share"))
	another  = share.IDOf([]byte("another share"))
	theStart = time.Unix(1000, 0)
)

func setOf(n int, pieces ...share.Piece) *share.Set {
	s := share.NewSet(n)
	for _, p := range pieces {
		s.Add(p)
	}
	return s
}

// table is a coordinator, the peers that talk to it, and a clock.
type table struct {
	t       testing.TB
	c       *Coordinator
	n       int
	now     time.Time
	wake    time.Time
	epoch   Epoch
	allow   []peers.ID
	known   []peers.ID // members that were remembered
	events  []Event
	talkers map[Port]*talker
	watched map[Port]bool
}

// newTable is a coordinator of 8 pieces that allows the named nodes, and a talker for each.
func newTable(t testing.TB, names ...peers.ID) (*table, []*talker) {
	f := &table{t: t, n: 8, now: theStart, talkers: map[Port]*talker{}, watched: map[Port]bool{}, allow: names}
	f.begin()
	var ks []*talker
	for _, name := range names {
		ks = append(ks, f.talker(name))
	}
	return f, ks
}

// newPair is a fleet of two members, both of which fetch from x.
func newPair(t testing.TB) (f *table, a, b *talker) {
	f, k := newTable(t, "a", "b")
	for _, m := range k {
		m.join()
	}
	for _, m := range k {
		m.say(m.source("x"))
	}
	return f, k[0], k[1]
}

// begin starts another run of the coordinator.
func (f *table) begin() {
	f.epoch++
	f.watched = map[Port]bool{}
	f.c = NewCoordinator(Config{Share: theShare, Layout: pieces(f.n), Epoch: f.epoch, Self: "seat", Allow: f.allow, Members: f.known, Seed: 1}, f.now)
	f.next()
}

// next has the coordinator do what is due, and delivers what it sends.
func (f *table) next() {
	todo := f.c.Next(f.now)
	f.wake = todo.Wake
	f.events = append(f.events, todo.Events...)
	if todo.Keep {
		f.known = todo.Members
		f.c.Kept()
	}
	for _, x := range todo.Send {
		switch x.Message.(type) {
		case Watch:
			f.watched[x.To] = true
		case Unwatch:
			delete(f.watched, x.To)
		default:
			if r, ok := x.Message.(wire.SubscribeResult); !f.watched[x.To] && (!ok || r.Accepted) {
				f.t.Errorf("%+v is sent to a node that is not a member", x)
			}
			if k := f.talkers[x.To]; k != nil {
				k.got = append(k.got, x.Message)
			}
		}
	}
}

// run lets time pass.
func (f *table) run(d time.Duration) {
	end := f.now.Add(d)
	for rings := 0; !f.wake.IsZero() && !f.wake.After(end); rings++ {
		if rings > 10_000 {
			f.t.Fatalf("it wants to be called at %v, again and again", f.wake)
		}
		if f.wake.After(f.now) {
			f.now = f.wake
		}
		f.next()
	}
	f.now = end
}

func (f *table) status() Status { return f.c.Status(10, f.now) }

func (f *table) saw(id peers.ID, change Change) (n int) {
	for _, e := range f.events {
		if e.Peer == id && e.Change == change {
			n++
		}
	}
	return n
}

// A talker is a peer that says to a coordinator whatever the test wants, as a member or not.
type talker struct {
	f  *table
	by From
	at share.ID // the share that it names
	// got is what it was told since the last look.
	got []any
}

func (f *table) talker(name peers.ID) *talker {
	k := &talker{f: f, by: From{name, Port{Node: string(name), Name: fmt.Sprint("port ", len(f.talkers))}}, at: theShare}
	f.talkers[k.by.Reply] = k
	return k
}

// say sends messages and returns the answers.
func (k *talker) say(what ...any) []any {
	for _, x := range what {
		k.tell(x)
		k.f.next()
	}
	return k.hear(0)
}

func (k *talker) tell(what any) {
	c, by, now := k.f.c, k.by, k.f.now
	switch x := what.(type) {
	case wire.Subscribe:
		c.Subscribe(by, x.Share, x.Addrs, now)
	case wire.Unsubscribe:
		c.Unsubscribe(by, x.Share, now)
	case wire.HaveMap:
		c.HaveMap(by, x.Share, x.Pieces, x.Bits, now)
	case wire.Have:
		c.Have(by, x.Share, x.Pieces, now)
	case wire.PieceDone:
		c.PieceDone(by, x, now)
	case wire.SourceHas:
		c.SourceHas(by, x, now)
	case wire.SourceHasMore:
		c.SourceHasMore(by, x, now)
	case wire.SourceDown:
		c.SourceDown(by, x, now)
	case wire.LeaseRequest:
		c.LeaseRequest(by, x, now)
	case wire.LeaseProgress:
		c.LeaseProgress(by, x, now)
	case wire.LeaseReturned:
		c.LeaseReturned(by, x, now)
	default:
		c.Unknown(by)
	}
}

func (k *talker) hear(d time.Duration) []any {
	k.f.run(d)
	got := k.got
	k.got = nil
	return got
}

// join makes it a member that has the given pieces.
func (k *talker) join(pieces ...share.Piece) {
	k.f.t.Helper()
	for _, m := range k.say(wire.Subscribe{Share: k.at}, k.has(pieces...)) {
		if r, ok := m.(wire.SubscribeResult); ok && r.Accepted {
			return
		}
	}
	k.f.t.Fatalf("%s was not accepted", k.by.Peer)
}

// has is a have-map of the given pieces.
func (k *talker) has(pieces ...share.Piece) wire.HaveMap {
	return wire.HaveMap{Share: k.at, Pieces: k.f.n, Bits: setOf(k.f.n, pieces...).Bytes()}
}

func (k *talker) also(pieces ...share.Piece) wire.Have { return wire.Have{Share: k.at, Pieces: pieces} }

func (k *talker) done(l wire.Lease) wire.PieceDone {
	return wire.PieceDone{Share: k.at, Piece: l.Piece, Token: l.Token}
}

// source is a source with the given pieces; with all if none are given.
func (k *talker) source(name peers.ID, pieces ...share.Piece) wire.SourceHas {
	set := setOf(k.f.n, pieces...)
	if len(pieces) == 0 {
		set = share.FullSet(k.f.n)
	}
	return wire.SourceHas{Share: k.at, Source: name, Pieces: k.f.n, Bits: set.Bytes()}
}

func (k *talker) ask(source peers.ID, max int, keep ...share.Piece) wire.LeaseRequest {
	return wire.LeaseRequest{Share: k.at, Source: source, Max: uint32(max), Keep: keep}
}

func (k *talker) returned(source peers.ID, why wire.Code, leases ...wire.Lease) wire.LeaseReturned {
	m := wire.LeaseReturned{Share: k.at, Source: source}
	for _, l := range leases {
		m.Items = append(m.Items, wire.Returned{Piece: l.Piece, Token: l.Token, Reason: wire.Why(why)})
	}
	return m
}

// lacks is the report that it could not get pieces from another member; without pieces, that it got nothing.
func (k *talker) lacks(member peers.ID, pieces ...share.Piece) wire.SourceDown {
	return wire.SourceDown{Share: k.at, Source: member, Member: true, Pieces: pieces}
}

// granted returns the one answer to a request for leases.
func (k *talker) granted(m wire.LeaseRequest) (answer wire.LeaseResponse) {
	k.f.t.Helper()
	n := 0
	for _, x := range k.say(m) {
		if r, ok := x.(wire.LeaseResponse); ok {
			n++
			answer = r
		}
	}
	if n != 1 {
		k.f.t.Fatalf("%s got %d answers to a request", k.by.Peer, n)
	}
	return answer
}

// lease makes leases on a source.
func (k *talker) lease(source peers.ID, n int) []wire.Lease {
	k.f.t.Helper()
	ls := k.granted(k.ask(source, n)).Leases
	if len(ls) != n {
		k.f.t.Fatalf("%s was granted %+v, want %d", k.by.Peer, ls, n)
	}
	return ls
}

// leased returns the pieces that it gets for a source when it asks for all; it gives them back.
func (k *talker) leased(source peers.ID) []share.Piece {
	k.f.t.Helper()
	all := k.ask(source, k.f.n)
	all.Rate = 1e9
	ls := k.granted(all).Leases
	k.say(k.returned(source, 0, ls...))
	out := []share.Piece{}
	for _, l := range ls {
		out = append(out, l.Piece)
	}
	slices.Sort(out)
	return out
}

func (k *talker) mayFetch(want ...share.Piece) {
	k.f.t.Helper()
	if got := k.leased("x"); !slices.Equal(got, want) {
		k.f.t.Errorf("%s is leased %v, want %v", k.by.Peer, got, want)
	}
}

// woken reports whether it was told that it may ask again for a source.
func (k *talker) woken(source peers.ID, d time.Duration) bool {
	return slices.ContainsFunc(k.hear(d), func(m any) bool {
		return m == wire.LeasesAvailable{Share: theShare, Source: source}
	})
}

func (k *talker) declined(got []any) bool {
	if len(got) != 1 {
		return false
	}
	r, ok := got[0].(wire.SubscribeResult)
	return ok && !r.Accepted
}

// without returns those of pieces that are not among others.
func without(pieces []share.Piece, others ...share.Piece) []share.Piece {
	return slices.DeleteFunc(slices.Clone(pieces), func(p share.Piece) bool { return slices.Contains(others, p) })
}

func upTo(n int) (out []share.Piece) {
	for p := range share.Piece(n) {
		out = append(out, p)
	}
	return out
}

// desk is a member; the test plays its coordinator, lease manager and pools. Its lease
// manager leases nothing: it only remembers what it may lease.
type desk struct {
	t    testing.TB
	m    *Member
	now  time.Time
	wake time.Time

	may      map[peers.ID]*share.Set // what the lease manager may lease on each source; nil: nothing
	told     []any                   // what the coordinator was told, besides requests
	requests []wire.LeaseRequest
	did      []any // all else that was done, since the last look
	answers  bool  // the lease manager answers each question, with a refusal
	refusals []leasemgr.Refusal
}

var xPool = Port{Node: "here", Name: "pool x"}

// newDesk is a member that has joined, with a pool for the source "x", which has all of 8 pieces.
func newDesk(t testing.TB, change ...func(*MemberConfig)) *desk {
	cfg := MemberConfig{Share: theShare, Pieces: 8, Self: "here", Coordinator: "seat", Mine: share.NewSet(8)}
	for _, c := range change {
		c(&cfg)
	}
	d := &desk{t: t, m: NewMember(cfg, theStart), now: theStart, may: map[peers.ID]*share.Set{}, answers: true}
	d.next()
	if cfg.Coordinator == "seat" {
		d.do(func() { d.m.Linked(10*time.Millisecond, d.now) })
	}
	d.accept()
	d.m.SourceUp("x", xPool, d.now)
	d.do(func() { d.m.SourceHas("x", share.FullSet(8), d.now) })
	d.forget()
	return d
}

// do makes something happen, and all that follows from it.
func (d *desk) do(f func()) *desk {
	f()
	d.next()
	return d
}

func (d *desk) next() {
	for rounds := 0; ; rounds++ {
		todo := d.m.Next(d.now)
		d.wake = todo.Wake
		if len(todo.Do) == 0 {
			return
		}
		if rounds > 100 {
			d.t.Fatalf("there is always something to do: %+v", todo.Do)
		}
		for _, x := range todo.Do {
			d.act(x)
		}
	}
}

func (d *desk) act(what any) {
	switch x := what.(type) {
	case Allow:
		d.may[x.Source] = nil
		if x.Pieces != nil {
			d.may[x.Source] = x.Pieces.Clone()
		}
	case AllowMore:
		for _, p := range x.Pieces {
			d.may[x.Source].Add(p)
		}
	case Forbid:
		for _, p := range x.Pieces {
			d.may[x.Source].Remove(p)
		}
	case Tell:
		if r, ok := x.Message.(wire.LeaseRequest); ok {
			d.requests = append(d.requests, r)
		} else {
			d.told = append(d.told, x.Message)
		}
	case Question:
		d.did = append(d.did, x)
		if d.answers {
			_, no := d.m.Granted(nil, leasemgr.Refusal{Reason: leasemgr.NoneHere}, d.now)
			d.refusals = append(d.refusals, no)
		}
	default:
		d.did = append(d.did, x)
	}
}

// run lets time pass.
func (d *desk) run(t time.Duration) *desk {
	end := d.now.Add(t)
	for rings := 0; !d.wake.IsZero() && !d.wake.After(end); rings++ {
		if rings > 10_000 {
			d.t.Fatalf("it wants to be called at %v, again and again", d.wake)
		}
		if d.wake.After(d.now) {
			d.now = d.wake
		}
		d.next()
	}
	d.now = end
	return d
}

func (d *desk) forget() { d.told, d.requests, d.did, d.refusals = nil, nil, nil, nil }

// accept has the coordinator accept the subscription.
func (d *desk) accept() *desk {
	return d.do(func() {
		d.m.SubscribeResult(d.m.cfg.Coordinator, wire.SubscribeResult{Share: theShare, Accepted: true}, d.now)
	})
}

// lose makes the coordinator refuse the member for that long.
func (d *desk) lose(retry time.Duration) *desk {
	return d.do(func() {
		d.m.SubscribeResult(d.m.cfg.Coordinator, wire.SubscribeResult{Share: theShare, Reason: wire.Reason{Prose: "for a test"}, Retry: retry}, d.now)
	})
}

// rejoin makes it lose its coordinator, and find it again; meanwhile something happens.
func (d *desk) rejoin(meanwhile ...func()) *desk {
	d.lose(time.Second)
	for _, f := range meanwhile {
		d.do(f)
	}
	d.run(time.Second)
	return d.do(func() { d.m.Linked(10*time.Millisecond, d.now) }).accept()
}

// request makes the pool of x ask for leases.
func (d *desk) request(max int) *desk {
	return d.do(func() { d.m.Request(xPool, "x", max, 0, 0, d.now) })
}

// ask is request; it returns the one request to the coordinator that follows.
func (d *desk) ask(max int) wire.LeaseRequest {
	d.t.Helper()
	had := len(d.requests)
	d.request(max)
	if len(d.requests) != had+1 {
		d.t.Fatalf("asked the coordinator %d times, want once", len(d.requests)-had)
	}
	return d.requests[had]
}

// grant makes the coordinator answer a request for x.
func (d *desk) grant(token share.Token, pieces ...share.Piece) *desk {
	return d.respond(d.response(token, pieces...))
}

func (d *desk) response(token share.Token, pieces ...share.Piece) wire.LeaseResponse {
	m := wire.LeaseResponse{Share: theShare, Source: "x"}
	for i, p := range pieces {
		m.Leases = append(m.Leases, wire.Lease{Piece: p, Token: token + share.Token(i)})
	}
	return m
}

func (d *desk) respond(m wire.LeaseResponse) *desk {
	return d.do(func() { d.m.LeaseResponse(d.m.cfg.Coordinator, m, d.now) })
}

func (d *desk) verified(pieces ...share.Piece) *desk {
	for _, p := range pieces {
		d.do(func() { d.m.Verified(p, d.now) })
	}
	return d
}

// away makes x disconnected for a moment.
func (d *desk) away() {
	d.m.SourceHas("x", nil, d.now)
	d.m.SourceHas("x", share.FullSet(8), d.now)
}

// named makes the coordinator name other members.
func (d *desk) named(ids ...peers.ID) *desk {
	m := wire.FleetMembers{Share: theShare}
	for _, id := range ids {
		m.Members = append(m.Members, peers.Addr{ID: id})
	}
	return d.do(func() { d.m.FleetMembers(d.m.cfg.Coordinator, m, d.now) })
}

// leased grants 3, 5 and 6 on x, and has the lease manager, which answers nothing from then on, lease them in this order.
func (d *desk) leased(ls ...leasemgr.Lease) {
	d.ask(3)
	d.grant(100, 3, 5, 6)
	d.answers = false
	d.request(3)
	d.do(func() { d.m.Granted(ls, leasemgr.Refusal{}, d.now) })
}

// also makes another source appear, that says that it has this.
func (d *desk) also(id peers.ID, have *share.Set) *desk {
	d.do(func() { d.m.SourceUp(id, Port{Node: "here", Name: "pool " + string(id)}, d.now) })
	return d.do(func() { d.m.SourceHas(id, have, d.now) })
}

// holds fails the test unless these are the pieces that may be leased on x.
func (d *desk) holds(pieces ...share.Piece) {
	d.t.Helper()
	got := []share.Piece{}
	if d.may["x"] != nil {
		got = slices.AppendSeq(got, d.may["x"].All())
	}
	if !slices.Equal(got, pieces) {
		d.t.Errorf("may fetch %v, want %v", got, pieces)
	}
}

// hears fails the test unless the coordinator was told exactly this since the last look.
func (d *desk) hears(want ...any) {
	d.t.Helper()
	d.run(time.Second)
	if !reflect.DeepEqual(d.told, want) {
		d.t.Errorf("the coordinator was told %+v, want %+v", d.told, want)
	}
	d.told = nil
}

// does fails the test unless exactly this else was done since the last look.
func (d *desk) does(want ...any) {
	d.t.Helper()
	if !reflect.DeepEqual(d.did, want) {
		d.t.Errorf("did %+v, want %+v", d.did, want)
	}
	d.did = nil
}

func (d *desk) mine(pieces ...share.Piece) wire.HaveMap {
	return wire.HaveMap{Share: theShare, Pieces: 8, Bits: setOf(8, pieces...).Bytes()}
}
