package fleet

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// ---- joining ----

func TestAMemberJoins(t *testing.T) {
	d := &desk{t: t, m: NewMember(MemberConfig{Share: theShare, Pieces: 8, Self: "here", Coordinator: "seat", Mine: setOf(8, 3)}, theStart), now: theStart, may: map[peers.ID]*share.Set{}}
	d.do(func() {})
	d.does(Dial{})
	d.accept() // it has asked for nothing
	d.do(func() { d.m.Linked(0, d.now) })
	d.does(Join{})
	d.do(func() { d.m.Linked(0, d.now) })
	d.does()
	for _, r := range []wire.SubscribeResult{{Share: another, Accepted: true}, {Share: another}} {
		d.do(func() { d.m.SubscribeResult("seat", r, d.now) })
	}
	d.do(func() { d.m.SubscribeResult("stranger", wire.SubscribeResult{Share: theShare, Accepted: true}, d.now) })
	d.hears()
	d.accept().accept()
	d.hears(d.mine(3))
	d.does()
	if !d.wake.IsZero() {
		t.Errorf("there is nothing to do, and it wants to be called at %v", d.wake)
	}
}

// A member of a fleet that its own node coordinates does not dial.
func TestAMemberJoinsAtItsOwnNode(t *testing.T) {
	d := &desk{t: t, m: NewMember(MemberConfig{Share: theShare, Pieces: 8, Self: "here", Coordinator: "here", Mine: share.NewSet(8)}, theStart), now: theStart, may: map[peers.ID]*share.Set{}}
	d.do(func() {})
	d.does(Join{})
	d.do(func() { d.m.Lost("not here yet", d.now) })
	d.does(Unseat{})
	if d.wake.After(d.now.Add(firstRejoin)) {
		t.Errorf("looks again at %v, after %v", d.wake, d.wake.Sub(d.now))
	}
	d.run(time.Second)
	d.accept()
	d.hears(d.mine())
}

func TestAMemberTriesAgainEverMoreRarely(t *testing.T) {
	m := NewMember(MemberConfig{Share: theShare, Pieces: 8, Self: "here", Coordinator: "seat", Mine: share.NewSet(8)}, theStart)
	d := &desk{t: t, m: m, now: theStart, may: map[peers.ID]*share.Set{}}
	var waits []time.Duration
	for range 12 {
		d.do(func() {}).does(Dial{})
		d.do(func() { d.m.Lost("nobody there", d.now) })
		d.does(Unseat{})
		d.do(func() { d.m.Lost("nobody there", d.now) }) // reported twice
		d.does()
		waits = append(waits, d.wake.Sub(d.now))
		d.now = d.wake
	}
	want := []time.Duration{firstRejoin, 2 * firstRejoin, 4 * firstRejoin, lastRejoin, lastRejoin}
	if !slices.Equal(waits[:5], want) || waits[11] != lastRejoin {
		t.Errorf("waited %v", waits)
	}
	d.next()
	d.do(func() { d.m.Linked(0, d.now) }).accept().lose(time.Hour)
	if d.wake.Sub(d.now) != linger || d.m.seat.retry.Sub(d.now) != time.Hour {
		t.Errorf("refused for an hour, and it tries again after %v", d.m.seat.retry.Sub(d.now))
	}
	m.seat.retry = d.now
	d.next()
	d.do(func() { d.m.Linked(0, d.now) }).lose(0)
	if got := m.seat.retry.Sub(d.now); got != joinWithin {
		t.Errorf("refused for ever, and it tries again after %v", got)
	}
	m.seat.retry = d.now
	d.next()
	d.do(func() { d.m.Lost("nobody there", d.now) })
	if got := m.seat.retry.Sub(d.now); got != 4*firstRejoin { // doubled twice since it had joined
		t.Errorf("it had been joined, and tries again after %v", got)
	}
}

// A coordinator that does not answer is given up, whichever step takes too long.
func TestACoordinatorThatIsSilentIsLost(t *testing.T) {
	steps := []func(d *desk){
		func(d *desk) { d.lose(time.Second).run(time.Second) },
		func(d *desk) {
			d.lose(time.Second).run(time.Second).do(func() { d.m.Linked(0, d.now) })
		},
		func(d *desk) { d.ask(2) },
	}
	for i, step := range steps {
		d := newDesk(t)
		step(d)
		d.did = nil
		within := joinWithin
		if i == 2 {
			within = answerIn
		}
		d.run(within - time.Millisecond)
		if d.m.seat.state == away {
			t.Errorf("step %d: given up too soon", i)
		}
		d.run(2 * time.Millisecond)
		if d.does(Unseat{}); d.m.seat.state != away || d.m.seat.why != "it does not answer" {
			t.Errorf("step %d: %+v", i, d.m.seat)
		}
	}
}

func TestAMemberThatWasNotHeardJoinsAgain(t *testing.T) {
	d := newDesk(t)
	d.do(func() { d.m.Unheard(d.now) })
	if d.does(Unseat{}); d.m.seat.why != "the connection was lost" {
		t.Errorf("lost: %s", d.m.seat.why)
	}
	d.do(func() { d.m.Unheard(d.now) })
	d.run(firstRejoin)
	d.does(Dial{})
	d.do(func() { d.m.Unheard(d.now) }) // from the attempt before
	d.do(func() { d.m.Linked(0, d.now) })
	d.does(Join{})
	d.do(func() { d.m.Unheard(d.now) })
	if d.does(Unseat{}); d.m.seat.why != "it does not coordinate the share" {
		t.Errorf("lost: %s", d.m.seat.why)
	}
}

func TestAMemberThatHasLeftDoesNothingMore(t *testing.T) {
	d := newDesk(t)
	d.ask(2)
	d.grant(100, 3)
	d.verified(3)
	d.forget()
	d.do(func() { d.m.Leave(d.now) })
	d.hears(wire.PieceDone{Share: theShare, Piece: 3, Token: 100}) // or it would be leased to others
	d.does(Resign{})
	d.do(func() { d.m.Ended(xPool, d.now) })
	d.do(func() { d.m.Unheard(d.now) })
	d.do(func() { d.m.SourceDown("x", d.now) })
	d.forget()
	if d.run(time.Hour); !d.wake.IsZero() || len(d.did)+len(d.told) > 0 {
		t.Errorf("it goes on: %+v, %+v", d.did, d.told)
	}
}

