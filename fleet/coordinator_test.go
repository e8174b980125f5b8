package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

func TestTwoSourcesOfAFleetGetDisjointPieces(t *testing.T) {
	_, a, b := newPair(t)
	one := a.lease("x", 4)
	seen := map[share.Piece]bool{}
	for _, l := range append(slices.Clone(one), b.lease("x", 4)...) {
		if seen[l.Piece] || epochOf(l.Token) != 1 || l.Expires <= 0 {
			t.Errorf("granted %+v", l)
		}
		seen[l.Piece] = true
	}
	if len(seen) != 8 {
		t.Errorf("granted %d of 8 pieces", len(seen))
	}
	b.say(b.source("y"))
	if r := b.granted(b.ask("y", 4)); len(r.Leases) != 0 || r.Refused != wire.Why(wire.CodeAllLeased) || r.Never {
		t.Errorf("granted %+v", r)
	}
	// Members that were refused are told when pieces come back.
	a.say(a.returned("x", wire.CodeGaveBack, one[0]))
	if !b.woken("y", 0) {
		t.Error("nobody was told of a lease that came back")
	}
}

func TestAStaleTokenChangesNothing(t *testing.T) {
	f, k := newTable(t, "a", "b")
	a, b := k[0], k[1]
	a.join()
	b.join()
	a.say(a.source("x"))
	l := a.lease("x", 1)[0]
	before := f.status()
	for _, token := range []share.Token{l.Token + 1, l.Token - 1, l.Token + 1<<40, 0} {
		stale := wire.Lease{Piece: l.Piece, Token: token}
		a.say(a.returned("x", 0, stale), wire.LeaseProgress{Share: theShare, Source: "x", Items: []wire.Progress{{Piece: l.Piece, Token: token, Bytes: 1 << 20}}})
	}
	// The right token, from the wrong member or for another source.
	b.say(b.source("x"), b.returned("x", 0, l))
	a.say(a.returned("y", 0, l))
	if st := f.status(); st.Leased != before.Leased || st.Wanted != before.Wanted {
		t.Errorf("%+v became %+v", before, st)
	}
	a.say(a.returned("x", 0, l))
	if st := f.status(); st.Leased != before.Leased-1 {
		t.Errorf("a good return left %+v", st)
	}
}

func TestALeaseLivesOnProgressAndEndsWithoutIt(t *testing.T) {
	f, k := newTable(t, "a")
	a := k[0]
	a.join()
	a.say(a.source("x"))
	l := a.lease("x", 1)[0]
	for range 4 {
		f.run(10 * time.Second)
		a.say(wire.LeaseProgress{Share: theShare, Source: "x", Items: []wire.Progress{{Piece: l.Piece, Token: l.Token, Bytes: 1000}}})
	}
	if st := f.status(); st.Leased != 1 {
		t.Fatalf("with progress: %+v", st)
	}
	got := a.hear(20 * time.Second)
	if st := f.status(); st.Leased != 0 {
		t.Errorf("without progress: %+v", st)
	}
	want := fmt.Sprint(wire.LeaseRevoked{Share: theShare, Source: "x", Items: []wire.Revoked{{Piece: l.Piece, Token: l.Token}}})
	if !slices.ContainsFunc(got, func(m any) bool { return fmt.Sprint(m) == want }) {
		t.Errorf("the holder heard %+v", got)
	}
}

// A member that says that nothing comes yet keeps its leases as long as there is no second source outside the fleet that may have time.
func TestALeaseLivesOnWaitsWhileNobodyElseCouldBeAsked(t *testing.T) {
	for _, second := range []bool{false, true} {
		f, a, b := newPair(t)
		ls := a.lease("x", 3)
		if second {
			b.say(b.source("y"))
		}
		for range 4 {
			f.run(10 * time.Second)
			a.say(wire.LeaseProgress{Share: theShare, Source: "x", Items: []wire.Progress{{Piece: ls[0].Piece, Token: ls[0].Token}}})
		}
		want := len(ls)
		if second {
			want = 0
		}
		if st := f.status(); st.Leased != want {
			t.Errorf("a second source: %t: %+v", second, st)
		}
		b.say(wire.SourceDown{Share: theShare, Source: "y"})
		if f.run(20 * time.Second); f.status().Leased != 0 {
			t.Errorf("a second source: %t: leased though nothing is said", second)
		}
	}
}

