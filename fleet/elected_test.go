package fleet

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

func seatOf(term uint64, id peers.ID) Seat { return Seat{term, peers.Addr{ID: id}} }

// elected is a member of a fleet that elects its coordinator; it follows "seat" in term 5.
func elected(t *testing.T) *desk {
	d := &desk{t: t, m: NewMember(MemberConfig{Share: theShare, Pieces: 8, Self: "here", Secret: theSecret, Mine: share.NewSet(8)}, theStart), now: theStart,
		may: map[peers.ID]*share.Set{}, answers: true}
	d.next()
	if !d.wake.IsZero() || len(d.did) > 0 {
		t.Fatalf("without a coordinator it wakes at %v and did %v", d.wake, d.did)
	}
	d.do(func() { d.m.Follow(seatOf(5, "seat"), "", d.now) })
	d.do(func() { d.m.Linked(10*time.Millisecond, d.now) })
	d.does(Dial{}, Join{d.m.term()})
	d.accept()
	d.m.SourceUp("x", xPool, d.now)
	d.do(func() { d.m.SourceHas("x", share.FullSet(8), d.now) })
	d.forget()
	return d
}

func TestAMemberShowsThatItKnowsTheSecretWhenItJoins(t *testing.T) {
	m := elected(t).m.term()
	if m.Share != theShare || m.Term != 5 || m.Coordinator.ID != "seat" || !theSecret.Proves(m.Proof, theShare, "here", "seat") {
		t.Errorf("%+v", m)
	}
}

func TestAMemberTurnsToTheCoordinatorThatWasElectedAndKeepsWhatItFetches(t *testing.T) {
	d := elected(t)
	d.ask(2)
	d.grant(1, 3, 4)
	d.forget()
	d.do(func() { d.m.Follow(seatOf(6, "next"), "", d.now) })
	d.does(Unseat{}, Dial{}) // at once
	if told := d.told; len(told) != 1 || told[0].(wire.FleetTerm).Term != 6 || told[0].(wire.FleetTerm).Coordinator.ID != "next" {
		t.Errorf("the old coordinator was told %+v", told)
	}
	d.holds(3, 4)
	d.do(func() { d.m.Linked(10*time.Millisecond, d.now) }).accept()
	if n := len(d.requests); n != 1 || !reflect.DeepEqual(d.requests[0].Keep, []share.Piece{3, 4}) {
		t.Errorf("asked for %+v", d.requests)
	}
}

func TestAMemberFollowsTheSameCoordinatorOnlyOnce(t *testing.T) {
	d := elected(t)
	d.do(func() { d.m.Follow(seatOf(5, "seat"), "", d.now) })
	d.do(func() { d.m.Follow(Seat{Term: 9}, "nobody that can be found", d.now) })
	d.does()
	// Another term of the same node is a different run.
	d.do(func() { d.m.Follow(seatOf(6, "seat"), "", d.now) })
	d.does(Unseat{}, Dial{})
}

func TestTheCoordinatorIsNoSourceOutsideTheFleet(t *testing.T) {
	d := elected(t)
	d.do(func() { d.m.Follow(seatOf(6, "x"), "", d.now) })
	d.holds(upTo(8)...)
}

func TestAMemberSaysWhyThereIsNoCoordinator(t *testing.T) {
	d := &desk{t: t, m: NewMember(MemberConfig{Share: theShare, Pieces: 8, Self: "here", Secret: theSecret, Mine: share.NewSet(8)}, theStart), now: theStart}
	d.do(func() { d.m.Follow(Seat{}, "the store of the fleet does not answer", d.now) })
	if line, stuck := d.m.status(); stuck != "coordinator: not joined: the store of the fleet does not answer" || line != "coordinator: not joined for 0 s: the store of the fleet does not answer" {
		t.Errorf("%q, %q", line, stuck)
	}
}

// electing is a coordinator that was elected in term 5.
func electing(t *testing.T, names ...peers.ID) (*table, []*talker) {
	f := &table{t: t, n: 8, now: theStart, talkers: map[Port]*talker{}, watched: map[Port]bool{}}
	f.c = NewCoordinator(Config{Share: theShare, Layout: pieces(f.n), Epoch: 5, Self: "seat", Secret: theSecret, Members: []peers.ID{"a"}, Seed: 1}, f.now)
	f.next()
	var ks []*talker
	for _, name := range names {
		ks = append(ks, f.talker(name))
	}
	return f, ks
}

// shows has a peer show a term, with a proof of a secret.
func (k *talker) shows(term uint64, s Secret) []Report {
	k.f.c.Term(k.by, wire.FleetTerm{Share: theShare, Term: term, Proof: s.Proof(theShare, k.by.Peer, "seat")}, k.f.now)
	todo := k.f.c.Next(k.f.now)
	return todo.Reports
}