// Each joining repeats everything: what the sources have, what is being fetched, what
// other members lack, and last what is here.
func TestAMemberSaysEverythingWhenItJoins(t *testing.T) {
	d := newDesk(t)
	d.ask(2)
	d.grant(100, 3, 5)
	d.verified(0)
	d.named("b")
	d.do(func() { d.m.Returned("b", 6, 1, leasemgr.NotFound, d.now) })
	d.run(time.Second)
	d.request(2).forget()
	d.rejoin(func() { d.m.Verified(1, d.now) })
	has := wire.SourceHas{Share: theShare, Source: "x", Pieces: 8, Bits: []byte{0xff}}
	lacks := wire.SourceDown{Share: theShare, Source: "b", Member: true, Pieces: []share.Piece{6}}
	d.hears(has, lacks, d.mine(0, 1))
	if len(d.requests) != 1 || fmt.Sprint(d.requests[0].Keep) != "[3 5]" || d.requests[0].Max != 2 {
		t.Errorf("asked %+v", d.requests)
	}
	d.holds(3, 5)
}

// ---- leases of the fleet ----

func TestAMemberAsksForWhatItsManagerLacks(t *testing.T) {
	d := newDesk(t)
	d.do(func() { d.m.Request(xPool, "x", 3, 5e6, 20*time.Millisecond, d.now) })
	want := wire.LeaseRequest{Share: theShare, Source: "x", Max: 3, Rate: 5e6, RTT: 30 * time.Millisecond}
	if len(d.requests) != 1 || fmt.Sprint(d.requests[0]) != fmt.Sprint(want) {
		t.Fatalf("asked %+v, want %+v", d.requests, want)
	}
	d.does(Question{})
	d.request(2) // one request at a time
	d.grant(100, 1)
	if len(d.requests) != 2 || d.requests[1].Max != 1 || d.requests[1].Rate != 5e6 {
		t.Errorf("asked %+v", d.requests)
	}
	d.grant(200, 2, 3) // more than it asked for
	d.holds(1, 2, 3)
	if len(d.requests) != 2 {
		t.Errorf("asked %+v", d.requests)
	}
	// A manager that has enough, or must not lease, needs no more.
	for _, why := range []leasemgr.Why{0, leasemgr.AtCapacity, leasemgr.IsPaused, leasemgr.IsBanned} {
		d.answers = false
		d.request(4)
		d.do(func() { d.m.Granted(nil, leasemgr.Refusal{Reason: why}, d.now) })
		if len(d.requests) != 2 {
			t.Errorf("%q: asked %+v", why, d.requests)
		}
	}
	// Those that it got count.
	d.request(4)
	d.do(func() {
		to, no := d.m.Granted([]leasemgr.Lease{{Piece: 1}}, leasemgr.Refusal{Reason: leasemgr.AllLeased}, d.now)
		if to != xPool || no.String() != "waits for leases of the fleet" {
			t.Errorf("tells %v: %+v", to, no)
		}
	})
	if len(d.requests) != 3 || d.requests[2].Max != 3 {
		t.Errorf("asked %+v", d.requests)
	}
}

// The manager answers in order, also when the request is for a source inside the fleet, or
// for the plan: those answers are passed on unchanged.
func TestAnswersGoToWhoAsked(t *testing.T) {
	d := newDesk(t)
	d.answers = false
	b, api := Port{Node: "here", Name: "pool b"}, Port{Node: "here", Name: "somebody"}
	d.named("b").do(func() { d.m.SourceUp("b", b, d.now) })
	d.forget()
	d.do(func() { d.m.Request(b, "b", 1, 0, 0, d.now) })
	d.request(1)
	d.do(func() { d.m.PlanQuery(api, time.Time{}, d.now) })
	d.does(Question{}, Question{}, Question{})
	no := leasemgr.Refusal{Reason: leasemgr.NoneHere, Until: d.now}
	if to, same := d.m.Granted(nil, no, d.now); to != b || same != no {
		t.Errorf("first: %v %v", to, same)
	}
	if to, other := d.m.Granted(nil, no, d.now); to != xPool || other.String() == no.String() || other.Until != no.Until {
		t.Errorf("second: %v %v", to, other)
	}
	if to, line, _ := d.m.Planned(d.now); to != api || line == "" {
		t.Errorf("third: %v %q", to, line)
	}
	if to, _ := d.m.Granted(nil, no, d.now); to != (Port{}) {
		t.Errorf("nobody asked, and %v is told", to)
	}
}

func TestARefusedMemberAsksAgain(t *testing.T) {
	d := newDesk(t)
	d.ask(2)
	no := d.response(0)
	no.Refused, no.Until = wire.Why(wire.CodeAllLeased), 3*time.Second
	d.respond(no)
	d.run(3*time.Second - 1)
	if len(d.requests) != 1 {
		t.Fatalf("asked %d times", len(d.requests))
	}
	d.run(1)
	if len(d.requests) != 2 {
		t.Fatalf("asked %d times", len(d.requests))
	}
	no.Until = 0
	d.respond(no).run(askAnyway - 1)
	if len(d.requests) != 2 {
		t.Fatalf("asked %d times", len(d.requests))
	}
	d.run(1)
	if len(d.requests) != 3 {
		t.Fatalf("nobody said that it may, and it does not ask anyway: %d", len(d.requests))
	}
	d.respond(no)
	if d.request(2); !strings.Contains(d.refusals[len(d.refusals)-1].String(), wire.CodeAllLeased.String()) {
		t.Errorf("the pool is told %+v", d.refusals)
	}
	for _, by := range []func(){
		func() {
			d.m.LeasesAvailable("stranger", wire.LeasesAvailable{Share: theShare, Source: "x"}, d.now)
		},
		func() { d.m.LeasesAvailable("seat", wire.LeasesAvailable{Share: another, Source: "x"}, d.now) },
		func() { d.m.LeasesAvailable("seat", wire.LeasesAvailable{Share: theShare, Source: "y"}, d.now) },
	} {
		if d.do(by); len(d.requests) != 3 {
			t.Fatal("it may ask again, according to a peer that may not say so")
		}
	}
	d.do(func() { d.m.LeasesAvailable("seat", wire.LeasesAvailable{Share: theShare, Source: "x"}, d.now) })
	if len(d.requests) != 4 {
		t.Fatalf("told that it may, and asked %d times", len(d.requests))
	}
}

