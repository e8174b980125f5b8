package fleet

import (
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
	"pgregory.net/rapid"
)

// memberMachine makes anything happen to a member, in any order, and watches what it
// asks for and reports, and what it lets its lease manager fetch.
type memberMachine struct {
	*desk
	r       *rapid.T
	names   []peers.ID
	mine    *share.Set // verified here
	seated  bool
	asked   map[peers.ID][]*asked       // of this seat, not answered
	tokens  map[share.Token]share.Piece // of all seats: what an old one says has no effect
	next    share.Token
	knows   map[share.Piece]bool // what the coordinator knows to be here
	up      map[peers.ID]bool    // sources that have a pool
	member  map[peers.ID]bool    // ... that turned out to be members
	granted []share.Piece        // by the answer that is being handled
}

// asked is a request of the member. An answer to a void one has no effect.
type asked struct {
	m    wire.LeaseRequest
	void bool
}

const machinePieces = 12

func newMemberMachine(r *rapid.T, t testing.TB) *memberMachine {
	m := &memberMachine{r: r, names: []peers.ID{"x", "y", "z"}, mine: share.NewSet(machinePieces), next: 1 << 40,
		tokens: map[share.Token]share.Piece{}, up: map[peers.ID]bool{}, member: map[peers.ID]bool{}}
	cfg := MemberConfig{Share: theShare, Pieces: machinePieces, Self: "here", Coordinator: "seat", Mine: share.NewSet(machinePieces),
		Alone: rapid.SampledFrom([]time.Duration{0, 0, time.Second, 30 * time.Second}).Draw(r, "alone")}
	m.desk = &desk{t: t, m: NewMember(cfg, theStart), now: theStart, may: map[peers.ID]*share.Set{}}
	return m
}

func (m *memberMachine) name() peers.ID { return rapid.SampledFrom(m.names).Draw(m.r, "source") }

func (m *memberMachine) piece() share.Piece {
	return share.Piece(rapid.IntRange(0, machinePieces-1).Draw(m.r, "piece"))
}

func (m *memberMachine) set() *share.Set {
	s := share.NewSet(machinePieces)
	for _, p := range rapid.SliceOfN(rapid.IntRange(0, machinePieces-1), 0, machinePieces).Draw(m.r, "pieces") {
		s.Add(share.Piece(p))
	}
	return s
}

// happens makes something happen, and checks everything that the member wants done.
func (m *memberMachine) happens(f func()) {
	f()
	passed := 0
	for rounds := 0; ; rounds++ {
		todo := m.m.Next(m.now)
		m.wake = todo.Wake
		if len(todo.Do) == 0 {
			break
		}
		if rounds > 20 {
			m.r.Fatalf("there is always something to do: %+v", todo.Do)
		}
		for _, x := range todo.Do {
			switch x.(type) {
			case Forward, Question:
				passed++
			}
			m.check(x)
		}
	}
	if passed > 1 {
		m.r.Fatalf("a message is passed on %d times", passed)
	}
	if !m.wake.IsZero() && !m.wake.After(m.now) {
		m.r.Fatalf("it wants to be called at %v, which was", m.wake)
	}
	m.granted = nil
	for id, list := range m.asked {
		live := slices.DeleteFunc(slices.Clone(list), func(a *asked) bool { return a.void })
		if len(live) > 1 {
			m.r.Fatalf("%s is asked for %d times at once", id, len(live))
		}
	}
}

// check checks one thing that is to be done.
func (m *memberMachine) check(what any) {
	was := map[peers.ID]*share.Set{}
	for id, s := range m.may {
		if s != nil {
			was[id] = s.Clone()
		}
	}
	switch x := what.(type) {
	case Tell:
		if !m.seated {
			m.r.Fatalf("tells %+v to nobody", x.Message)
		}
		m.hear(x.Message)
	case Dial, Join, Unseat:
		m.seated, m.asked, m.knows = false, map[peers.ID][]*asked{}, nil
	case Allow:
		more := x.Pieces
		if more != nil && was[x.Source] != nil {
			more = more.Minus(was[x.Source])
		}
		if more != nil && more.Count() > 0 && !m.m.alone && !m.member[x.Source] {
			m.r.Fatalf("lets %v be fetched from %s without a lease", slices.Collect(more.All()), x.Source)
		}
		m.act(x)
	case AllowMore:
		for _, p := range x.Pieces {
			if !slices.Contains(m.granted, p) {
				m.r.Fatalf("lets %d be fetched from %s without a lease", p, x.Source)
			}
		}
		m.act(x)
	case Forbid:
		m.act(x)
	}
}