// A member keeps no piece by saying that it waits while the only source outside passes it over, and would serve another that has
// nothing to do.
func TestALeaseEndsWhenTheOnlySourceServesAnotherInstead(t *testing.T) {
	for what, c := range map[string]struct {
		served, idle bool // the other
		want         int
	}{"it would serve another": {true, true, 2}, "the other asks for nothing": {true, false, 0}, "it is busy for all": {false, true, 0}} {
		f, a, b := newPair(t)
		ls := a.lease("x", 2)
		lost := 0
		waits := func(k *talker, l wire.Lease, bytes int) {
			for _, m := range k.say(wire.LeaseProgress{Share: theShare, Source: "x", Items: []wire.Progress{{Piece: l.Piece, Token: l.Token, Bytes: bytes}}}) {
				if r, ok := m.(wire.LeaseRevoked); ok && k == a {
					lost += len(r.Items)
				}
			}
		}
		bs := b.lease("x", 1)
		for i := range 30 {
			waits(a, ls[0], 0)
			switch {
			case !c.served:
				waits(b, bs[0], 0)
			case i < 6:
				waits(b, bs[0], 1000)
				if b.say(b.done(bs[0])); i < 5 {
					bs = b.lease("x", 1)
				}
			}
			if c.idle && i >= 6 {
				b.say(b.ask("x", 1))
			}
			f.run(10 * time.Second)
		}
		if waits(a, ls[0], 0); lost != c.want {
			t.Errorf("%s: %d leases ended", what, lost)
		}
	}
}

// What a member was fetching when another was elected has just been leased to it: the source has not passed it over.
func TestALeaseOfTheRunBeforeLivesOnWaits(t *testing.T) {
	f, a, b := newPair(t)
	rest := []share.Piece{0, 1, 2, 3, 4, 5, 6, 7}
	for len(rest) > 2 {
		l := b.lease("x", 1)[0]
		b.say(wire.LeaseProgress{Share: theShare, Source: "x", Items: []wire.Progress{{Piece: l.Piece, Token: l.Token, Bytes: 1000}}}, b.done(l))
		rest = slices.DeleteFunc(rest, func(p share.Piece) bool { return p == l.Piece })
	}
	ls := a.granted(a.ask("x", 1, rest...)).Leases
	b.say(b.ask("x", 1)) // it has nothing to do
	for range 4 {
		f.run(10 * time.Second)
		a.say(wire.LeaseProgress{Share: theShare, Source: "x", Items: []wire.Progress{{Piece: ls[0].Piece, Token: ls[0].Token}}})
	}
	if st := f.status(); st.Leased != 2 {
		t.Errorf("%+v", st)
	}
}

// Members hedge, and notice what is slow; the coordinator does neither unless told to.
func TestTheDefaultsAreThoseOfAFleet(t *testing.T) {
	c := Config{}.withDefaults()
	l := c.Leases
	if c.Settle != 10*time.Second || l.Patience.First != 15*time.Second || l.Patience.Slack != 15*time.Second || l.HedgeShare != -1 || l.HedgeFloor != -1 {
		t.Errorf("%+v", c)
	}
	want := Config{Settle: 1, Leases: leasemgr.Config{Patience: peers.Patience{First: 2, Slack: 3}, HedgeShare: 4, HedgeFloor: 5}}
	if got := want.withDefaults(); got.Settle != want.Settle || got.Leases != want.Leases {
		t.Errorf("%+v became %+v", want, got)
	}
}

func TestWhyALeaseCameBackReachesTheManager(t *testing.T) {
	for code, want := range map[wire.Code]leasemgr.Reason{
		wire.CodeBadData: leasemgr.BadData, wire.CodeMissed: leasemgr.Missed, wire.CodeNotFound: leasemgr.NotFound,
		wire.CodeLost: leasemgr.Lost, wire.CodeDisk: leasemgr.Disk, wire.CodeElsewhere: leasemgr.Elsewhere,
		wire.CodeGaveBack: leasemgr.GaveBack, 0: leasemgr.GaveBack, wire.CodeWhole: leasemgr.GaveBack, 255: leasemgr.GaveBack,
	} {
		if got := reasonOf(code); got != want {
			t.Errorf("%q is %q", code, got)
		}
		if code == returns[want] && code.String() != want.String() { // by the words that older coordinators know
			t.Errorf("%q travels as %q", want, code)
		}
	}
	_, k := newTable(t, "a")
	a := k[0]
	a.join()
	a.say(a.source("x"))
	l := a.lease("x", 1)[0]
	a.say(a.returned("x", wire.CodeNotFound, l))
	a.mayFetch(without(upTo(8), l.Piece)...)
}