// A revocation names the token: a lease granted since then stays.
func TestAMemberKeepsALeaseThatIsNewSince(t *testing.T) {
	d := newDesk(t)
	d.ask(2)
	d.grant(100, 3, 5)
	d.holds(3, 5)
	m := wire.LeaseRevoked{Share: theShare, Source: "x", Items: []wire.Revoked{{Piece: 3, Token: 99}, {Piece: 5, Token: 101}, {Piece: 7, Token: 0}}}
	d.do(func() { d.m.LeaseRevoked("stranger", m, d.now) })
	other := m
	other.Source = "y"
	d.do(func() { d.m.LeaseRevoked("seat", other, d.now) })
	d.holds(3, 5)
	d.do(func() { d.m.LeaseRevoked("seat", m, d.now) })
	d.holds(3)
	if d.hears(); len(d.m.byID["x"].held) != 1 {
		t.Errorf("holds %+v", d.m.byID["x"].held)
	}
}

// An answer to a request that was withdrawn is not taken for the answer to the next.
func TestAMemberTakesNoAnswerToAnOldQuestion(t *testing.T) {
	d := newDesk(t)
	d.ask(2)
	d.do(d.away)
	if len(d.requests) != 2 {
		t.Fatalf("asked the coordinator %d times, want 2", len(d.requests))
	}
	d.grant(100, 1, 2) // the coordinator has already revoked these
	d.holds()
	d.grant(200, 3, 4)
	d.holds(3, 4)
	if len(d.m.stale) != 0 {
		t.Errorf("still waits for %v", d.m.stale)
	}
	d.grant(300, 5) // nothing was asked for
	d.holds(3, 4)
	d.ask(1)
	d.do(func() { d.m.LeaseResponse("stranger", d.response(400, 6), d.now) })
	d.holds(3, 4)
}

// An answer that a coordinator owed when it was lost does not come any more: what
// comes after joining again answers what was asked since.
func TestAMemberAwaitsNothingOfAnOldSeat(t *testing.T) {
	for _, before := range []bool{true, false} {
		d := newDesk(t)
		d.ask(2)
		if before {
			d.do(d.away) // one answer is of no interest, one awaited
			d.rejoin()
		} else {
			d.rejoin(d.away)
		}
		d.grant(300, 2)
		d.holds(2)
	}
	// What the last coordinator refused does not matter to the next.
	d := newDesk(t)
	d.ask(2)
	no := d.response(0)
	no.Refused = wire.Why(wire.CodeSettling)
	d.respond(no).rejoin()
	if len(d.requests) != 2 {
		t.Errorf("asked %d times", len(d.requests))
	}
}

// A member stops fetching pieces that it asked to keep but may not.
func TestAMemberStopsWhatItMayNotKeep(t *testing.T) {
	d := newDesk(t)
	d.ask(3)
	d.grant(100, 3, 5, 6).rejoin()
	d.holds(3, 5, 6)
	d.verified(6) // while it waits for the answer
	d.did = nil
	d.grant(200, 5)
	d.holds(5, 6) // 6 is not asked for again: it is here
	if h := d.m.byID["x"].held; len(h) != 1 || h[5] == nil || h[5].token != 200 {
		t.Errorf("holds %+v", h)
	}
	if d.m.epoch != epochOf(200) {
		t.Errorf("epoch %d", d.m.epoch)
	}
	d.grant(1<<40, 1)
	d.ask(1)
	if d.grant(2<<40, 1); d.m.epoch != 2 {
		t.Errorf("epoch %d", d.m.epoch)
	}
}

// A lease that ends while the coordinator is asked whether it may be kept, and may be,
// is one like any other: a revocation finds it.
func TestAMemberIsGrantedWhatItAskedToKeepAndGaveBack(t *testing.T) {
	d := newDesk(t)
	d.ask(2)
	d.grant(100, 3, 5).answers = false
	d.request(2)
	d.do(func() {
		d.m.Granted([]leasemgr.Lease{{Piece: 3, Token: 7}, {Piece: 5, Token: 8}}, leasemgr.Refusal{}, d.now)
	})
	d.rejoin()
	d.do(func() { d.m.Returned("x", 3, 7, leasemgr.GaveBack, d.now) })
	d.holds(5)
	d.grant(200, 3, 5)
	d.holds(3, 5)
	d.do(func() {
		d.m.LeaseRevoked("seat", wire.LeaseRevoked{Share: theShare, Source: "x", Items: []wire.Revoked{{Piece: 3, Token: 200}}}, d.now)
	})
	d.holds(5)
}

// Leases beyond what fits in a request are given up.
func TestAMemberKeepsNoMoreThanARequestHolds(t *testing.T) {
	const n = wire.MaxLeases + 10
	d := newDesk(t, func(c *MemberConfig) { c.Pieces, c.Mine = n, share.NewSet(n) })
	d.do(func() { d.m.SourceHas("x", share.FullSet(n), d.now) })
	r := d.ask(2 * wire.MaxLeases)
	if r.Max != wire.MaxLeases {
		t.Errorf("asked for %d", r.Max)
	}
	all := d.response(0)
	for p := range share.Piece(n) {
		all.Leases = append(all.Leases, wire.Lease{Piece: p, Token: 1000 + share.Token(p)})
	}
	d.respond(all).rejoin()
	if keep := d.requests[len(d.requests)-1].Keep; len(keep) != wire.MaxLeases {
		t.Errorf("asked to keep %d", len(keep))
	}
	if got := d.may["x"].Count(); got != wire.MaxLeases {
		t.Errorf("may fetch %d", got)
	}
}

