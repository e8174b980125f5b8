package fleet

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
	"pgregory.net/rapid"
)

// A member claims to have everything, and another could not get some of it there:
// the other may fetch that from outside, and nobody else may.
func TestAClaimThatDoesNotHoldCountsForNobodyWhoSawIt(t *testing.T) {
	f, k := newTable(t, "a", "b", "c")
	a, b, c := k[0], k[1], k[2]
	a.join(upTo(8)...)
	b.join()
	c.join()
	b.say(b.source("x"))
	c.say(c.source("x"))
	b.mayFetch()
	c.hear(0)
	b.tell(b.lacks("a", 1, 3))
	f.next()
	if !b.woken("x", 0) || c.woken("x", 0) {
		t.Error("it was not told that it may ask, or another was")
	}
	b.mayFetch(1, 3)
	c.mayFetch()
	if st := f.status(); f.saw("a", MemberDoubted) != 1 || !st.Members[0].Doubted || st.Members[1].Doubted || st.Wanted != 2 || st.Verified != 6 {
		t.Errorf("events %v, status %+v", f.events, st)
	}
	c.say(c.lacks("a", 3, 5))
	c.mayFetch(3, 5)
	// What is fetched exists for all.
	l := b.lease("x", 1)[0]
	b.say(b.done(l))
	b.mayFetch(without([]share.Piece{1, 3}, l.Piece)...)
	c.mayFetch(without([]share.Piece{3, 5}, l.Piece)...)
	// A repeated claim counts no more than the first.
	a.say(a.has(), a.has(upTo(8)...))
	b.mayFetch(without([]share.Piece{1, 3}, l.Piece)...)
	// It can be had after all, elsewhere.
	b.say(b.lacks("a"))
	b.mayFetch(without(upTo(8), l.Piece)...)
	c.say(c.also(0, 1, 2, 3, 4, 5, 6, 7))
	b.mayFetch()
	if st := f.status(); st.Verified != 8 || st.Wanted+st.Leased != 0 || f.saw("a", MemberDoubted) != 1 {
		t.Errorf("in the end: %+v", st)
	}
}

// A member that got nothing for a while on a thin line doubts what others have, and not what they get later.
func TestAReportOnAllIsNotAboutWhatTheyGetLater(t *testing.T) {
	_, k := newTable(t, "a", "b")
	a, b := k[0], k[1]
	a.join(1)
	b.join()
	a.say(a.source("x"))
	b.say(b.source("x"))
	b.say(b.lacks("", upTo(8)...))
	b.mayFetch(upTo(8)...)
	a.say(a.also(3))
	b.mayFetch(without(upTo(8), 3)...)
	b.say(b.lacks("", 3))
	b.mayFetch(upTo(8)...)
}

// However often a member reports that nobody has anything, pieces that others have are
// leased to it alone; and pieces leased to others stay theirs.
func TestWhoSaysThatNobodyHasAnythingCostsNobodyElse(t *testing.T) {
	f, k := newTable(t, "a", "b", "c")
	a, b, liar := k[0], k[1], k[2]
	a.join(0, 1, 2, 3)
	b.join(4)
	liar.join()
	for _, x := range k {
		x.say(x.source("x"))
	}
	l := a.lease("x", 1)[0]
	for _, m := range []wire.SourceDown{liar.lacks("a"), liar.lacks("b"), liar.lacks("c"), liar.lacks(""), liar.lacks("nobody"), liar.lacks("nobody", 1), liar.lacks("", 0, 1, 2, 3, 4, 5, 6, 7, 8, 1999999)} {
		liar.say(m, m)
	}
	if l.Piece < 5 {
		t.Fatalf("was leased piece %d", l.Piece)
	}
	b.mayFetch(without([]share.Piece{5, 6, 7}, l.Piece)...)
	liar.mayFetch(without(upTo(8), l.Piece)...)
	a.say(a.done(l))
	if st := f.status(); st.Leased != 0 {
		t.Errorf("a piece that is done stays leased: %+v", st)
	}
	// What its sources get later is for it alone, too.
	a.say(wire.SourceHas{Share: theShare, Source: "x", Pieces: 8, Bits: []byte{0}}, wire.SourceHasMore{Share: theShare, Source: "x", Pieces: []share.Piece{1, 4, 5, 6, 7}})
	a.mayFetch(without([]share.Piece{5, 6, 7}, l.Piece)...)
	if len(f.c.claims.doubting) != 1 || len(liarDoubts(f)) != 2 {
		t.Errorf("it is kept in mind what was said of %v", liarDoubts(f))
	}
	// Its reports go with it.
	liar.say(wire.Unsubscribe{Share: theShare})
	if st := f.status(); st.Verified != 6 || st.Wanted != 2 || len(f.c.claims.doubting) != 0 {
		t.Errorf("when it has left: %+v", st)
	}
	// A member that leaves takes with it the pieces that only it had.
	liar.join()
	liar.say(liar.source("x"), liar.lacks("b"))
	b.say(wire.Unsubscribe{Share: theShare})
	f.run(11 * time.Second)
	if st := f.status(); st.Verified != 5 || st.Wanted != 3 {
		t.Errorf("when another has left: %+v", st)
	}
}