// hear does what the coordinator would.
func (m *memberMachine) hear(what any) {
	valid := func(p share.Piece, token share.Token) {
		if of, known := m.tokens[token]; !known || of != p {
			m.r.Fatalf("%+v: a token that it was not given", what)
		}
	}
	switch x := what.(type) {
	case wire.HaveMap:
		set, err := share.ParseSet(machinePieces, x.Bits)
		if err != nil || !set.Equal(m.mine) {
			m.r.Fatalf("says that it has %v, %v", set, err)
		}
		m.knows = map[share.Piece]bool{}
		for p := range set.All() {
			m.knows[p] = true
		}
	case wire.Have:
		for _, p := range x.Pieces {
			m.knows[p] = true
		}
	case wire.PieceDone:
		valid(x.Piece, x.Token)
		m.knows[x.Piece] = true
	case wire.LeaseRequest:
		m.asked[x.Source] = append(m.asked[x.Source], &asked{m: x})
	case wire.SourceDown:
		if !x.Member {
			for _, a := range m.asked[x.Source] {
				a.void = true
			}
		}
	case wire.LeaseProgress:
		for _, i := range x.Items {
			valid(i.Piece, i.Token)
		}
	case wire.LeaseReturned:
		for _, i := range x.Items {
			valid(i.Piece, i.Token)
		}
	}
}

func (m *memberMachine) step() {
	id := m.name()
	steps := []func(){
		m.join, m.join, m.lostSeat,
		func() { m.answer(id) }, func() { m.answer(id) }, func() { m.answer(id) },
		func() { m.manager(id) }, func() { m.manager(id) },
		func() { m.source(id) }, func() { m.source(id) },
		func() {
			p := m.piece()
			m.mine.Add(p)
			m.happens(func() { m.m.Verified(p, m.now) })
		},
		func() {
			f := wire.FleetMembers{Share: theShare, Members: []peers.Addr{{ID: id}}}
			m.member[id] = m.member[id] || m.m.seat.state >= subscribing
			m.happens(func() { m.m.FleetMembers("seat", f, m.now) })
		},
		func() {
			run := leasemgr.Run{First: m.piece(), N: 1, Priority: rapid.SampledFrom([]leasemgr.Priority{leasemgr.Skip, leasemgr.Normal}).Draw(m.r, "priority")}
			m.happens(func() { m.m.SetPriorities([]leasemgr.Run{run}, m.now) })
		},
		func() {
			m.happens(func() { m.m.PlanQuery(xPool, m.now.Add(-time.Hour), m.now) })
			m.happens(func() { m.m.Planned(m.now) })
		},
		m.passes, m.passes,
	}
	rapid.SampledFrom(steps).Draw(m.r, "step")()
}

func (m *memberMachine) join() {
	m.happens(func() { m.m.Linked(time.Millisecond, m.now) })
	if m.m.seat.state == subscribing {
		m.seated, m.asked, m.knows = true, map[peers.ID][]*asked{}, nil
		m.happens(func() {
			m.m.SubscribeResult("seat", wire.SubscribeResult{Share: theShare, Accepted: true}, m.now)
		})
		if m.knows == nil {
			m.r.Fatal("it did not say what it has")
		}
	}
}

func (m *memberMachine) lostSeat() {
	m.happens(rapid.SampledFrom([]func(){
		func() { m.m.Unheard(m.now) },
		func() { m.m.Lost("for a test", m.now) },
		func() {
			m.m.SubscribeResult("seat", wire.SubscribeResult{Share: theShare, Retry: time.Second}, m.now)
		},
	}).Draw(m.r, "how"))
}

// answer has the coordinator answer the oldest request for a source, or take a lease back.
func (m *memberMachine) answer(id peers.ID) {
	list := m.asked[id]
	if len(list) == 0 {
		return
	}
	a := list[0]
	m.asked[id] = list[1:]
	answer := wire.LeaseResponse{Share: theShare, Source: id}
	grant := slices.DeleteFunc(slices.Clone(a.m.Keep), func(share.Piece) bool { return rapid.Bool().Draw(m.r, "not kept") })
	for range rapid.IntRange(0, int(a.m.Max)).Draw(m.r, "granted") {
		if p := m.piece(); !slices.Contains(grant, p) {
			grant = append(grant, p)
		}
	}
	for _, p := range grant {
		m.next++
		m.tokens[m.next] = p
		answer.Leases = append(answer.Leases, wire.Lease{Piece: p, Token: m.next})
		if !a.void {
			m.granted = append(m.granted, p)
		}
	}
	if len(grant) < int(a.m.Max) {
		answer.Refused = wire.Why(wire.CodeNothing)
	}
	m.happens(func() { m.m.LeaseResponse("seat", answer, m.now) })
	if len(answer.Leases) > 0 && rapid.Bool().Draw(m.r, "taken back") {
		l := answer.Leases[0]
		m.happens(func() {
			m.m.LeaseRevoked("seat", wire.LeaseRevoked{Share: theShare, Source: id, Items: []wire.Revoked{{Piece: l.Piece, Token: l.Token}}}, m.now)
		})
		if m.seated && m.fetchable(id, l.Piece) {
			m.r.Fatalf("%d was taken back, and may be fetched from %s", l.Piece, id)
		}
	}
}