// A member gives back at once leases that it has no use for.
func TestAMemberGivesBackWhatItCannotUse(t *testing.T) {
	d := newDesk(t, func(c *MemberConfig) { c.Wanted = setOf(8, 0, 1, 2, 3, 4) })
	d.do(func() { d.m.SourceHas("x", setOf(8, 0, 1, 2, 3, 6), d.now) })
	d.hears(wire.SourceHas{Share: theShare, Source: "x", Pieces: 8, Bits: []byte{0b1111}}) // 6 is not wanted
	d.verified(0)
	d.run(time.Second).told = nil
	d.ask(5)
	d.grant(100, 0, 1, 4, 6)
	back := wire.LeaseReturned{Share: theShare, Source: "x", Items: []wire.Returned{{Piece: 0, Token: 100, Reason: wire.Why(wire.CodeGaveBack)}, {Piece: 4, Token: 102, Reason: wire.Why(wire.CodeGaveBack)}, {Piece: 6, Token: 103, Reason: wire.Why(wire.CodeGaveBack)}}}
	d.hears(back)
	d.holds(1)
}

// If a piece that a member has but has not reported is leased to it again, it reports
// that first, or the coordinator would lease it once more.
func TestAMemberTellsWhatItHasBeforeItGivesItBack(t *testing.T) {
	d := newDesk(t)
	d.ask(2)
	d.verified(3)
	d.forget()
	d.grant(100, 3)
	d.hears(wire.Have{Share: theShare, Pieces: []share.Piece{3}},
		wire.LeaseReturned{Share: theShare, Source: "x", Items: []wire.Returned{{Piece: 3, Token: 100, Reason: wire.Why(wire.CodeGaveBack)}}})
}

// Without its coordinator a member fetches what is leased for a while, and no longer.
func TestWhatIsLeasedEndsWithoutACoordinator(t *testing.T) {
	d := newDesk(t)
	d.ask(2)
	d.grant(100, 3, 5).lose(time.Hour)
	d.run(linger - time.Second)
	d.holds(3, 5)
	d.run(2 * time.Second)
	d.holds()
	d.run(time.Minute)
	if d.request(1); !strings.Contains(d.refusals[len(d.refusals)-1].String(), "waits for the coordinator of the fleet: \"for a test\"") {
		t.Errorf("the pool is told %+v", d.refusals)
	}
}

func TestAMemberGoesOnAloneAndComesBack(t *testing.T) {
	d := newDesk(t, func(c *MemberConfig) { c.Alone = 3 * time.Second })
	d.ask(2)
	d.grant(100, 3).lose(time.Hour).run(3*time.Second - 1)
	d.holds(3)
	d.run(1)
	d.holds(0, 1, 2, 3, 4, 5, 6, 7)
	d.run(time.Minute) // what was leased does not end
	d.holds(0, 1, 2, 3, 4, 5, 6, 7)
	// It may have at once what a source gets later, and what the manager leases is known.
	d.answers = false
	d.did = nil
	d.do(func() { d.m.SourceHasMore("x", []share.Piece{1}, d.now) })
	d.does(Forward{})
	d.request(2)
	d.do(func() {
		if _, no := d.m.Granted([]leasemgr.Lease{{Piece: 3, Token: 7}, {Piece: 6, Token: 8}}, leasemgr.Refusal{Reason: leasemgr.NoneHere}, d.now); no.Reason != leasemgr.NoneHere {
			t.Errorf("the pool is told %+v", no)
		}
	})
	d.do(func() { d.m.Returned("x", 6, 8, leasemgr.GaveBack, d.now) })
	d.request(2)
	d.do(func() { d.m.Granted([]leasemgr.Lease{{Piece: 6, Token: 9}}, leasemgr.Refusal{}, d.now) })
	d.holds(0, 1, 2, 3, 4, 5, 6, 7)
	d.forget()
	d.m.seat.retry = d.now
	d.next()
	d.do(func() { d.m.Linked(0, d.now) }).accept()
	d.holds(3, 6)
	if len(d.requests) != 1 || fmt.Sprint(d.requests[0].Keep) != "[3 6]" {
		t.Errorf("asked %+v", d.requests)
	}
	// A member without Alone never goes on alone.
	d = newDesk(t)
	d.lose(time.Hour).run(2 * time.Hour)
	d.holds()
}

// ---- sources ----

func TestASourceIsWatchedAndAnnounced(t *testing.T) {
	d := newDesk(t)
	y, y2 := Port{Node: "here", Name: "pool y"}, Port{Node: "here", Name: "pool y2"}
	d.do(func() { d.m.SourceUp("y", y, d.now) })
	d.does(Send{y, Watch{}}, Forward{})
	d.do(func() { d.m.SourceHasMore("y", []share.Piece{3}, d.now) })
	d.does()  // it has not said what it has, and nothing may be fetched from it without leases
	d.hears() // nothing is known of it
	d.do(func() { d.m.SourceHas("y", setOf(8, 1, 2), d.now) })
	d.hears(wire.SourceHas{Share: theShare, Source: "y", Pieces: 8, Bits: []byte{0b110}})
	d.do(func() { d.m.SourceHasMore("y", []share.Piece{2, 3, 8}, d.now) })
	d.hears(wire.SourceHasMore{Share: theShare, Source: "y", Pieces: []share.Piece{3}})
	down := wire.SourceDown{Share: theShare, Source: "y"}
	d.does()
	d.do(func() { d.m.SourceUp("y", y2, d.now) }) // its pool was restarted
	d.does(Send{y, Unwatch{}}, Send{y2, Watch{}}, Forward{})
	d.hears(down)
	d.do(func() { d.m.SourceHas("y", setOf(8, 1), d.now) })
	d.told = nil
	d.do(func() { d.m.Ended(y, d.now) }) // the old one
	d.does()
	d.do(func() { d.m.Ended(y2, d.now) })
	d.does(Send{y2, Unwatch{}})
	d.hears(down)
	d.do(func() { d.m.SourceUp("y", y, d.now) }).did = nil
	d.do(func() { d.m.SourceDown("y", d.now) })
	d.does(Send{y, Unwatch{}}, Forward{})
	d.hears() // the coordinator had not heard of it
	for _, f := range []func(){
		func() { d.m.SourceHas("y", setOf(8, 1), d.now) },
		func() { d.m.SourceHasMore("y", []share.Piece{1}, d.now) },
		func() { d.m.SourceDown("y", d.now) },
		func() { d.m.Progress("y", 1, 1, 1, d.now) },
	} {
		d.do(f) // what does not concern us is passed on
		d.does(Forward{})
	}
	d.hears()
}