func liarDoubts(f *table) []peers.ID {
	d := f.c.members["c"].doubts
	return slices.AppendSeq(slices.Collect(maps.Keys(d.all)), maps.Keys(d.some))
}

// A report costs its sender, but not all others for ever: a repeated one is
// ignored.
func TestAReportIsTakenOnce(t *testing.T) {
	f, k := newTable(t, "a", "b")
	a, b := k[0], k[1]
	a.join(upTo(8)...)
	b.join()
	b.say(b.lacks("a", 1), b.lacks("a", 1), b.lacks("", 1), b.lacks("a"), b.lacks("a"), b.lacks("a", 1, 2))
	if got := f.c.members["b"].doubts.trusted; slices.ContainsFunc(got, func(n uint16) bool { return n != 0 }) {
		t.Errorf("so many are trusted: %v", got)
	}
}

// claimMachine tests what members claim to have, and report of each other, against a
// model made of nothing but sets.
type claimMachine struct {
	t      *rapid.T
	f      *table
	k      []*talker
	in     []bool                         // is a member
	has    []map[share.Piece]bool         // what it claims to have; kept for a while when it has left
	source []map[share.Piece]bool         // what its source x has; nil: it has none
	doubts []map[int]map[share.Piece]bool // by reporter, by whom it doubts
}

const forever = share.Piece(1 << 30) // in doubts: all pieces

func newClaimMachine(t *rapid.T, tb testing.TB) *claimMachine {
	m := &claimMachine{t: t}
	m.f, m.k = newTable(tb, "a", "b", "c", "d")
	for range m.k {
		m.in, m.has = append(m.in, false), append(m.has, nil)
		m.source, m.doubts = append(m.source, nil), append(m.doubts, nil)
	}
	return m
}

// claimed reports whether anybody claims a piece, and whether member by doubts all those claims.
func (m *claimMachine) claimed(by int, p share.Piece) (anybody, doubted bool) {
	doubted = true
	for i, has := range m.has {
		if has[p] {
			anybody = true
			doubted = doubted && (m.doubts[by][i][p] || m.doubts[by][i][forever])
		}
	}
	return anybody, anybody && doubted
}

// may reports whether a member may fetch a piece from outside.
func (m *claimMachine) may(by int, p share.Piece) bool {
	anybody, free := m.claimed(by, p)
	return m.in[by] && m.source[by][p] && (!anybody || free)
}

func (m *claimMachine) some() (set map[share.Piece]bool, list []share.Piece) {
	set = map[share.Piece]bool{}
	for _, p := range rapid.SliceOfNDistinct(rapid.IntRange(0, m.f.n-1), 0, m.f.n, rapid.ID).Draw(m.t, "pieces") {
		set[share.Piece(p)] = true
		list = append(list, share.Piece(p))
	}
	return set, list
}

func (m *claimMachine) step() {
	i := rapid.IntRange(0, len(m.k)-1).Draw(m.t, "who")
	k := m.k[i]
	set, list := m.some()
	switch op := rapid.IntRange(0, 9).Draw(m.t, "what"); {
	case op == 0 && m.in[i]:
		k.say(wire.Unsubscribe{Share: theShare})
		m.leaves(i)
		if !m.needed(i) {
			m.has[i] = nil
		}
	case op == 0:
		m.f.run(11 * time.Second) // a member that has left is forgotten
		for j := range m.k {
			if !m.in[j] {
				m.has[j] = nil
			}
		}
	case !m.in[i] || op == 1:
		m.leaves(i)
		k.join(list...)
		m.in[i], m.has[i] = true, set
	case op == 2:
		k.say(k.has(list...))
		m.has[i] = set
	case op == 3:
		also := k.also()
		for _, p := range list {
			also.Pieces = append(also.Pieces, p)
			m.has[i][p] = true
		}
		k.say(also)
	case op <= 5:
		x := wire.SourceHas{Share: theShare, Source: "x", Pieces: m.f.n, Bits: setOf(m.f.n, list...).Bytes()}
		k.say(x)
		m.source[i] = set
	case op == 6 && m.source[i] != nil:
		more := wire.SourceHasMore{Share: theShare, Source: "x"}
		for _, p := range list {
			more.Pieces = append(more.Pieces, p)
			m.source[i][p] = true
		}
		k.say(more)
	case op >= 7:
		m.report(i, list)
	}
}