// A member that has a piece has it, under whatever token it says so: the lease of another ends, as after Have.
func TestAPieceIsDoneUnderAnyToken(t *testing.T) {
	for name, says := range map[string]func(k *talker) any{
		"a token never granted": func(*talker) any { return wire.PieceDone{Share: theShare, Piece: 3, Token: 12345} },
		"no token":              func(*talker) any { return wire.PieceDone{Share: theShare, Piece: 3} },
		"have":                  func(k *talker) any { return k.also(3) },
	} {
		f, k := newTable(t, "a", "b")
		a, b := k[0], k[1]
		a.join()
		b.join()
		a.say(a.source("x", 3, 4))
		if got := a.lease("x", 2); len(got) != 2 {
			t.Fatalf("a is leased %+v", got)
		}
		b.say(says(b))
		if st := f.status(); st.Leased != 1 || st.Verified != 1 || st.Members[1].Pieces != 1 {
			t.Errorf("%s: %+v", name, st)
		}
	}
}

func TestAPieceIsWantedAgainWhenNobodyHasItAnyMore(t *testing.T) {
	f, k := newTable(t, "a", "b")
	a, b := k[0], k[1]
	a.join(0, 1, 2)
	b.join(2, 3)
	if st := f.status(); st.Verified != 4 {
		t.Errorf("two members: %+v", st)
	}
	a.say(a.also(4), wire.PieceDone{Share: theShare, Piece: 5})
	if st := f.status(); st.Verified != 6 || st.Members[0].Pieces != 5 {
		t.Errorf("two more: %+v", st)
	}
	a.say(wire.Unsubscribe{Share: theShare})
	if st := f.status(); st.Verified != 6 || !st.Members[0].Gone || f.saw("a", MemberLeft) != 1 {
		t.Errorf("just after one left: %+v", st)
	}
	f.run(2 * time.Second) // it is not back
	if st := f.status(); st.Verified != 6 {
		t.Errorf("some time after one left: %+v", st)
	}
	f.run(time.Second)
	if st := f.status(); st.Verified != 2 || len(st.Members) != 1 {
		t.Errorf("long after one left: %+v", st)
	}
	b.say(b.has(7)) // it lost what it had
	if st := f.status(); st.Verified != 1 {
		t.Errorf("after another map: %+v", st)
	}
}

// If a piece is wanted again and more sources wait for one than are told at once, the
// others are told soon after, even if nothing else happens.
func TestAllThatWaitAreToldInTheEnd(t *testing.T) {
	f, k := newTable(t, "a", "b")
	a, b := k[0], k[1]
	a.join(upTo(8)...)
	b.join(upTo(7)...)
	const many = 100
	for i := range many {
		source := peers.ID(fmt.Sprint("source", i))
		b.say(b.source(source))
		if r := b.granted(b.ask(source, 1)); r.Refused == (wire.Reason{}) {
			t.Fatalf("granted %+v", r)
		}
	}
	f.c.Ended(a.by.Reply, f.now)
	f.next()
	told := 0
	for _, m := range b.hear(11 * time.Second) {
		if _, is := m.(wire.LeasesAvailable); is {
			told++
		}
	}
	if told != many {
		t.Errorf("%d of %d were told", told, many)
	}
}

func TestARunBeginsWithTheMembersOfTheLast(t *testing.T) {
	f, k := newTable(t, "a", "b")
	a, b := k[0], k[1]
	a.join()
	b.join()
	if fmt.Sprint(f.known) != "[a b]" {
		t.Fatalf("kept: %v", f.known)
	}
	f.begin()
	a.join(0)
	a.say(a.source("x"))
	r := a.granted(a.ask("x", 2, 5, 0))
	if ls := r.Leases; len(ls) != 1 || ls[0].Piece != 5 || epochOf(ls[0].Token) != 2 || r.Refused != wire.Why(wire.CodeSettling) {
		t.Errorf("granted %+v; want what is kept and no more", r)
	}
	if st := f.status(); !strings.Contains(st.Waiting, "1 member to return") || !strings.Contains(st.Waiting, "10 s") || st.Absent != 1 {
		t.Errorf("does not say that it waits: %+v", st)
	}
	b.say(wire.Subscribe{Share: theShare})
	if a.woken("x", 0) {
		t.Error("it may ask, although the other has not said what it has")
	}
	b.say(b.has(1))
	if !a.woken("x", 0) || a.woken("x", time.Second) {
		t.Error("a source that was told to wait was not told once that it may ask")
	}
	if ls := a.granted(a.ask("x", 8)).Leases; len(ls) != 3 { // 4 for one that is not measured
		t.Errorf("granted %+v", ls)
	}
	// The next run waits for a member that does not come back.
	f.begin()
	a.join()
	a.say(a.source("x"))
	if ls := a.granted(a.ask("x", 2)).Leases; len(ls) != 0 {
		t.Errorf("granted %+v", ls)
	}
	if fmt.Sprint(f.known) != "[a b]" {
		t.Errorf("kept while it waits: %v", f.known)
	}
	if !a.woken("x", 10*time.Second) {
		t.Error("a source that was told to wait was not told that the wait is over")
	}
	a.lease("x", 2)
	if fmt.Sprint(f.known) != "[a]" || f.status().Waiting != "" || f.status().Absent != 0 {
		t.Errorf("kept: %v", f.known)
	}
	// It is no longer allowed: nobody waits for it.
	f.known, f.allow = []peers.ID{"a", "b"}, []peers.ID{"a"}
	f.begin()
	a.join()
	a.say(a.source("x"))
	a.lease("x", 2)
}