func TestASourceThatIsNotConnectedHoldsNothing(t *testing.T) {
	d := newDesk(t)
	d.ask(2)
	d.grant(100, 3, 5)
	d.verified(3)
	d.told = nil
	d.do(func() { d.m.SourceHas("x", nil, d.now) })
	d.holds()
	d.hears(wire.PieceDone{Share: theShare, Piece: 3, Token: 100}, wire.SourceDown{Share: theShare, Source: "x"})
	d.do(func() { d.m.SourceHas("x", nil, d.now) })
	d.hears() // it was reported
	d.did = nil
	d.do(func() { d.m.SourceHasMore("x", []share.Piece{1}, d.now) })
	d.does()
	d.requests = nil
	if d.request(2); len(d.requests) != 0 {
		t.Errorf("asked %+v for a source that is not connected", d.requests)
	}
	d.do(func() { d.m.SourceHas("x", setOf(8, 5), d.now) })
	if len(d.requests) != 1 {
		t.Errorf("asked %d times when it is", len(d.requests))
	}
	d.grant(200, 5)
	d.do(func() { d.m.SourceHas("x", setOf(8, 6), d.now) }) // it has lost what it had
	d.holds()
}

// A source that turns out to be a member needs no permission; leases on it become void.
func TestASourceThatTurnsOutAMember(t *testing.T) {
	d := newDesk(t)
	d.ask(2)
	d.grant(100, 3)
	d.forget()
	d.named("here", "x", "b")
	d.holds(0, 1, 2, 3, 4, 5, 6, 7)
	d.does(Name{[]peers.Addr{{ID: "here"}, {ID: "x"}, {ID: "b"}}})
	d.hears(wire.SourceDown{Share: theShare, Source: "x"})
	if line, _ := d.m.status(); !strings.Contains(line, "2 other members") || !strings.Contains(line, "0 sources") {
		t.Errorf("says %s", line)
	}
	for _, id := range []peers.ID{"x", "b", "seat"} { // the coordinator is not a source either
		d.do(func() { d.m.SourceUp(id, xPool, d.now) })
		d.does(Forward{})
	}
	d.named("b")
	if len(d.m.fellows) != 2 {
		t.Errorf("%d others", len(d.m.fellows))
	}
	d = newDesk(t)
	d.do(func() {
		d.m.FleetMembers("stranger", wire.FleetMembers{Share: theShare, Members: []peers.Addr{{ID: "x"}}}, d.now)
	})
	d.holds()
}

func TestWhatIsReturnedGoesBack(t *testing.T) {
	for _, why := range []leasemgr.Reason{leasemgr.NotFound, leasemgr.Missed, leasemgr.GaveBack} {
		d := newDesk(t)
		d.ask(2)
		d.grant(100, 3, 5)
		d.answers = false
		d.request(1)
		d.do(func() { d.m.Granted([]leasemgr.Lease{{Piece: 3, Token: 7}}, leasemgr.Refusal{}, d.now) })
		d.do(func() { d.m.Returned("x", 3, 6, why, d.now) }) // an old token
		d.do(func() { d.m.Returned("x", 4, 0, why, d.now) }) // not held
		d.holds(3, 5)
		d.hears()
		d.do(func() { d.m.Returned("x", 3, 7, why, d.now) })
		d.holds(5)
		d.hears(wire.LeaseReturned{Share: theShare, Source: "x", Items: []wire.Returned{{Piece: 3, Token: 100, Reason: wire.Why(returns[why])}}})
		d.answers = true
		d.ask(1)
		d.grant(300, 3)
		if again := d.may["x"].Has(3); again != (why != leasemgr.NotFound) {
			t.Errorf("%s: fetched again: %t", why, again)
		}
	}
}

func TestTheChoiceChangesWhatIsAskedFor(t *testing.T) {
	d := newDesk(t)
	d.ask(3)
	d.grant(100, 3, 5, 6)
	d.forget()
	run := func(first share.Piece, n int, p leasemgr.Priority) {
		d.do(func() { d.m.SetPriorities([]leasemgr.Run{{First: first, N: n, Priority: p}}, d.now) })
	}
	run(0, 8, leasemgr.High)
	d.does(Forward{})
	d.hears()
	run(5, 3, leasemgr.Skip)
	d.holds(3)
	d.hears(wire.SourceHas{Share: theShare, Source: "x", Pieces: 8, Bits: []byte{0b11111}},
		wire.LeaseReturned{Share: theShare, Source: "x", Items: []wire.Returned{{Piece: 5, Token: 101, Reason: wire.Why(wire.CodeGaveBack)}, {Piece: 6, Token: 102, Reason: wire.Why(wire.CodeGaveBack)}}})
	d.do(func() { d.m.SourceHasMore("x", []share.Piece{7}, d.now) })
	run(5, 1, leasemgr.Normal)
	d.hears(wire.SourceHas{Share: theShare, Source: "x", Pieces: 8, Bits: []byte{0b111111}})
	d.holds(3)
}

// ---- what the coordinator hears ----