// manager makes the node's lease manager answer a pool, and report the progress of a lease.
func (m *memberMachine) manager(id peers.ID) {
	if !m.up[id] {
		return
	}
	most := rapid.IntRange(1, 3).Draw(m.r, "max")
	m.happens(func() { m.m.Request(Port{Node: "here", Name: string(id)}, id, most, 1e6, 0, m.now) })
	var leases []leasemgr.Lease
	if may := m.may[id]; may != nil {
		for p := range may.All() {
			if len(leases) < most && !m.mine.Has(p) && rapid.Bool().Draw(m.r, "leased") {
				leases = append(leases, leasemgr.Lease{Piece: p, Token: share.Token(rapid.IntRange(1, 3).Draw(m.r, "token"))})
			}
		}
	}
	why := rapid.SampledFrom([]leasemgr.Why{0, leasemgr.NoneHere, leasemgr.AllLeased, leasemgr.AtCapacity}).Draw(m.r, "refused")
	m.happens(func() { m.m.Granted(leases, leasemgr.Refusal{Reason: why}, m.now) })
	for _, l := range leases {
		if rapid.Bool().Draw(m.r, "progress") {
			m.happens(func() { m.m.Progress(id, l.Piece, l.Token, 100, m.now) })
		}
		if rapid.Bool().Draw(m.r, "ends") {
			why := rapid.SampledFrom([]leasemgr.Reason{leasemgr.NotFound, leasemgr.GaveBack, leasemgr.BadData}).Draw(m.r, "why")
			if why == leasemgr.NotFound {
				m.may[id].Remove(l.Piece) // the manager knows that, too
			}
			m.happens(func() { m.m.Returned(id, l.Piece, l.Token, why, m.now) })
			if m.fetchable(id, l.Piece) {
				m.r.Fatalf("the lease of %d came back, and it may be fetched from %s", l.Piece, id)
			}
		}
	}
}

// fetchable reports whether a piece may be fetched from a source that needs leases.
func (m *memberMachine) fetchable(id peers.ID, p share.Piece) bool {
	return m.may[id] != nil && m.may[id].Has(p) && !m.mine.Has(p) && !m.m.alone && !m.member[id]
}

func (m *memberMachine) source(id peers.ID) {
	pool := Port{Node: "here", Name: string(id)}
	switch op := rapid.IntRange(0, 6).Draw(m.r, "op"); {
	case op == 0 || !m.up[id]:
		m.up[id] = true
		m.happens(func() { m.m.SourceUp(id, pool, m.now) })
		m.may[id] = nil
	case op == 1:
		m.up[id] = false
		m.happens(func() { m.m.SourceDown(id, m.now) })
		m.may[id] = nil
	case op == 2:
		m.up[id] = false
		m.happens(func() { m.m.Ended(pool, m.now) })
		m.may[id] = nil
	case op == 3:
		m.happens(func() { m.m.SourceHas(id, nil, m.now) })
	case op == 4:
		more := slices.Collect(m.set().All())
		m.happens(func() { m.m.SourceHasMore(id, more, m.now) })
	default:
		has := m.set()
		m.happens(func() { m.m.SourceHas(id, has.Clone(), m.now) })
		if may := m.may[id]; may != nil && may.Minus(has).Count() > 0 && !m.member[id] {
			m.r.Fatalf("%s has %v, and may be asked for %v", id, has, may)
		}
	}
}

// passes lets time pass.
func (m *memberMachine) passes() {
	end := m.now.Add(rapid.SampledFrom([]time.Duration{0, 50 * time.Millisecond, 300 * time.Millisecond, 3 * time.Second, 20 * time.Second}).Draw(m.r, "time"))
	for !m.wake.IsZero() && !m.wake.After(end) {
		m.now = m.wake
		m.happens(func() {})
	}
	m.now = end
}

func TestWhateverHappensToAMember(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		m := newMemberMachine(r, t)
		m.happens(func() {})
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			m.step()
		}
		// In the end it finds its coordinator, which then knows what is here.
		for range 20 {
			if !m.seated {
				m.join()
			}
			for _, id := range m.names {
				for len(m.asked[id]) > 0 {
					m.asked[id] = m.asked[id][1:]
					m.happens(func() {
						m.m.LeaseResponse("seat", wire.LeaseResponse{Share: theShare, Source: id, Refused: wire.Why(wire.CodeNothing)}, m.now)
					})
				}
			}
			m.now = m.now.Add(200 * time.Millisecond)
			m.happens(func() {})
		}
		if !m.seated {
			r.Fatalf("it does not join: %+v", m.m.seat)
		}
		for p := range m.mine.All() {
			if !m.knows[p] {
				r.Fatalf("the coordinator does not know that %d is here", p)
			}
		}
		if _, line, _ := m.m.Planned(m.now); line == "" {
			r.Fatal("it does not say how it stands")
		}
	})
}
