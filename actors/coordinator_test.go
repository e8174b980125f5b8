package actors

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// A talker is a peer that says to a coordinator what the test wants, as a member
// or not.
type talker struct {
	*system.System
	f    *simFleet
	pid  *actor.PID
	seat *actor.PID
	got  []any
}

func (f *simFleet) talker(name peers.ID) *talker {
	k := &talker{System: system.NewSystem(f.w.Runtime(string(name)), name, f.w.Outbox(name), codec{}), f: f}
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

// say says things and returns what came back.
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

// join makes it a member that has some pieces.
func (k *talker) join(t testing.TB, pieces ...share.Piece) {
	t.Helper()
	set := share.NewSet(k.f.m.Layout().Pieces())
	for _, p := range pieces {
		set.Add(p)
	}
	for _, m := range k.say(Subscribe{Share: k.f.m.ID()}, HaveMap{k.f.m.ID(), set.Len(), set.Bytes()}) {
		if r, ok := m.(SubscribeResult); ok && r.Accepted {
			return
		}
	}
	t.Fatalf("%s was not accepted", k.Self())
}

// source says that it has a source with all pieces.
func (k *talker) source(name peers.ID) wire.SourceHas {
	all := share.FullSet(k.f.m.Layout().Pieces())
	return wire.SourceHas{Share: k.f.m.ID(), Source: name, Pieces: uint32(all.Len()), Bits: all.Bytes()}
}

func (k *talker) ask(source peers.ID, max int, keep ...uint32) wire.LeaseRequest {
	return wire.LeaseRequest{Share: k.f.m.ID(), Source: source, Max: uint32(max), Keep: keep}
}

// leases are those of the one LeaseResponse among messages.
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

// newTable is a coordinator of 8 pieces that allows the names, and whom they talk through.
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

func TestTwoSourcesOfAFleetGetDisjointPieces(t *testing.T) {
	f, k := newTable(t, "a", "b")
	a, b := k[0], k[1]
	a.join(t)
	b.join(t)
	_, one := leasesOf(t, a.say(a.source("x"), a.ask("x", 4)))
	_, two := leasesOf(t, b.say(b.source("x"), b.ask("x", 4)))
	seen := map[uint32]bool{}
	for _, l := range append(one, two...) {
		if seen[l.Piece] || l.Token>>40 != 1 || l.Expires <= 0 {
			t.Errorf("granted %+v", l)
		}
		seen[l.Piece] = true
	}
	if len(seen) != 8 {
		t.Errorf("granted %d of 8 pieces", len(seen))
	}
	r, more := leasesOf(t, b.say(b.source("y"), b.ask("y", 4)))
	if len(more) != 0 || r.Refused == "" {
		t.Errorf("granted %+v, refused %q", more, r.Refused)
	}
	// What comes back is told to who was refused.
	got := a.say(wire.LeaseReturned{Share: f.m.ID(), Source: "x", Items: []wire.Returned{{Piece: one[0].Piece, Token: one[0].Token, Reason: "gave it back"}}})
	if got = append(got, b.hear(0)...); len(got) == 0 {
		t.Error("nobody was told of a lease that came back")
	}
}

func TestAStaleTokenChangesNothing(t *testing.T) {
	f, k := newTable(t, "a", "b")
	a, b := k[0], k[1]
	a.join(t)
	b.join(t)
	_, ls := leasesOf(t, a.say(a.source("x"), a.ask("x", 1)))
	l := ls[0]
	before := f.status()
	for _, token := range []uint64{l.Token + 1, l.Token - 1, l.Token + 1<<40, 0} {
		a.say(wire.LeaseReturned{Share: f.m.ID(), Source: "x", Items: []wire.Returned{{Piece: l.Piece, Token: token}}},
			wire.LeaseProgress{Share: f.m.ID(), Source: "x", Items: []wire.Progress{{Piece: l.Piece, Token: token, Bytes: 1 << 20}}})
	}
	// The right token, from the wrong member or for another source.
	b.say(b.source("x"), wire.LeaseReturned{Share: f.m.ID(), Source: "x", Items: []wire.Returned{{Piece: l.Piece, Token: l.Token}}})
	a.say(wire.LeaseReturned{Share: f.m.ID(), Source: "y", Items: []wire.Returned{{Piece: l.Piece, Token: l.Token}}})
	if st := f.status(); st.Leased != before.Leased || st.Wanted != before.Wanted {
		t.Errorf("%+v became %+v", before, st)
	}
	a.say(wire.LeaseReturned{Share: f.m.ID(), Source: "x", Items: []wire.Returned{{Piece: l.Piece, Token: l.Token}}})
	if st := f.status(); st.Leased != before.Leased-1 {
		t.Errorf("a good return left %+v", st)
	}
}

func TestALeaseLivesOnProgressAndEndsWithoutIt(t *testing.T) {
	f, k := newTable(t, "a")
	a := k[0]
	a.join(t)
	_, ls := leasesOf(t, a.say(a.source("x"), a.ask("x", 1)))
	for range 4 {
		f.w.Run(10 * time.Second)
		a.say(wire.LeaseProgress{Share: f.m.ID(), Source: "x", Items: []wire.Progress{{Piece: ls[0].Piece, Token: ls[0].Token, Bytes: 1000}}})
	}
	if st := f.status(); st.Leased != 1 {
		t.Fatalf("with progress: %+v", st)
	}
	got := a.hear(20 * time.Second)
	if st := f.status(); st.Leased != 0 {
		t.Errorf("without progress: %+v", st)
	}
	told := false
	for _, m := range got {
		if r, ok := m.(wire.LeaseRevoked); ok && r.Source == "x" && r.Items[0] == (wire.Revoked{Piece: ls[0].Piece, Token: ls[0].Token}) {
			told = true
		}
	}
	if !told {
		t.Errorf("the holder heard %+v", got)
	}
}

func TestAPieceIsWantedAgainWhenNobodyHasItAnyMore(t *testing.T) {
	f, k := newTable(t, "a", "b")
	a, b := k[0], k[1]
	a.join(t, 0, 1, 2)
	b.join(t, 2, 3)
	if st := f.status(); st.Verified != 4 {
		t.Errorf("two members: %+v", st)
	}
	a.say(Have{f.m.ID(), []share.Piece{4}}, wire.PieceDone{Share: f.m.ID(), Piece: 5})
	if st := f.status(); st.Verified != 6 {
		t.Errorf("two more: %+v", st)
	}
	a.say(Unsubscribe{Share: f.m.ID()})
	if st := f.status(); st.Verified != 6 || !st.Members[0].Gone {
		t.Errorf("just after one left: %+v", st)
	}
	f.w.Run(11 * time.Second)
	if st := f.status(); st.Verified != 2 || len(st.Members) != 1 {
		t.Errorf("long after one left: %+v", st)
	}
	b.say(HaveMap{f.m.ID(), 8, []byte{1 << 7}}) // it lost what it had
	if st := f.status(); st.Verified != 1 {
		t.Errorf("after another map: %+v", st)
	}
}

func TestARunBeginsWithTheMembersOfTheLast(t *testing.T) {
	f, k := newTable(t, "a", "b")
	a, b := k[0], k[1]
	a.join(t)
	b.join(t)
	f.w.Run(time.Second)
	if fmt.Sprint(f.known) != "[a b]" {
		t.Fatalf("remembered: %v", f.known)
	}
	if err := f.seat.program.StopCoordinating(context.Background(), f.m.ID()); err != nil {
		t.Fatal(err)
	}
	f.w.Run(time.Second)
	f.coordinate(&simNode{id: "a"}, &simNode{id: "b"})
	a.join(t, 0)
	r, ls := leasesOf(t, a.say(a.source("x"), a.ask("x", 2, 5)))
	if len(ls) != 1 || ls[0].Piece != 5 || ls[0].Token>>40 != 2 || !strings.Contains(r.Refused, "1 member of before") {
		t.Errorf("granted %+v, refused %q; want what is kept and no more", ls, r.Refused)
	}
	if st := f.status(); st.Waiting == "" {
		t.Errorf("does not say that it waits: %+v", st)
	}
	b.join(t, 1)
	told := false
	for _, m := range a.hear(100 * time.Millisecond) {
		_, is := m.(wire.LeasesAvailable)
		told = told || is
	}
	if !told {
		t.Error("who was told to wait was not told that it may ask")
	}
	if _, ls := leasesOf(t, a.say(a.ask("x", 8))); len(ls) != 3 { // 4 for one that is not measured
		t.Errorf("granted %+v", ls)
	}
	// The next run waits for somebody who does not come back.
	if err := f.seat.program.StopCoordinating(context.Background(), f.m.ID()); err != nil {
		t.Fatal(err)
	}
	f.w.Run(time.Second)
	f.coordinate(&simNode{id: "a"}, &simNode{id: "b"})
	a.join(t)
	if _, ls := leasesOf(t, a.say(a.source("x"), a.ask("x", 2))); len(ls) != 0 {
		t.Errorf("granted %+v", ls)
	}
	a.hear(10 * time.Second)
	if _, ls := leasesOf(t, a.say(a.ask("x", 2))); len(ls) != 2 {
		t.Errorf("granted %+v when the wait was over", ls)
	}
	if fmt.Sprint(f.known) != "[a]" {
		t.Errorf("remembered: %v", f.known)
	}
}

// Who joins is no source outside the fleet any more: what was leased of it returns,
// though the member that leased it says nothing.
func TestASourceThatJoinsLosesItsLeases(t *testing.T) {
	f, k := newTable(t, "a", "b")
	a, b := k[0], k[1]
	a.join(t)
	if _, ls := leasesOf(t, a.say(a.source("b"), a.ask("b", 2))); len(ls) != 2 {
		t.Fatalf("granted %+v", ls)
	}
	b.join(t)
	if st := f.status(); st.Leased != 0 || st.Wanted != 8 {
		t.Errorf("after the source has joined: %+v", st)
	}
}

func TestWhoHasNotJoinedGetsNothing(t *testing.T) {
	f, k := newTable(t, "a", "b")
	a := k[0]
	stranger := f.talker("stranger")
	for _, m := range []any{stranger.ask("x", 5), stranger.source("x"), wire.PieceDone{Share: f.m.ID(), Piece: 1}, Have{f.m.ID(), []share.Piece{2}},
		wire.SourceDown{Share: f.m.ID(), Source: "x"}, HaveMap{f.m.ID(), 8, []byte{0xff}}, Unsubscribe{Share: f.m.ID()}, Goodbye{f.m.ID()}, ShareGone{f.m.ID(), ""}} {
		for _, answer := range stranger.say(m) {
			if r, ok := answer.(SubscribeResult); !ok || r.Accepted {
				t.Errorf("%T was answered with %+v", m, answer)
			}
		}
	}
	if st := f.status(); st.Verified+st.Leased+len(st.Members) != 0 || st.Refused < 9 {
		t.Errorf("after a stranger: %+v", st)
	}
	got := stranger.say(Subscribe{Share: f.m.ID()})
	if r, ok := got[0].(SubscribeResult); !ok || r.Accepted || !strings.Contains(r.Reason, "not allowed") || !strings.Contains(r.Reason, "stranger") || r.Retry == 0 {
		t.Errorf("a stranger was told %+v", got)
	}
	// One that is allowed must join, and join this.
	got = a.say(a.ask("x", 5))
	if r, ok := got[0].(SubscribeResult); !ok || r.Accepted {
		t.Errorf("was told %+v", got)
	}
	other := share.IDOf([]byte("another share"))
	if got = a.say(Subscribe{Share: other}); got[0].(SubscribeResult).Accepted {
		t.Errorf("joined another share: %+v", got)
	}
	a.join(t)
	a.say(wire.SourceHas{Share: other, Source: "x", Pieces: 8, Bits: []byte{0xff}}, wire.PieceDone{Share: other, Piece: 1})
	if st := f.status(); st.Verified != 0 || st.Members[0].Sources != 0 {
		t.Errorf("took what is said of another share: %+v", st)
	}
}

func TestAMemberThatSpeaksNonsenseIsPutOut(t *testing.T) {
	f, k := newTable(t, "a")
	a := k[0]
	for _, m := range []any{HaveMap{f.m.ID(), 9, []byte{0, 1}}, wire.SourceHas{Share: f.m.ID(), Source: "x", Pieces: 7, Bits: []byte{1}}} {
		a.join(t)
		a.say(m)
		if st := f.status(); len(st.Members) != 0 {
			t.Errorf("after %+v: %+v", m, st)
		}
	}
	a.join(t)
	a.say(Have{f.m.ID(), []share.Piece{8, 1999999}}, wire.PieceDone{Share: f.m.ID(), Piece: 8}, wire.SourceHasMore{Share: f.m.ID(), Source: "x", Pieces: []uint32{1}},
		a.source("x"), a.ask("x", 1, 8, 9, 1999999), wire.SourceHasMore{Share: f.m.ID(), Source: "x", Pieces: []uint32{8, 1999999}},
		wire.LeaseReturned{Share: f.m.ID(), Source: "x", Items: []wire.Returned{{Piece: 8, Token: 1}}}, wire.LeaseProgress{Share: f.m.ID(), Source: "x", Items: []wire.Progress{{Piece: 9, Token: 1, Bytes: 1}}},
		a.source(""), a.source("seat"))
	if st := f.status(); st.Verified != 0 || st.Leased != 1 {
		t.Errorf("pieces past the end: %+v", st)
	}
	for i := range 2 * 256 {
		a.say(a.source(peers.ID(fmt.Sprint("many", i))))
	}
	if st := f.status(); st.Members[0].Sources != 256 {
		t.Errorf("%d sources", st.Members[0].Sources)
	}
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

// A coordinator that panics is not begun again by itself: its tokens would not be new.
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

// lacks is that it could not get pieces from another member; of no pieces, anything.
func (k *talker) lacks(member peers.ID, pieces ...uint32) wire.SourceDown {
	return wire.SourceDown{Share: k.f.m.ID(), Source: member, Member: true, Pieces: pieces}
}

// leased are the pieces that it gets of source x when it asks for all; it gives them back.
func (k *talker) leased(t *testing.T) (out []uint32) {
	t.Helper()
	all := k.ask("x", 8)
	all.Rate = 1e9
	_, ls := leasesOf(t, k.say(all))
	back := wire.LeaseReturned{Share: k.f.m.ID(), Source: "x"}
	for _, l := range ls {
		out = append(out, l.Piece)
		back.Items = append(back.Items, wire.Returned{Piece: l.Piece, Token: l.Token})
	}
	k.say(back)
	slices.Sort(out)
	return out
}

func (k *talker) mayFetch(t *testing.T, want ...uint32) {
	t.Helper()
	if got := k.leased(t); !slices.Equal(got, want) {
		t.Errorf("%s is leased %v, want %v", k.Self(), got, want)
	}
}

// A member says that it has everything, and another could not get some of it there:
// that one may fetch it from outside, and no other.
func TestAClaimThatDoesNotHoldCountsForNobodyWhoSawIt(t *testing.T) {
	f, k := newTable(t, "a", "b", "c")
	a, b, c := k[0], k[1], k[2]
	a.join(t, 0, 1, 2, 3, 4, 5, 6, 7)
	b.join(t)
	c.join(t)
	b.say(b.source("x"))
	c.say(c.source("x"))
	b.mayFetch(t)
	b.say(b.lacks("a", 1, 3))
	b.mayFetch(t, 1, 3)
	c.mayFetch(t)
	if !f.saw("a", fleet.MemberDoubted) {
		t.Errorf("events: %v", f.events)
	}
	c.say(c.lacks("a", 3, 5))
	c.mayFetch(t, 3, 5)
	// What is fetched is there for all.
	_, ls := leasesOf(t, b.say(b.ask("x", 1)))
	b.say(wire.PieceDone{Share: f.m.ID(), Piece: ls[0].Piece, Token: ls[0].Token})
	if b.mayFetch(t, 4-ls[0].Piece); ls[0].Piece == 3 {
		c.mayFetch(t, 5)
	}
	// Claimed anew it counts no more than before.
	a.say(HaveMap{f.m.ID(), 8, []byte{0}})
	a.say(HaveMap{f.m.ID(), 8, []byte{0xff}})
	b.mayFetch(t, 4-ls[0].Piece)
	// It is there after all, elsewhere.
	b.say(b.lacks("a"))
	if got := b.leased(t); len(got) != 7 {
		t.Errorf("can get nothing from the only one, and is leased %v", got)
	}
	c.say(Have{f.m.ID(), []share.Piece{0, 1, 2, 3, 4, 5, 6, 7}})
	b.mayFetch(t)
	if st := f.status(); st.Verified != 8 || st.Wanted+st.Leased != 0 {
		t.Errorf("in the end: %+v", st)
	}
}

// However much somebody says that nobody has anything, what others have is leased to
// none but to itself; and what is leased to others stays theirs.
func TestWhoSaysThatNobodyHasAnythingCostsNobodyElse(t *testing.T) {
	f, k := newTable(t, "a", "b", "c")
	a, b, liar := k[0], k[1], k[2]
	a.join(t, 0, 1, 2, 3)
	b.join(t, 4)
	liar.join(t)
	for _, x := range k {
		x.say(x.source("x"))
	}
	_, ls := leasesOf(t, a.say(a.ask("x", 1)))
	for _, m := range []wire.SourceDown{liar.lacks("a"), liar.lacks("b"), liar.lacks("c"), liar.lacks(""), liar.lacks("nobody", 1), liar.lacks("", 0, 1, 2, 3, 4, 5, 6, 7, 8, 1999999)} {
		liar.say(m, m)
	}
	if p := ls[0].Piece; p < 5 || p > 7 {
		t.Fatalf("was leased piece %d", p)
	}
	b.mayFetch(t, slices.DeleteFunc([]uint32{5, 6, 7}, func(p uint32) bool { return p == ls[0].Piece })...)
	liar.mayFetch(t, slices.DeleteFunc([]uint32{0, 1, 2, 3, 4, 5, 6, 7}, func(p uint32) bool { return p == ls[0].Piece })...)
	a.say(wire.PieceDone{Share: f.m.ID(), Piece: ls[0].Piece, Token: ls[0].Token})
	if st := f.status(); st.Leased != 0 {
		t.Errorf("a piece that is done stays leased: %+v", st)
	}
	// What its sources come to have is for it alone, too.
	a.say(wire.SourceHas{Share: f.m.ID(), Source: "x", Pieces: 8, Bits: []byte{0}}, wire.SourceHasMore{Share: f.m.ID(), Source: "x", Pieces: []uint32{1, 4, 5, 6, 7}})
	a.mayFetch(t, slices.DeleteFunc([]uint32{5, 6, 7}, func(p uint32) bool { return p == ls[0].Piece })...)
	// What it said goes with it.
	liar.say(Unsubscribe{Share: f.m.ID()})
	if st := f.status(); st.Verified != 6 || st.Wanted != 2 {
		t.Errorf("when it has left: %+v", st)
	}
	// A member that leaves takes with it what only it had, and who doubted that may be granted it like others.
	liar.join(t)
	liar.say(liar.source("x"), liar.lacks("b"))
	b.say(Unsubscribe{Share: f.m.ID()})
	f.w.Run(11 * time.Second)
	if st := f.status(); st.Verified != 5 || st.Wanted != 3 {
		t.Errorf("when another has left: %+v", st)
	}
}

// A member is known by the reply of its Subscribe: what comes by another way, though
// from the same node, is not its word.
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
		case SubscribeResult:
			a.got = append(a.got, m)
		}
	}), system.OnPanicStop)
	a.ExportTo(f.seat.id, a.pid)
	id := f.m.ID()
	for _, m := range []any{HaveMap{id, 8, []byte{0xff}}, Have{id, []share.Piece{1}}, wire.PieceDone{Share: id, Piece: 2}, a.ask("x", 4), a.source("y"),
		wire.LeaseReturned{Share: id, Source: "x", Items: []wire.Returned{{Piece: ls[0].Piece, Token: ls[0].Token}}},
		wire.SourceDown{Share: id, Source: "x"}, Unsubscribe{Share: id}} {
		got := a.say(m)
		if len(got) != 1 || got[0].(SubscribeResult).Accepted {
			t.Errorf("%T was answered with %+v", m, got)
		}
	}
	if st := f.status(); st.Verified != 0 || st.Leased != 1 || len(st.Members) != 1 || st.Members[0].Sources != 1 || st.Members[0].Gone {
		t.Errorf("after all that: %+v", st)
	}
	a.pid = member
	a.mayFetch(t, slices.DeleteFunc([]uint32{0, 1, 2, 3, 4, 5, 6, 7}, func(p uint32) bool { return p == ls[0].Piece })...)
}