// A piece that a member got from another is reported; otherwise the fleet would lease it again
func TestAMemberTellsWhatItGotFromMembers(t *testing.T) {
	d := newDesk(t)
	d.ask(2)
	d.grant(100, 3)
	d.forget()
	d.verified(3, 6)
	d.does(Forward{}, Forward{})
	if len(d.told) != 0 || d.wake.Sub(d.now) != gatherDone {
		t.Errorf("told %+v at once; the next is at %v", d.told, d.wake)
	}
	d.hears(wire.PieceDone{Share: theShare, Piece: 3, Token: 100}, wire.Have{Share: theShare, Pieces: []share.Piece{6}})
	d.lose(time.Second)
	d.verified(7)
	d.run(time.Second).do(func() { d.m.Linked(0, d.now) }).accept()
	d.told = d.told[1:] // the report of its source
	d.hears(d.mine(3, 6, 7))
	// A piece may be leased to two of its sources; it is reported once.
	y := Port{Node: "here", Name: "pool y"}
	d.do(func() { d.m.SourceUp("y", y, d.now) }).do(func() { d.m.SourceHas("y", share.FullSet(8), d.now) })
	d.do(func() { d.m.Request(y, "y", 1, 0, 0, d.now) })
	twin := d.response(500, 2)
	twin.Source = "y"
	d.respond(twin).grant(400, 2)
	d.told = nil
	d.verified(2)
	d.hears(wire.PieceDone{Share: theShare, Piece: 2, Token: 400})
	if len(d.m.byID["y"].held) != 0 {
		t.Error("it is still held")
	}
}

// Many pieces that are done within a short time are reported together.
func TestManyDonesAreToldTogether(t *testing.T) {
	const n = singleDones + 5
	d := newDesk(t, func(c *MemberConfig) { c.Pieces, c.Mine = n, share.NewSet(n) })
	d.do(func() { d.m.SourceHas("x", share.FullSet(n), d.now) })
	d.ask(n)
	all := d.response(0)
	for p := range share.Piece(n) {
		all.Leases = append(all.Leases, wire.Lease{Piece: p, Token: 1000 + share.Token(p)})
	}
	d.respond(all).told = nil
	d.verified(upTo(n)...)
	d.run(time.Second)
	if len(d.told) != singleDones+1 || len(d.told[singleDones].(wire.Have).Pieces) != 5 {
		t.Errorf("%d messages, the last %+v", len(d.told), d.told[len(d.told)-1])
	}
}

func TestProgressIsGathered(t *testing.T) {
	d := newDesk(t)
	d.leased(leasemgr.Lease{Piece: 3, Token: 7}, leasemgr.Lease{Piece: 5, Token: 8}, leasemgr.Lease{Piece: 6, Token: 9})
	d.forget()
	report := func(p share.Piece, token share.Token, n int) {
		d.do(func() { d.m.Progress("x", p, token, n, d.now) })
	}
	report(3, 7, 1000)
	report(3, 7, 500)
	report(5, 8, 0) // this node itself is waiting
	report(6, 99, 1000)
	report(2, 7, 1000)
	d.does(Forward{}, Forward{}, Forward{}, Forward{}, Forward{})
	if len(d.told) != 0 || d.wake.Sub(d.now) != gatherBytes {
		t.Errorf("told %+v at once; the next is at %v", d.told, d.wake)
	}
	d.hears(wire.LeaseProgress{Share: theShare, Source: "x", Items: []wire.Progress{{Piece: 3, Token: 100, Bytes: 1500}, {Piece: 5, Token: 101}}})
	report(3, 7, 1)
	d.hears(wire.LeaseProgress{Share: theShare, Source: "x", Items: []wire.Progress{{Piece: 3, Token: 100, Bytes: 1}}})
	report(3, 7, 3*share.MaxPiece) // more than may be reported
	d.run(time.Second)
	if got := d.told[0].(wire.LeaseProgress).Items[0].Bytes; got != share.MaxPiece {
		t.Errorf("told of %d bytes", got)
	}
	d.lose(time.Second)
	d.told = nil
	if report(3, 7, 1); d.m.news.bytesAt != (time.Time{}) {
		t.Error("it would tell a coordinator that is away")
	}
}

// While no other source is outside, the one that says that it is busy, or sends something, is late with nothing: the first lease of
// each queue stands for the others.
func TestTheOnlySourceOutsideIsNotLateWhileItIsAlive(t *testing.T) {
	busy := func(d *desk) { d.do(func() { d.m.Busy("x", d.now) }) }
	bytes := func(d *desk) { d.do(func() { d.m.Progress("x", 6, 9, 50, d.now) }) }
	first, six := wire.Progress{Piece: 3, Token: 100}, wire.Progress{Piece: 6, Token: 102, Bytes: 50}
	late := NotLate{"x", 5, 7}
	for what, c := range map[string]struct {
		before, happens func(*desk)
		does            []any
		tells           []wire.Progress
	}{
		"busy":                  {nil, busy, []any{Forward{}, late}, []wire.Progress{first}},
		"bytes of the last":     {nil, bytes, []any{Forward{}, late}, []wire.Progress{first, six}},
		"bytes of the first":    {nil, func(d *desk) { d.do(func() { d.m.Progress("x", 5, 7, 50, d.now) }) }, []any{Forward{}}, []wire.Progress{{Piece: 5, Token: 101, Bytes: 50}, first}},
		"this node waits":       {nil, func(d *desk) { d.do(func() { d.m.Progress("x", 6, 9, 0, d.now) }) }, []any{Forward{}}, []wire.Progress{{Piece: 6, Token: 102}}},
		"another source":        {func(d *desk) { d.also("y", share.NewSet(8)) }, busy, []any{Forward{}}, nil},
		"bytes, another source": {func(d *desk) { d.also("y", share.NewSet(8)) }, bytes, []any{Forward{}}, []wire.Progress{six}},
		"another, not joined":   {func(d *desk) { d.also("y", nil) }, busy, []any{Forward{}, late}, []wire.Progress{first}},
		"members have more":     {func(d *desk) { d.named("y").also("y", share.FullSet(8)) }, busy, []any{Forward{}, late}, []wire.Progress{first}},
		"one that is unknown":   {nil, func(d *desk) { d.do(func() { d.m.Busy("z", d.now) }) }, []any{Forward{}}, nil},
		"no coordinator":        {func(d *desk) { d.lose(time.Second) }, busy, []any{Forward{}, late}, nil},
	} {
		d := newDesk(t)
		d.leased(leasemgr.Lease{Piece: 5, Token: 7}, leasemgr.Lease{Piece: 3, Token: 8}, leasemgr.Lease{Piece: 6, Token: 9})
		if c.before != nil {
			c.before(d)
		}
		d.forget()
		c.happens(d)
		if !reflect.DeepEqual(d.did, c.does) {
			t.Errorf("%s: does %+v, want %+v", what, d.did, c.does)
		}
		d.run(500 * time.Millisecond)
		var told []wire.Progress
		for _, x := range d.told {
			told = append(told, x.(wire.LeaseProgress).Items...)
		}
		if !slices.Equal(told, c.tells) {
			t.Errorf("%s: tells %+v, want %+v", what, told, c.tells)
		}
	}
}