// The next run does not wait for a member that has left, unless it has what nobody else has; it waits for one that was lost.
func TestARunDoesNotWaitForAMemberThatLeft(t *testing.T) {
	for _, x := range []struct {
		has   []share.Piece
		lost  bool
		waits string
	}{{nil, false, "[b]"}, {[]share.Piece{1}, false, "[b]"}, {[]share.Piece{1, 2}, false, "[a b]"}, {[]share.Piece{1, 3}, false, "[a b]"}, {nil, true, "[a b]"}} {
		f, k := newTable(t, "a", "b", "c")
		a, b, c := k[0], k[1], k[2]
		a.join(x.has...)
		b.join(1)
		c.join(3)
		f.c.Ended(c.by.Reply, f.now) // what it has may be gone with it
		if f.next(); x.lost {
			f.c.Ended(a.by.Reply, f.now)
			f.next()
		} else {
			a.say(wire.Unsubscribe{Share: theShare})
		}
		if got := fmt.Sprint(slices.DeleteFunc(f.known, func(id peers.ID) bool { return id == "c" })); got != x.waits {
			t.Errorf("%+v: kept %v", x, got)
		}
		f.run(10 * time.Second)
		if fmt.Sprint(f.known) != "[b]" {
			t.Errorf("%+v: later kept %v", x, f.known)
		}
	}
}

// Until a member has said what it has it is granted nothing new, but it is told when it has.
func TestAMemberSaysFirstWhatItHas(t *testing.T) {
	_, k := newTable(t, "a")
	a := k[0]
	a.say(wire.Subscribe{Share: theShare}, a.source("x"), a.source("y"))
	if r := a.granted(a.ask("x", 2, 3)); len(r.Leases) != 1 || r.Refused != wire.Why(wire.CodeNoHaves) {
		t.Errorf("granted %+v", r)
	}
	a.say(a.has(0))
	a.mayFetch(1, 2, 4, 5, 6, 7)
}

func TestTheMembersAreKeptOneAtATime(t *testing.T) {
	c := NewCoordinator(Config{Share: theShare, Layout: pieces(8), Allow: []peers.ID{"a", "b"}}, theStart)
	for _, name := range []peers.ID{"a", "b"} {
		c.Subscribe(From{name, Port{Node: "p", Name: string(name)}}, theShare, nil, theStart)
		todo := c.Next(theStart)
		if todo.Keep != (name == "a") || todo.Keep && fmt.Sprint(todo.Members) != "[a]" {
			t.Errorf("after %s: %+v", name, todo)
		}
	}
	c.Kept()
	if todo := c.Next(theStart); !todo.Keep || fmt.Sprint(todo.Members) != "[a b]" {
		t.Errorf("then: %+v", todo)
	}
	c.Kept()
	if todo := c.Next(theStart); todo.Keep {
		t.Errorf("and then: %+v", todo)
	}
}

// A node that joins is no longer a source outside the fleet: leases on it return, even
// if the member that holds them says nothing.
func TestASourceThatJoinsLosesItsLeases(t *testing.T) {
	f, k := newTable(t, "a", "b")
	a, b := k[0], k[1]
	a.join()
	a.say(a.source("b"))
	a.lease("b", 2)
	b.join()
	if st := f.status(); st.Leased != 0 || st.Wanted != 8 {
		t.Errorf("after the source has joined: %+v", st)
	}
	if r := a.granted(a.ask("b", 1)); len(r.Leases) != 0 || !r.Never {
		t.Errorf("granted %+v of a member", r)
	}
	a.say(a.source("b"))
	if st := f.status(); st.Members[0].Sources != 0 {
		t.Errorf("a member is taken for a source: %+v", st)
	}
	f.c.Ended(b.by.Reply, f.now)
	a.say(a.source("b"))
	if st := f.status(); st.Members[0].Sources != 1 || !st.Members[1].Gone {
		t.Errorf("when it is gone: %+v", st)
	}
}

