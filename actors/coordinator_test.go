package actors

import (
	"context"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// A talker is a peer that says to a coordinator whatever the test wants, as a member
// or not.
type talker struct {
	*system.System
	f    *simFleet
	pid  *actor.PID
	seat *actor.PID
	got  []any
}

func (f *simFleet) talker(name peers.ID) *talker {
	k := &talker{System: system.NewSystem(f.w.Runtime(string(name)), name, f.w.Outbox(name), wire.Codec{}), f: f}
	k.seat = k.Remote(f.seat.id, coordinatorName(f.m.ID()))
	k.pid = k.Spawn(nil, "talker", leaseBox, receive(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case say:
			ctx.Request(k.seat, m.what)
		case actor.SystemMessage, actor.AutoReceiveMessage, *actor.DeadLetterResponse:
		default:
			k.got = append(k.got, m)
		}
	}), system.OnPanicStop)
	f.seat.sw.nodes[name] = &simNode{sw: f.swarm, id: name, in: map[peers.ID]int64{}, out: map[peers.ID]int64{}}
	f.t.Cleanup(func() { k.Close(context.Background()) })
	k.ExportTo(f.seat.id, k.pid)
	return k
}

type say struct{ what any }

// say sends messages and returns the answers.
func (k *talker) say(what ...any) []any {
	for _, m := range what {
		k.Send(k.pid, say{m})
	}
	return k.hear(100 * time.Millisecond)
}

func (k *talker) hear(d time.Duration) []any {
	k.f.w.Run(d)
	got := k.got
	k.got = nil
	return got
}

// join makes it a member that has the given pieces.
func (k *talker) join(t testing.TB, pieces ...share.Piece) {
	t.Helper()
	set := share.NewSet(k.f.m.Layout().Pieces())
	for _, p := range pieces {
		set.Add(p)
	}
	for _, m := range k.say(wire.Subscribe{Share: k.f.m.ID()}, wire.HaveMap{Share: k.f.m.ID(), Pieces: set.Len(), Bits: set.Bytes()}) {
		if r, ok := m.(wire.SubscribeResult); ok && r.Accepted {
			return
		}
	}
	t.Fatalf("%s was not accepted", k.Self())
}

// source reports a source with all pieces.
func (k *talker) source(name peers.ID) wire.SourceHas {
	all := share.FullSet(k.f.m.Layout().Pieces())
	return wire.SourceHas{Share: k.f.m.ID(), Source: name, Pieces: all.Len(), Bits: all.Bytes()}
}

func (k *talker) ask(source peers.ID, max int, keep ...share.Piece) wire.LeaseRequest {
	return wire.LeaseRequest{Share: k.f.m.ID(), Source: source, Max: uint32(max), Keep: keep}
}

// leasesOf returns those of the one LeaseResponse among messages.
func leasesOf(t testing.TB, got []any) (wire.LeaseResponse, []wire.Lease) {
	t.Helper()
	for _, m := range got {
		if r, ok := m.(wire.LeaseResponse); ok {
			return r, r.Leases
		}
	}
	t.Fatalf("no leases among %+v", got)
	return wire.LeaseResponse{}, nil
}

// newTable is a coordinator of 8 pieces that allows the named nodes, and a talker for each.
func newTable(t *testing.T, names ...peers.ID) (*simFleet, []*talker) {
	f := newFleet(t, 1, 8<<20, 0, 1e6)
	var allow []*simNode
	var ks []*talker
	for _, n := range names {
		allow = append(allow, &simNode{id: n})
		ks = append(ks, f.talker(n))
	}
	f.coordinate(allow...)
	return f, ks
}

func TestAShareIsCoordinatedOnce(t *testing.T) {
	f, _ := newTable(t, "a")
	err := f.seat.program.Coordinate(context.Background(), CoordinateShare{Config: fleet.Config{Share: f.m.ID(), Layout: f.m.Layout(), Epoch: 9}})
	if err == nil || f.status().Epoch != 1 {
		t.Errorf("a second time: %v", err)
	}
	if st, err := f.seat.program.Fleet(context.Background(), share.IDOf([]byte("none")), 1); err != nil || st.Waiting == "" {
		t.Errorf("another share: %+v %v", st, err)
	}
}