// A piece that another member says it has but does not send is reported, at once and
// to the next coordinator; so is a member that sends nothing at all.
func TestAMemberReportsWhatOthersDoNotGive(t *testing.T) {
	d := newDesk(t)
	lied := func(source peers.ID, p share.Piece, why leasemgr.Reason) {
		d.do(func() { d.m.Returned(source, p, 1, why, d.now) })
	}
	d.named("b", "c").forget()
	lied("b", 1, leasemgr.NotFound)
	lied("b", 4, leasemgr.BadData)
	lied("b", 1, leasemgr.NotFound)
	lied("b", 2, leasemgr.Missed) // the member may have these
	lied("b", 3, leasemgr.Elsewhere)
	lied("b", 3, leasemgr.GaveBack)
	lied("x", 5, leasemgr.NotFound) // not a member
	lied("c", 7, leasemgr.NotFound)
	lacks := func(of peers.ID, pieces ...share.Piece) wire.SourceDown {
		return wire.SourceDown{Share: theShare, Source: of, Member: true, Pieces: pieces}
	}
	d.hears(lacks("b", 1, 4), lacks("c", 7))
	for range 2 {
		d.did = nil
		d.do(func() { d.m.SourceDown("c", d.now) })
		d.does(Forward{})
	}
	d.hears(lacks("c"))
	has := wire.SourceHas{Share: theShare, Source: "x", Pieces: 8, Bits: []byte{0xff}}
	d.rejoin()
	d.hears(has, lacks("b", 1, 4), lacks("c"), d.mine())
	d.verified(4)
	d.hears(wire.Have{Share: theShare, Pieces: []share.Piece{4}})
	d.lose(time.Second)
	lied("b", 6, leasemgr.NotFound)
	d.run(time.Second).do(func() { d.m.Linked(0, d.now) }).accept()
	d.hears(has, lacks("b", 1, 6), lacks("c"), d.mine(4)) // what is here no longer matters
}

// However much is missing, the reports fit in messages of a permitted size.
func TestReportsFitIntoMessages(t *testing.T) {
	const n = wire.MaxHave + 3
	d := newDesk(t, func(c *MemberConfig) { c.Pieces, c.Mine = n, share.NewSet(n) })
	d.named("b").told = nil
	for p := range share.Piece(n) {
		d.do(func() { d.m.Returned("b", p, 1, leasemgr.NotFound, d.now) })
	}
	check := func() {
		t.Helper()
		sum := 0
		for _, m := range d.told {
			if x, ok := m.(wire.SourceDown); ok {
				sum += len(x.Pieces)
				if len(x.Pieces) > wire.MaxHave {
					t.Errorf("%d pieces in a message", len(x.Pieces))
				}
			}
		}
		if sum != n {
			t.Errorf("told of %d pieces, of %d", sum, n)
		}
		d.told = nil
	}
	d.run(time.Second)
	check()
	d.rejoin()
	check()
	// All that is here takes several messages, too.
	d.told = nil
	for p := range share.Piece(n) {
		d.m.Verified(p, d.now)
	}
	d.next()
	if d.run(time.Second); len(d.told) != 2 {
		t.Errorf("%d messages", len(d.told))
	}
}

// A member that has joined and gets nothing reports that it gets what it lacks from
// nobody, and goes on alone if it was told to.
func TestAMemberThatGetsNothingSaysSoAndGoesOnAlone(t *testing.T) {
	for _, alone := range []time.Duration{0, doubtAfter + 5*time.Second} {
		d := newDesk(t, func(c *MemberConfig) { c.Alone, c.Wanted = alone, setOf(8, 0, 1, 2, 3, 4, 5, 6) })
		d.do(func() { d.m.SourceHas("x", setOf(8, 0, 1, 2, 3, 5, 6, 7), d.now) })
		d.ask(2)
		d.grant(100, 3, 5)
		d.verified(0)
		d.run(time.Second).told = nil
		began := d.now
		quiet := func(since time.Time, at time.Duration) {
			d.run(began.Add(at).Sub(d.now))
			d.do(func() { d.m.PlanQuery(xPool, since, d.now) }).do(func() { d.m.PlanQuery(xPool, time.Time{}, d.now) })
		}
		quiet(theStart.Add(-time.Hour), doubtAfter-2*time.Second) // it had not joined yet
		quiet(began, doubtAfter-time.Second)
		d.hears()
		quiet(began, doubtAfter+time.Second)
		quiet(began, doubtAfter+2*time.Second) // it has just reported
		d.hears(wire.SourceDown{Share: theShare, Member: true, Pieces: []share.Piece{1, 2, 6}})
		d.holds(3, 5)
		quiet(began, doubtAfter+4*time.Second)
		d.holds(3, 5)
		quiet(began, doubtAfter+6*time.Second)
		if alone == 0 {
			d.holds(3, 5)
			quiet(began, 2*doubtAfter+2*time.Second) // nothing came all that time
			d.hears(wire.SourceDown{Share: theShare, Member: true, Pieces: []share.Piece{1, 2, 6}})
			continue
		}
		d.holds(0, 1, 2, 3, 5, 6, 7)
		if line, stuck := d.m.status(); stuck != "" || !strings.Contains(line, "goes on alone") {
			t.Errorf("says %s", line)
		}
		quiet(began, doubtAfter+7*time.Second)
		d.rejoin()
		d.holds(3, 5)
	}
	d := newDesk(t)
	d.lose(time.Hour)
	d.run(time.Minute)
	d.told = nil
	d.do(func() { d.m.PlanQuery(xPool, theStart, d.now) })
	if d.m.doubted != (time.Time{}) {
		t.Error("it doubts others though it has no coordinator")
	}
}