// A member that goes has sources that wait for what its other sources held: it is not told of that any more.
func TestAMemberThatGoesIsNotToldOfWhatItHeld(t *testing.T) {
	for name, goes := range map[string]func(f *table, a *talker){
		"leaves":           func(_ *table, a *talker) { a.say(wire.Unsubscribe{Share: theShare}) },
		"is lost":          func(f *table, a *talker) { f.c.Ended(a.by.Reply, f.now) },
		"joins again":      func(_ *table, a *talker) { a.say(wire.Subscribe{Share: theShare}) },
		"may not any more": func(f *table, _ *talker) { f.c.Allow([]peers.ID{"b"}, f.now) },
		"speaks nonsense":  func(_ *table, a *talker) { a.say(wire.HaveMap{Share: theShare, Pieces: 9}) },
	} {
		t.Run(name, func(t *testing.T) {
			f, k := newTable(t, "a", "b")
			a := k[0]
			a.join()
			a.say(a.source("x"), a.source("y"))
			all := a.ask("x", f.n)
			all.Rate = 1e9
			if r := a.granted(all); len(r.Leases) != f.n {
				t.Fatalf("granted %+v", r)
			}
			if r := a.granted(a.ask("y", 1)); r.Refused != wire.Why(wire.CodeAllLeased) {
				t.Fatalf("granted %+v", r)
			}
			goes(f, a)
			f.next() // the table fails the test if it is told of something
		})
	}
}

func TestMembersHearOfEachOther(t *testing.T) {
	f, k := newTable(t, "a", "b", "c")
	named := func(got []any) (out []string) {
		for _, m := range got {
			if x, ok := m.(wire.FleetMembers); ok {
				var who []string
				for _, member := range x.Members {
					who = append(who, fmt.Sprintf("{%s %v}", member.ID, member.Addrs))
				}
				out = append(out, fmt.Sprint(x.Share == theShare, who))
			}
		}
		return out
	}
	a, b, c := k[0], k[1], k[2]
	a.say(wire.Subscribe{Share: theShare, Addrs: []string{"/a"}})
	if got := named(b.say(wire.Subscribe{Share: theShare, Addrs: []string{"/b"}})); fmt.Sprint(got) != "[true [{a [/a]}]]" {
		t.Errorf("the second heard %v", got)
	}
	if got := named(a.hear(0)); fmt.Sprint(got) != "[true [{b [/b]}]]" {
		t.Errorf("the first heard %v", got)
	}
	a.say(wire.Unsubscribe{Share: theShare})
	if got := named(c.say(wire.Subscribe{Share: theShare})); fmt.Sprint(got) != "[true [{b [/b]}]]" {
		t.Errorf("the third heard %v", got)
	}
	if a.hear(0) != nil {
		t.Error("one that has left hears of others")
	}
	if want := []int{1, 2, 1, 2}; len(f.events) != len(want) {
		t.Errorf("events: %v", f.events)
	} else {
		for i, e := range f.events {
			if e.Members != want[i] {
				t.Errorf("event %d: %+v", i, e)
			}
		}
	}
	// Many are named in several messages.
	f, _ = newTable(t)
	f.allow = nil
	for i := range wire.MaxMembers + 2 {
		f.allow = append(f.allow, peers.ID(fmt.Sprint(i)))
	}
	f.begin()
	for _, id := range f.allow[:wire.MaxMembers+1] {
		f.talker(id).say(wire.Subscribe{Share: theShare})
	}
	if got := named(f.talker(f.allow[wire.MaxMembers+1]).say(wire.Subscribe{Share: theShare})); len(got) != 2 {
		t.Errorf("%d messages name %d others", len(got), wire.MaxMembers+1)
	}
}

// A member is watched as long as it is one, and on the port of its last Subscribe.
func TestMembersAreWatched(t *testing.T) {
	f, k := newTable(t, "a")
	a := k[0]
	a.join(1)
	again := f.talker("a")
	again.say(wire.Subscribe{Share: theShare})
	if !f.watched[again.by.Reply] || len(f.watched) != 1 {
		t.Errorf("watched: %v", f.watched)
	}
	if st := f.status(); len(st.Members) != 1 || st.Members[0].Pieces != 1 || f.saw("a", MemberLost) != 0 {
		t.Errorf("it joined twice: %+v", st)
	}
	f.c.Ended(a.by.Reply, f.now)
	f.c.Ended(Port{}, f.now)
	if st := f.status(); st.Members[0].Gone {
		t.Errorf("the end of its old port ended it: %+v", st)
	}
	f.c.Ended(again.by.Reply, f.now)
	f.next()
	if st := f.status(); !st.Members[0].Gone || len(f.watched) != 0 || f.saw("a", MemberLost) != 1 {
		t.Errorf("it has ended: %+v", st)
	}
	f.c.Ended(Port{}, f.now)
	if f.next(); f.saw("a", MemberLost) != 1 {
		t.Error("it was lost twice")
	}
}