func TestWhoKnowsTheSecretIsAMember(t *testing.T) {
	_, ks := electing(t, "a", "b")
	a, b := ks[0], ks[1]
	if got := b.say(wire.Subscribe{Share: theShare}); !b.declined(got) {
		t.Errorf("without a proof: %+v", got)
	}
	b.shows(5, "another secret of a fleet")
	if got := b.say(wire.Subscribe{Share: theShare}); !b.declined(got) {
		t.Errorf("with a wrong proof: %+v", got)
	}
	b.shows(5, theSecret)
	b.join()
	if got := b.granted(b.ask("x", 1)); got.Refused == (wire.Reason{}) {
		t.Error("it did not wait for the member of the run before")
	}
	a.shows(5, theSecret)
	a.join()
	a.say(a.source("x"))
	a.lease("x", 1)
}

func TestACoordinatorReportsTheTermsThatMembersGoBy(t *testing.T) {
	_, ks := electing(t, "a")
	a := ks[0]
	if got := a.shows(5, theSecret); len(got) != 0 {
		t.Errorf("its own term: %+v", got)
	}
	if got := a.shows(7, theSecret); len(got) != 1 || got[0].From != "a" || got[0].Term.Term != 7 {
		t.Errorf("a later one: %+v", got)
	}
	if got := a.shows(7, "another secret of a fleet"); len(got) != 0 {
		t.Errorf("of a stranger: %+v", got)
	}
}

func TestMembersHearWhoHasTheOfficeNow(t *testing.T) {
	f, ks := electing(t, "a", "b")
	a, b := ks[0], ks[1]
	for _, k := range ks {
		k.shows(5, theSecret)
		k.join()
	}
	b.say(wire.Unsubscribe{Share: theShare})
	a.hear(0)
	f.c.Deposed(seatOf(6, "next"), f.now)
	f.next()
	if got := a.hear(0); len(got) != 1 || got[0].(wire.FleetTerm).Term != 6 || !theSecret.Proves(got[0].(wire.FleetTerm).Proof, theShare, "seat", "a") {
		t.Errorf("%+v", got)
	}
	if got := b.hear(0); len(got) != 0 {
		t.Errorf("one that left is told %+v", got)
	}
}

func TestTheListOfThoseAllowedMayChange(t *testing.T) {
	f, ks := newTable(t, "a", "b")
	a, b := ks[0], ks[1]
	for _, k := range ks {
		k.join()
		k.say(k.source("x"))
	}
	a.lease("x", 4)
	c := f.talker("c")
	if got := c.say(wire.Subscribe{Share: theShare}); !c.declined(got) {
		t.Errorf("c is told %+v", got)
	}
	f.c.Allow([]peers.ID{"b", "c"}, f.now)
	f.next()
	if f.saw("a", MemberDisallowed) != 1 || f.saw("a", MemberLost) != 0 {
		t.Error("it is not said that a was removed")
	}
	c.join()
	if got := b.leased("x"); len(got) != 8 {
		t.Errorf("b is leased %v of what a had", got)
	}
	if got := a.say(wire.Subscribe{Share: theShare}); !a.declined(got[len(got)-1:]) {
		t.Errorf("a is told %+v", got)
	}
}

func TestNobodyIsWaitedForWhoMayNotComeBack(t *testing.T) {
	f, ks := newTable(t, "a", "b")
	ks[0].join()
	ks[1].join()
	f.begin()
	ks[1].join()
	ks[1].say(ks[1].source("x"))
	if got := ks[1].granted(ks[1].ask("x", 1)); got.Refused == (wire.Reason{}) {
		t.Error("a was not waited for")
	}
	f.c.Allow([]peers.ID{"b"}, f.now)
	f.next()
	ks[1].lease("x", 1)
}

// The next coordinator expects the pieces in the order in which they are named to it: while
// it waits for one that is fetched last, it would take all of them back.
func TestWhatIsKeptIsToldInTheOrderInWhichItIsFetched(t *testing.T) {
	d := newDesk(t)
	d.ask(4)
	d.grant(100, 0, 1, 6, 7)
	d.answers = false
	d.request(2).do(func() {
		d.m.Granted([]leasemgr.Lease{{Piece: 7, Token: 1}, {Piece: 6, Token: 2}}, leasemgr.Refusal{}, d.now)
	})
	d.forget()
	d.rejoin()
	if n := len(d.requests); n == 0 || !slices.Equal(d.requests[0].Keep, []share.Piece{7, 6, 0, 1}) {
		t.Errorf("asked for %+v", d.requests)
	}
}