// As much as fits in one message is reported at a time.
func TestAMemberDoubtsSomeAtATime(t *testing.T) {
	const n = wire.MaxHave + 3
	d := newDesk(t, func(c *MemberConfig) { c.Pieces, c.Mine = n, share.NewSet(n) })
	d.do(func() { d.m.SourceHas("x", share.FullSet(n), d.now) })
	d.told = nil
	d.run(time.Minute).do(func() { d.m.PlanQuery(xPool, d.now.Add(-doubtAfter), d.now) })
	if len(d.told) != 1 || len(d.told[0].(wire.SourceDown).Pieces) != wire.MaxHave {
		t.Errorf("%d messages", len(d.told))
	}
}

// Another member that did not have the share, and is fetched from now that it came back with it, is not said to give nothing to the
// next coordinator.
func TestAMemberThatIsBackIsNotReported(t *testing.T) {
	d := newDesk(t).named("b")
	pool := Port{Node: "here", Name: "pool b"}
	d.do(func() { d.m.SourceUp("b", pool, d.now) })
	d.do(func() { d.m.SourceDown("b", d.now) })
	d.hears(wire.SourceDown{Share: theShare, Source: "b", Member: true})
	d.do(func() { d.m.SourceUp("b", pool, d.now) })
	d.rejoin()
	for _, m := range d.told {
		if down, ok := m.(wire.SourceDown); ok {
			t.Errorf("it is fetched from, and the coordinator is told %+v", down)
		}
	}
}

// ---- for people ----

func TestAMemberSaysHowTheFleetStands(t *testing.T) {
	d := newDesk(t)
	says := func(stuck bool, parts ...string) {
		t.Helper()
		_, line, is := d.m.Planned(d.now)
		for _, part := range parts {
			if !strings.Contains(line, part) {
				t.Errorf("%q does not say %q", line, part)
			}
		}
		if (is != "") != stuck || strings.Contains(is, "not joined for") {
			t.Errorf("%q: stuck because %q", line, is)
		}
	}
	says(false, "coordinator seat", "0 other members", "0 pieces", "1 source")
	d.ask(2)
	d.grant(3<<40, 3)
	says(false, "1 piece may")
	no := d.response(0)
	no.Refused = wire.Why(wire.CodeWhole)
	d.respond(no)
	says(false, "no more leases for 1 source: the fleet has every piece")
	d.verified(3)
	says(true, "0 pieces may")
	d.do(func() { d.m.SourceUp("y", Port{Node: "here", Name: "y"}, d.now) })
	says(false, "2 sources")
	d.do(func() {
		d.m.SourceHas("y", share.FullSet(8), d.now)
		d.m.Request(xPool, "y", 1, 0, 0, d.now)
	})
	no.Source = "y"
	d.respond(no)
	says(true, "no more leases for 2 sources; the reason for one of them: the fleet has every piece")
	d.lose(5 * time.Second).run(time.Second)
	says(true, "not joined for 1 s: \"for a test\"", "goes on for 9 s with the pieces that are leased", "trying again in 4 s")
	d.run(4 * time.Second)
	says(true, "not joined for 5 s")
	for code, want := range map[wire.Code]string{wire.CodeNotListed: wire.CodeNotListed.String() + " (" + string(d.m.cfg.Self) + ")",
		wire.CodeNoSecret: wire.CodeNoSecret.String(), wire.CodeSettling: ""} {
		d = newDesk(t)
		d.do(func() {
			d.m.SubscribeResult("seat", wire.SubscribeResult{Share: d.m.cfg.Share, Reason: wire.Why(code)}, d.now)
		})
		if got := d.m.Barred(); got != want {
			t.Errorf("%v: barred because %q, want %q", code, got, want)
		}
	}
	d = newDesk(t, func(c *MemberConfig) { c.Alone = time.Second })
	d.lose(time.Hour).run(2 * time.Second)
	says(false, "not joined for 2 s: \"for a test\"; this node goes on alone")
}

// A source that gave a piece to others is asked for other pieces at once: so the coordinator is asked for them.
func TestAMemberAsksForOtherPiecesOfASourceThatGaveOneToOthers(t *testing.T) {
	d := newDesk(t)
	d.answers = false
	local := leasemgr.New(leasemgr.Config{}, leasemgr.Plan{Layout: pieces(8), Epoch: 1}, d.now)
	local.AddSource("x", d.now)
	wants := func() {
		d.request(1)
		leases, no := local.Acquire("x", 1, d.now)
		d.do(func() { d.m.Granted(leases, no, d.now) })
		for _, l := range leases { // it is sent elsewhere for each
			local.Defer("x", l.Piece, l.Token, 8*time.Second, d.now)
			d.do(func() { d.m.Returned("x", l.Piece, l.Token, leasemgr.Elsewhere, d.now) })
			local.HaveNot("x", []share.Piece{l.Piece}, d.now)
		}
	}
	wants()
	d.grant(100, 3)
	local.Have("x", []share.Piece{3}, d.now)
	wants()
	d.holds()
	d.forget()
	for range 4 {
		wants()
		d.run(500 * time.Millisecond)
	}
	if len(d.requests) == 0 {
		t.Errorf("nothing is held on a source that has 7 more pieces, and for %v the coordinator was asked for none", 2*time.Second)
	}
}