func TestWhoHasNotJoinedGetsNothing(t *testing.T) {
	f, k := newTable(t, "a", "b")
	a := k[0]
	stranger := f.talker("stranger")
	for _, m := range []any{stranger.ask("x", 5), stranger.source("x"), wire.PieceDone{Share: theShare, Piece: 1}, stranger.also(2),
		wire.SourceDown{Share: theShare, Source: "x"}, stranger.has(1), wire.Unsubscribe{Share: theShare}, wire.Goodbye{Share: theShare}} {
		if got := stranger.say(m); got != nil {
			t.Errorf("%T was answered with %+v", m, got)
		}
	}
	if st := f.status(); st.Verified+st.Leased+len(st.Members) != 0 || st.Refused != 8 || f.saw("stranger", NotAllowed) != 1 {
		t.Errorf("after a stranger: %+v", st)
	}
	got := stranger.say(wire.Subscribe{Share: theShare})
	if r, ok := got[0].(wire.SubscribeResult); !ok || r.Accepted || r.Reason != wire.Why(wire.CodeNotListed) || r.Retry == 0 {
		t.Errorf("a stranger was told %+v", got)
	}
	stranger.by.Reply = Port{}
	stranger.say(wire.Subscribe{Share: theShare}) // it does not say where to answer
	for i := range 2 * maxStrangers {
		f.talker(peers.ID(fmt.Sprint("stranger", i))).say(wire.Subscribe{Share: theShare})
	}
	if told := len(f.events); told != maxStrangers {
		t.Errorf("somebody is told of %d strangers", told)
	}
	// A node that is allowed must join, and join this share.
	if got := a.say(a.ask("x", 5)); !a.declined(got) {
		t.Errorf("was told %+v", got)
	}
	if got := a.say(wire.Subscribe{Share: another}); !a.declined(got) || got[0].(wire.SubscribeResult).Retry != 0 {
		t.Errorf("joined another share: %+v", got)
	}
	a.say(nil) // something that no member says
	refused := f.status().Refused
	a.join()
	a.at = another
	a.say(a.source("x"), wire.PieceDone{Share: another, Piece: 1})
	if st := f.status(); st.Verified != 0 || st.Members[0].Sources != 0 || st.Refused != refused || f.saw("a", NotAllowed) != 0 {
		t.Errorf("accepted what was said of another share: %+v", st)
	}
	here := f.talker("seat") // the node itself may join without being listed
	here.by.Reply = Port{}
	here.say(wire.Subscribe{Share: theShare})
	if st := f.status(); len(st.Members) != 1 {
		t.Errorf("somebody joined that cannot be told anything: %+v", st)
	}
	f.talker("seat").join()
}

// A member is identified by the reply address of its Subscribe: a message from elsewhere,
// even from the same node, is not from the member.
func TestAMemberIsKnownByTheReplyOfItsSubscribe(t *testing.T) {
	f, k := newTable(t, "a")
	a := k[0]
	a.join()
	a.say(a.source("x"))
	l := a.lease("x", 1)[0]
	other := f.talker("a")
	for _, m := range []any{other.has(1), other.also(1), wire.PieceDone{Share: theShare, Piece: 2}, other.ask("x", 4), other.source("y"),
		wire.SourceHasMore{Share: theShare, Source: "x", Pieces: []share.Piece{1}}, other.returned("x", 0, l),
		wire.LeaseProgress{Share: theShare, Source: "x"}, wire.SourceDown{Share: theShare, Source: "x"}, wire.Unsubscribe{Share: theShare}} {
		if got := other.say(m); !other.declined(got) || got[0].(wire.SubscribeResult).Retry != retrySoon {
			t.Errorf("%T was answered with %+v", m, got)
		}
	}
	if st := f.status(); st.Verified != 0 || st.Leased != 1 || len(st.Members) != 1 || st.Members[0].Sources != 1 || st.Members[0].Gone {
		t.Errorf("after all that: %+v", st)
	}
	a.mayFetch(without(upTo(8), l.Piece)...)
}