// A coordinator that panics is not restarted by itself: its tokens would not be new.
func TestACoordinatorThatPanicsEnds(t *testing.T) {
	f, k := newTable(t, "a")
	f.w.Log = nil
	k[0].join(t)
	f.seat.program.s.Send(actor.NewPID(string(f.seat.id), "node/coordinator-1"), system.TaskPanic{Reason: "a bug"})
	f.w.Run(time.Second)
	if last := f.events[len(f.events)-1]; last.Change != fleet.CoordinatorFailed {
		t.Errorf("events: %v", f.events)
	}
	f.coordinate(&simNode{id: "a"})
	k[0].join(t)
	if st := f.status(); st.Epoch != 2 {
		t.Errorf("another run: %+v", st)
	}
}

// A member goes while one of its sources waits for what another of its sources holds: the coordinator goes on.
func TestACoordinatorOutlivesAMemberWithTwoSources(t *testing.T) {
	f, k := newTable(t, "a", "b")
	a, b := k[0], k[1]
	a.join(t)
	b.join(t)
	all := a.ask("x", f.m.Layout().Pieces())
	all.Rate = 1e9
	if _, ls := leasesOf(t, a.say(a.source("x"), all)); len(ls) != f.m.Layout().Pieces() {
		t.Fatalf("granted %+v", ls)
	}
	if r, _ := leasesOf(t, a.say(a.source("y"), a.ask("y", 1))); r.Refused != wire.Why(wire.CodeAllLeased) {
		t.Fatalf("granted %+v", r)
	}
	a.say(wire.Unsubscribe{Share: f.m.ID()})
	if last := f.events[len(f.events)-1]; last.Change != fleet.MemberLeft {
		t.Errorf("events: %v", f.events)
	}
	if _, ls := leasesOf(t, b.say(b.source("x"), b.ask("x", 1))); len(ls) != 1 {
		t.Errorf("granted %+v", ls)
	}
}

// A member is identified by the reply address of its Subscribe: a message from elsewhere,
// even from the same node, is not from the member.
func TestAMemberIsKnownByTheReplyOfItsSubscribe(t *testing.T) {
	f, k := newTable(t, "a")
	a := k[0]
	a.join(t)
	_, ls := leasesOf(t, a.say(a.source("x"), a.ask("x", 1)))
	member := a.pid
	a.pid = a.Spawn(nil, "another", leaseBox, receive(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case say:
			ctx.Request(a.seat, m.what)
		case wire.SubscribeResult:
			a.got = append(a.got, m)
		}
	}), system.OnPanicStop)
	a.ExportTo(f.seat.id, a.pid)
	id := f.m.ID()
	for _, m := range []any{wire.HaveMap{Share: id, Pieces: 8, Bits: []byte{0xff}}, wire.Have{Share: id, Pieces: []share.Piece{1}}, wire.PieceDone{Share: id, Piece: 2}, a.ask("x", 4), a.source("y"),
		wire.LeaseReturned{Share: id, Source: "x", Items: []wire.Returned{{Piece: ls[0].Piece, Token: ls[0].Token}}},
		wire.LeaseProgress{Share: id, Source: "x"}, wire.SourceHasMore{Share: id, Source: "x"}, wire.SourceDown{Share: id, Source: "x"}, wire.Unsubscribe{Share: id}} {
		got := a.say(m)
		if len(got) != 1 || got[0].(wire.SubscribeResult).Accepted {
			t.Errorf("%T was answered with %+v", m, got)
		}
	}
	if st := f.status(); st.Verified != 0 || st.Leased != 1 || len(st.Members) != 1 || st.Members[0].Sources != 1 || st.Members[0].Gone {
		t.Errorf("after all that: %+v", st)
	}
	a.pid = member
	if _, more := leasesOf(t, a.say(a.ask("x", 1))); len(more) != 1 {
		t.Errorf("the member itself is leased %+v", more)
	}
}