func (m *claimMachine) leaves(i int) {
	m.in[i], m.source[i], m.doubts[i] = false, nil, nil
}

// needed reports whether one that has left has pieces that no member has.
func (m *claimMachine) needed(i int) bool {
	for p := range m.has[i] {
		if !slices.ContainsFunc(upTo(len(m.k)), func(j share.Piece) bool { return m.in[j] && m.has[j][p] }) {
			return true
		}
	}
	return false
}

func (m *claimMachine) report(i int, list []share.Piece) {
	of := rapid.IntRange(-1, len(m.k)-1).Draw(m.t, "of whom")
	report := m.k[i].lacks("")
	if of >= 0 {
		report = m.k[i].lacks(m.k[of].by.Peer)
	}
	report.Pieces = append(report.Pieces, list...)
	m.k[i].say(report)
	if len(list) == 0 {
		list = []share.Piece{forever}
	}
	for j, has := range m.has {
		switch {
		case j == i || of >= 0 && j != of:
			continue
		case of < 0 && (has == nil || list[0] == forever): // all other members
			continue
		}
		if m.doubts[i] == nil {
			m.doubts[i] = map[int]map[share.Piece]bool{}
		}
		if m.doubts[i][j] == nil {
			m.doubts[i][j] = map[share.Piece]bool{}
		}
		for _, p := range list {
			if of >= 0 || has[p] { // what j gets later was not missed yet
				m.doubts[i][j][p] = true
			}
		}
	}
}

// check compares the leases with what the sets say.
func (m *claimMachine) check() {
	wanted := 0
	for p := range share.Piece(m.f.n) {
		anybody, free := false, false
		for i := range m.k {
			some, doubted := m.claimed(i, p)
			anybody, free = some, free || m.in[i] && doubted
		}
		if !anybody || free {
			wanted++
		}
	}
	if st := m.f.status(); st.Wanted != wanted || st.Leased != 0 || st.Verified != m.f.n-wanted {
		m.t.Fatalf("%d pieces should be wanted: %+v", wanted, st)
	}
	for i, k := range m.k {
		if !m.in[i] || m.source[i] == nil {
			continue
		}
		var want []share.Piece
		for p := range share.Piece(m.f.n) {
			if m.may(i, p) {
				want = append(want, p)
			}
		}
		woken := k.woken("x", 0)
		if got := k.leased("x"); !slices.Equal(got, want) {
			m.t.Fatalf("%s is leased %v, want %v (was told to ask: %t)", k.by.Peer, got, want, woken)
		}
	}
}

func TestWhatIsClaimedAndDoubtedSaysWhoMayFetch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		m := newClaimMachine(r, t)
		for range rapid.IntRange(1, 40).Draw(r, "steps") {
			m.step()
			m.check()
		}
		for _, mb := range m.f.c.claims.doubting {
			if mb.gone() || mb.doubts == nil {
				r.Fatalf("%s is gone, and doubts", mb.peer)
			}
		}
	})
}

// A piece leased to a member that doubts stays leased to it whatever others say, until
// it could get the piece from a member that it does not doubt.
func TestALeaseOutlivesWhatOthersSay(t *testing.T) {
	f, k := newTable(t, "a", "b", "c")
	a, b, c := k[0], k[1], k[2]
	a.join(upTo(8)...)
	b.join()
	c.join(3)
	b.say(b.source("x"), b.lacks("a", 2), b.lacks("c"))
	b.lease("x", 1)
	c.say(c.lacks("a", 2), c.also(2), c.lacks("a", 2), c.has(3))
	a.say(a.has(upTo(2)...), a.has(upTo(8)...))
	if got := b.hear(0); f.status().Leased != 1 || len(got) != 0 {
		t.Errorf("heard %+v", got)
	}
}

// No lease is lost between members that doubt each other: a piece that is leased is
// fetched by one of them, whoever claims it meanwhile.
func TestALeaseEndsWhenAnotherIsBelieved(t *testing.T) {
	f, k := newTable(t, "a", "b", "c")
	a, b, c := k[0], k[1], k[2]
	a.join(upTo(8)...)
	b.join()
	c.join()
	b.say(b.source("x"), b.lacks("a", 2))
	l := b.lease("x", 1)[0]
	c.say(c.also(2)) // b has not doubted that
	if got := b.hear(0); !slices.ContainsFunc(got, func(m any) bool { return fmt.Sprintf("%T", m) == "wire.LeaseRevoked" }) {
		t.Errorf("heard %+v", got)
	}
	b.say(b.returned("x", 0, l))
	b.mayFetch()
	if st := f.status(); st.Verified != 8 {
		t.Errorf("%+v", st)
	}
}