func TestAMemberThatSpeaksNonsenseIsPutOut(t *testing.T) {
	f, k := newTable(t, "a")
	a := k[0]
	for i, m := range []any{wire.HaveMap{Share: theShare, Pieces: 9, Bits: []byte{0, 1}}, wire.HaveMap{Share: theShare, Pieces: 9, Bits: []byte{1}}, wire.HaveMap{Share: theShare, Pieces: 8, Bits: []byte{1, 1}},
		wire.SourceHas{Share: theShare, Source: "x", Pieces: 7, Bits: []byte{1}}, wire.SourceHas{Share: theShare, Source: "x", Pieces: 8, Bits: []byte{1, 0}}} {
		a.join(1, 2)
		got := a.say(m)
		if st := f.status(); len(st.Members) != 0 || st.Verified != 0 || !a.declined(got) || f.saw("a", MemberBroken) != i+1 || f.saw("a", MemberLost) != 0 || len(f.watched) != 0 {
			t.Errorf("after %+v: %+v, told %+v", m, st, got)
		}
	}
	a.join()
	past := wire.Lease{Piece: 8, Token: 1}
	a.say(a.also(8, 1999999), a.done(past), wire.SourceHasMore{Share: theShare, Source: "x", Pieces: []share.Piece{1}},
		a.source("x", 0), a.ask("x", 1, 8, 9, 1999999), wire.SourceHasMore{Share: theShare, Source: "x", Pieces: []share.Piece{8, 1999999}},
		a.returned("x", 0, past), wire.LeaseProgress{Share: theShare, Source: "x", Items: []wire.Progress{{Piece: 9, Token: 1, Bytes: 1}}},
		a.source(""))
	if st := f.status(); st.Verified != 0 || st.Leased != 1 || st.Members[0].Sources != 1 {
		t.Errorf("pieces past the end: %+v", st)
	}
	for i := range 2 * maxOutlets {
		a.say(a.source(peers.ID(fmt.Sprint("many", i))))
	}
	if st := f.status(); st.Members[0].Sources != maxOutlets {
		t.Errorf("%d sources", st.Members[0].Sources)
	}
}

func TestASourceThatIsDownHasNothing(t *testing.T) {
	f, k := newTable(t, "a")
	a := k[0]
	a.join()
	a.say(a.source("x", 1, 2), a.source("y", 3))
	a.lease("x", 2)
	a.say(wire.SourceDown{Share: theShare, Source: "x"}, wire.SourceDown{Share: theShare, Source: "z"})
	if st := f.status(); st.Leased != 0 || st.Wanted != 8 || st.Members[0].Sources != 1 {
		t.Errorf("after a source was down: %+v", st)
	}
	if r := a.granted(a.ask("x", 2)); len(r.Leases) != 0 || !r.Never || r.Source != "x" || r.Share != theShare {
		t.Errorf("granted %+v", r)
	}
	a.say(wire.SourceHasMore{Share: theShare, Source: "y", Pieces: []share.Piece{5}})
	if got := a.leased("y"); !slices.Equal(got, []share.Piece{3, 5}) {
		t.Errorf("leased %v", got)
	}
	a.say(a.source("y", 6))
	if got := a.leased("y"); !slices.Equal(got, []share.Piece{6}) {
		t.Errorf("leased %v", got)
	}
}

// The measured rate of a source decides how much it may hold at once.
func TestASourceIsLeasedWhatItCanFetch(t *testing.T) {
	f, k := newTable(t, "a")
	f.n = 2000
	f.begin()
	a := k[0]
	a.join()
	a.say(a.source("slow"), a.source("fast"))
	fast := a.ask("fast", 2*wire.MaxLeases)
	fast.Rate, fast.RTT = 1e9, 100*time.Millisecond
	slow, quick := a.granted(a.ask("slow", 5000)), a.granted(fast)
	if len(slow.Leases) == 0 || len(quick.Leases) < 10*len(slow.Leases) || slow.Refused != wire.Why(wire.CodeAtCapacity) {
		t.Errorf("leased %d and %d; refused %q", len(slow.Leases), len(quick.Leases), slow.Refused)
	}
}

// However much is asked for and kept, an answer fits in a message.
func TestAnAnswerIsBounded(t *testing.T) {
	f, k := newTable(t, "a")
	f.n = 3 * wire.MaxLeases
	f.begin()
	a := k[0]
	a.join()
	a.say(a.source("x"))
	m := a.ask("x", 3*wire.MaxLeases)
	for p := range share.Piece(wire.MaxLeases - 2) {
		m.Keep = append(m.Keep, p)
	}
	m.Rate, m.RTT = 1e9, 10*time.Second
	if r := a.granted(m); len(r.Leases) > wire.MaxLeases || len(r.Leases) < wire.MaxLeases-2 {
		t.Errorf("%d leases", len(r.Leases))
	}
	// So does a revocation.
	for i := range m.Keep {
		m.Keep[i] += wire.MaxLeases
	}
	a.granted(m)
	if st := f.status(); st.Leased <= wire.MaxLeases {
		t.Fatalf("%d leased", st.Leased)
	}
	none := a.source("x")
	none.Bits = share.NewSet(f.n).Bytes()
	var sizes []int
	for _, x := range a.say(none) {
		if r, ok := x.(wire.LeaseRevoked); ok {
			sizes = append(sizes, len(r.Items))
		}
	}
	if len(sizes) != 2 || sizes[0] != wire.MaxLeases {
		t.Errorf("revoked: %v", sizes)
	}
}

// Leases of two sources that end at once are taken back from each.
func TestLeasesAreTakenBackBySource(t *testing.T) {
	_, k := newTable(t, "a")
	a := k[0]
	a.join()
	a.say(a.source("x"), a.source("y"))
	want := map[string]int{}
	for _, source := range []peers.ID{"x", "y"} {
		for _, l := range a.lease(source, 2) {
			want[fmt.Sprint(source, l.Piece, l.Token)]++
		}
	}
	for _, m := range a.hear(5 * time.Minute) {
		if r, ok := m.(wire.LeaseRevoked); ok {
			for _, i := range r.Items {
				want[fmt.Sprint(r.Source, i.Piece, i.Token)]--
			}
		}
	}
	for what, n := range want {
		if n != 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
}

func TestAStatusTellsOfMembersAndPieces(t *testing.T) {
	f, k := newTable(t, "b", "a")
	for _, x := range k {
		x.join()
		x.say(x.source("source-x"))
	}
	st := f.status()
	if st.Epoch != 1 || len(st.Members) != 2 || st.Members[0].Peer != "a" || st.Wanted != 8 || len(st.Why) == 0 {
		t.Errorf("%+v", st)
	}
	k[0].lease("source-x", 1)
	if why := strings.Join(f.status().Why, "\n"); !strings.Contains(why, "b:e-x") || strings.Contains(why, "b/source") {
		t.Errorf("says %q", why)
	}
	for id, want := range map[peers.ID]peers.ID{"member-abcd/source-xyz": "abcd:xyz", "a/b": "a:b", "a": "a:"} {
		if got := brief(id); got != want {
			t.Errorf("%s is %s", id, got)
		}
	}
	for change, want := range map[Change]string{MemberJoined: "joined", MemberLeft: "left", MemberLost: "was lost", NotAllowed: "is not allowed", CoordinatorFailed: "failed",
		MemberDoubted: "says it has pieces that another member could not get", MemberBroken: "was removed: its list of pieces does not fit the share",
		MemberDisallowed: "was removed: it is no longer allowed"} {
		if change.String() != want {
			t.Errorf("%d is %q", change, change)
		}
	}
}

// A member waits longer than others do, and less long than its coordinator.
func TestAMemberIsPatient(t *testing.T) {
	p := MemberPatience(peers.Patience{Trips: 7})
	if usual := (peers.Patience{}).WithDefaults(); p.First <= usual.First || p.Slack <= usual.Slack || p.Trips != 7 {
		t.Errorf("%+v, and usual is %+v", p, usual)
	}
	if of := (Config{}).withDefaults().Leases.Patience; of.First <= p.First || of.Slack <= p.Slack {
		t.Errorf("%+v, and its coordinator's is %+v", p, of)
	}
	if asked := (peers.Patience{First: time.Second, Slack: time.Second}); MemberPatience(asked) != asked {
		t.Errorf("%+v for %+v", MemberPatience(asked), asked)
	}
}

// A refusal without a code would not be a refusal.
func TestEachRefusalOfTheLeaseManagerTravels(t *testing.T) {
	for why := leasemgr.UnknownSource; why.String() != ""; why++ {
		if code := refusals[why]; code.String() == "" && why != leasemgr.IsPaused && why != leasemgr.Unread {
			t.Errorf("%q does not travel", why)
		}
		if why == leasemgr.Unread {
			return
		}
	}
}

// A piece that a source did not have when it was asked for it is leased from the source again once that has it after all.
func TestAPieceThatASourceGetsAfterAllIsLeased(t *testing.T) {
	f, k := newTable(t, "a")
	a := k[0]
	a.join()
	a.say(a.source("x", 2))
	a.say(a.returned("x", wire.CodeNotFound, a.lease("x", 1)...))
	a.mayFetch()
	f.run(time.Minute)
	a.say(wire.SourceHasMore{Share: theShare, Source: "x", Pieces: []share.Piece{2}})
	a.mayFetch(2)
}
