package fetchpool

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// hand drives a pool by hand, with an unlimited budget.
type hand struct {
	t   *testing.T
	p   *Pool
	now time.Time
}

func byHand(t *testing.T, cfg Config, sizes ...int64) *hand {
	h := &hand{t, New(cfg, layoutOf(t, sizes...), 7, start), start}
	return h
}

// ready is a pool that is ready, on a link of 10 ms.
func ready(t *testing.T, cfg Config, sizes ...int64) *hand {
	h := byHand(t, cfg, sizes...)
	h.connect()
	return h
}

func (h *hand) connect() {
	h.next()
	h.p.Opened(10*time.Millisecond, h.now)
	h.next()
	h.p.Subscribed(h.now)
	if h.p.State() != Ready {
		h.t.Fatalf("state %v", h.p.State())
	}
}

func (h *hand) next() Todo { return h.p.Next(h.now, granted) }

func (h *hand) after(d time.Duration) Todo {
	h.now = h.now.Add(d)
	return h.next()
}

func (h *hand) grant(pieces ...share.Piece) Todo {
	var works []Work
	for _, p := range pieces {
		works = append(works, Work{Piece: p, Token: share.Token(100 + p)})
	}
	h.p.Grant(works, h.now)
	return h.next()
}

// serve finishes requests at a rate in bytes per second.
func (h *hand) serve(reqs []Request, rate float64) {
	for _, r := range slices.Clone(reqs) {
		h.now = h.now.Add(time.Duration(float64(r.Bytes) / rate * float64(time.Second)))
		h.p.Finished(r.ID, h.now)
	}
}

func reasons(t Todo) string {
	var s []string
	for _, r := range t.Return {
		s = append(s, fmt.Sprint(r.Piece, " ", r.Why))
	}
	return strings.Join(s, ", ")
}

func TestPoolDialsSubscribesAndAsks(t *testing.T) {
	h := byHand(t, Config{}, 1<<20)
	if todo := h.next(); !todo.Dial || todo.Wake.IsZero() || h.p.State() != Dialing {
		t.Fatalf("at first: %+v in %v", todo, h.p.State())
	}
	if todo := h.next(); todo.Dial {
		t.Fatal("dialled twice")
	}
	h.p.Opened(10*time.Millisecond, h.now)
	if todo := h.next(); !todo.Subscribe {
		t.Fatalf("opened: %+v", todo)
	}
	if todo := h.next(); todo.Subscribe {
		t.Fatal("subscribed twice")
	}
	h.p.Subscribed(h.now)
	todo := h.next()
	if todo.Want != 1 {
		t.Fatalf("wants %d pieces", todo.Want)
	}
	todo = h.grant(0)
	if len(todo.Requests) != 4 || !todo.Requests[0].Proof || todo.Requests[1].Proof {
		t.Fatalf("asked for %+v", todo.Requests)
	}
	if r := todo.Requests[0]; r.Count != 1 || r.First != 0 || r.Bytes != share.BlockSize || r.Token != 100 {
		t.Fatalf("first request %+v", r)
	}
}

// early is a pool that was told what the source has, holds piece 0 and has asked for it while
// its subscription is under way.
func early(t *testing.T) *hand {
	h := byHand(t, Config{}, 1<<20, 1<<20)
	h.next()
	h.p.Opened(10*time.Millisecond, h.now)
	h.p.Early(h.now)
	if todo := h.next(); !todo.Subscribe || todo.Want == 0 || h.p.State() != Ready {
		t.Fatalf("opened early: %+v in %v", todo, h.p.State())
	}
	if todo := h.grant(0); len(todo.Requests) == 0 || todo.Subscribe {
		t.Fatalf("granted: %+v", todo)
	}
	return h
}

// A source that is known to have every piece is asked for blocks before it has answered the subscription.
func TestWhatIsKnownToBeThereIsAskedForAtOnce(t *testing.T) {
	h := early(t)
	h.p.Subscribed(h.now)
	if todo := h.after(time.Second); todo.Subscribe || todo.Close || len(todo.Return) > 0 {
		t.Errorf("subscribed: %+v", todo)
	}
	h.p.Lost(peers.ErrLost, h.now)
	if todo := h.next(); reasons(todo) != "0 link lost" {
		t.Errorf("lost: returned %s", reasons(todo))
	}
	h.now = h.p.Next(h.now, granted).Wake
	if todo := h.next(); !todo.Dial {
		t.Fatalf("not dialled again: %+v", todo)
	}
	h.p.Opened(10*time.Millisecond, h.now)
	if h.next(); h.p.State() != Subscribing { // what the source had may not be what it has
		t.Errorf("%v on the second link", h.p.State())
	}
}

// A source that declines the subscription meanwhile is asked for nothing more until it accepts.
func TestASourceThatDeclinesIsAskedForNothing(t *testing.T) {
	h := early(t)
	h.p.Declined(4*time.Second, "full", h.now)
	todo := h.next()
	if reasons(todo) != "0 source is busy" || len(todo.Cancel) == 0 || len(todo.Ended) != len(todo.Cancel) || todo.Want != 0 || !todo.Wake.Equal(h.now.Add(4*time.Second)) {
		t.Fatalf("declined: %+v", todo)
	}
	if todo = h.grant(1); reasons(todo) != "1 link lost" || len(todo.Requests) > 0 {
		t.Errorf("granted meanwhile: %+v", todo)
	}
	if todo = h.after(4 * time.Second); !todo.Subscribe {
		t.Errorf("not asked again: %+v", todo)
	}
	h.p.Subscribed(h.now)
	if todo = h.grant(1); len(todo.Requests) == 0 {
		t.Errorf("asked for nothing when it had accepted: %+v", todo)
	}
}

// A source that has sent what was asked for early, and does not answer the subscription, is given up.
func TestASourceThatNeverAnswersTheSubscriptionIsGivenUp(t *testing.T) {
	h := early(t)
	for id, r := range h.p.requests {
		h.p.Arrived(id, r.Bytes, h.now)
		h.p.Finished(id, h.now)
	}
	h.p.Verified(0, 0, int(h.p.layout.Blocks(0)), h.now)
	for range 9 {
		if todo := h.after(time.Second); todo.Close {
			t.Fatal("given up while there was time to answer")
		}
	}
	if todo := h.p.Next(h.now, granted); todo.Wake.After(h.now.Add(time.Second)) {
		t.Error("wants to be woken only at", todo.Wake)
	}
	if todo := h.after(time.Second); !todo.Close {
		t.Errorf("never answered: %+v", todo)
	}
}

func TestIdleIsNotFailed(t *testing.T) {
	h := ready(t, Config{}, 1<<20)
	if todo := h.next(); todo.Want == 0 {
		t.Fatal("wants nothing")
	}
	h.p.Refused("has none of the missing pieces", time.Time{}, h.now)
	todo := h.after(24 * time.Hour)
	if h.p.State() != Ready || todo.Want != 0 || !todo.Wake.IsZero() || todo.Dial || todo.Close {
		t.Fatalf("after a day of nothing: %v, %+v", h.p.State(), todo)
	}
	if why := h.p.Why(); why != "has none of the missing pieces" {
		t.Errorf("why: %s", why)
	}
	h.p.Available(h.now)
	if todo := h.next(); todo.Want == 0 {
		t.Fatal("not woken")
	}
	if why := h.p.Why(); why != "has none of the missing pieces" {
		t.Errorf("why, while it asks again: %s", why)
	}
	h.p.Refused("", h.now.Add(time.Second), h.now)
	todo = h.next()
	if todo.Want != 0 || !todo.Wake.Equal(h.now.Add(time.Second)) {
		t.Fatalf("refused for a second: %+v", todo)
	}
	if todo := h.after(time.Second); todo.Want == 0 {
		t.Fatal("does not ask again")
	}
}

func TestSilentLeaseManagerStopsRequestsAfterOneWindow(t *testing.T) {
	h := ready(t, Config{}, 64<<20)
	first := h.grant(0)
	// From here on nobody answers Want.
	asked := 0
	reqs := slices.Clone(first.Requests)
	for len(reqs) > 0 {
		for _, r := range reqs {
			asked += r.Bytes
		}
		h.serve(reqs, 1e6)
		todo := h.next()
		reqs = slices.Clone(todo.Requests)
	}
	if asked != share.MinPiece {
		t.Errorf("asked for %d bytes with one piece leased", asked)
	}
	if todo := h.after(time.Hour); len(todo.Requests) > 0 || h.p.State() != Ready {
		t.Errorf("%+v in %v", todo, h.p.State())
	}
}

func TestHeldLeasesStayNearTwoWindows(t *testing.T) {
	w := newWorld(t, Config{}, bigLayout(t), 25e6, 50*time.Millisecond)
	for i := range 200 {
		w.to(start.Add(time.Duration(i) * 50 * time.Millisecond))
		held := w.pool.inFlight + w.pool.ahead
		if limit := 2*w.pool.win.size + 2*share.MinPiece; held > limit && i > 40 { // the start asks for more, and works it off
			t.Fatalf("holds %d bytes with a window of %d", held, w.pool.win.size)
		}
	}
}

func TestInvariant32StopReturnsEverythingAtOnce(t *testing.T) {
	h := ready(t, Config{}, 8<<20)
	todo := h.grant(0, 1, 2)
	sent := len(todo.Requests)
	h.p.Stop("the transfer has ended", h.now)
	todo = h.next()
	if len(todo.Return) != 3 || len(todo.Ended) != sent || !todo.Gone || h.p.Leases() != 0 || !todo.Wake.IsZero() {
		t.Fatalf("stopped: %+v", todo)
	}
	for _, r := range todo.Return {
		if r.Why != Stopped {
			t.Errorf("piece %d: %v", r.Piece, r.Why)
		}
	}
	if todo := h.grant(4); reasons(todo) != "4 stopped" || len(todo.Requests) > 0 {
		t.Fatalf("a lease that comes late: %+v", todo)
	}
	if why := h.p.Why(); why != "the transfer has ended" {
		t.Error(why)
	}
}

func TestRevokedLeaseIsCancelledAndNeverAskedForAgain(t *testing.T) {
	h := ready(t, Config{}, 8<<20)
	todo := h.grant(0)
	reqs := slices.Clone(todo.Requests)
	h.p.Revoke(0, 99, h.now) // stale
	if todo := h.next(); len(todo.Cancel) > 0 {
		t.Fatal("a stale token revoked")
	}
	h.p.Revoke(0, 100, h.now)
	todo = h.next()
	if len(todo.Cancel) != len(reqs) || len(todo.Ended) != len(reqs) || len(todo.Return) > 0 || len(todo.Requests) > 0 {
		t.Fatalf("revoked: %+v", todo)
	}
	for _, r := range reqs { // what was under way
		h.p.Arrived(r.ID, 1000, h.now)
		h.p.Finished(r.ID, h.now)
	}
	if todo := h.next(); len(todo.Requests)+len(todo.Ended)+len(todo.Return) > 0 {
		t.Fatalf("after the end: %+v", todo)
	}
}

func TestInvariant33DeadPeerCostsOneDialPerBackoff(t *testing.T) {
	h := byHand(t, Config{}, 1<<20)
	var gaps []time.Duration
	last := h.now
	for range 12 {
		todo := h.next()
		if !todo.Dial {
			t.Fatalf("no dial at %v: %+v", h.now, todo)
		}
		gaps = append(gaps, h.now.Sub(last))
		last = h.now
		h.p.Lost(fmt.Errorf("%w: connection refused", peers.ErrUnreachable), h.now)
		todo = h.next()
		if todo.Dial || !todo.Wake.After(h.now) {
			t.Fatalf("after a failed dial: %+v", todo)
		}
		h.now = todo.Wake
	}
	for i, gap := range gaps[1:] {
		want := min(time.Second<<i, 30*time.Second)
		if gap < want*3/4 || gap > want*5/4 || gap > 30*time.Second {
			t.Errorf("wait %d: %v, about %v wanted", i+1, gap, want)
		}
	}
	if h.p.Dials() != 12 {
		t.Errorf("%d dials counted", h.p.Dials())
	}
}

func TestJitterComesFromTheSeed(t *testing.T) {
	wait := func(seed uint64) time.Time {
		p := New(Config{}, layoutOf(t, 1), seed, start)
		p.Next(start, nil)
		p.Lost(peers.ErrUnreachable, start)
		return p.Next(start, nil).Wake
	}
	first, again, other := wait(1), wait(1), wait(2)
	if first != again || first == other {
		t.Errorf("%v, %v, %v", first, again, other)
	}
}

func TestSuccessResetsTheRedial(t *testing.T) {
	h := byHand(t, Config{}, 1<<20)
	h.now = h.next().Wake
	for range 4 {
		h.p.Lost(peers.ErrUnreachable, h.now)
		h.now = h.next().Wake
		h.next()
	}
	h.p.Opened(time.Millisecond, h.now)
	h.next()
	h.p.Subscribed(h.now)
	todo := h.grant(0)
	if h.p.Dials() != 4 {
		t.Fatalf("%d failed dials: a connection alone is no success", h.p.Dials())
	}
	h.p.Arrived(todo.Requests[0].ID, 1, h.now)
	if h.p.Dials() != 0 {
		t.Fatalf("%d failed dials after a byte", h.p.Dials())
	}
	h.p.Lost(peers.ErrLost, h.now)
	if wait := h.next().Wake.Sub(h.now); wait > 1250*time.Millisecond {
		t.Errorf("waits %v after success", wait)
	}
}

// A source that has brought something is dialled often while it is away, and yet counts as away no sooner.
func TestASourceThatBroughtSomethingIsFoundSoonWhenItIsBack(t *testing.T) {
	for _, brought := range []bool{false, true} {
		h := byHand(t, Config{}, 1<<20)
		h.connect()
		if todo := h.grant(0); brought {
			h.p.Arrived(todo.Requests[0].ID, share.BlockSize, h.now)
		}
		left, soon, counted := h.now, true, 0
		for h.now.Sub(left) < 2*time.Minute {
			h.p.Lost(peers.ErrLost, h.now)
			wait := h.next().Wake.Sub(h.now)
			soon = soon && wait <= max(1250*time.Millisecond, h.now.Sub(left)*5/16)
			h.now = h.now.Add(wait)
			if h.now.Sub(left) < 15*time.Second {
				counted = h.p.Dials()
			}
			h.next()
		}
		if soon != brought || counted < 3 || counted > 5 {
			t.Errorf("brought something: %t; found soon: %t; %d failed dials in 15 s", brought, soon, counted)
		}
	}
}

// That ends, however often it takes a connection that it closes at once: it is away for as long as it brings nothing.
func TestASourceThatOnlyTakesConnectionsIsDialledLessAndLess(t *testing.T) {
	h := ready(t, Config{}, 1<<20)
	h.p.Arrived(h.grant(0).Requests[0].ID, share.BlockSize, h.now)
	left, dials := h.now, 0
	for ; h.now.Sub(left) < 5*time.Minute; dials++ {
		h.p.Lost(peers.ErrLost, h.now)
		h.now = h.next().Wake
		h.connect()
	}
	if dials > 40 {
		t.Errorf("%d dials in 5 minutes", dials)
	}
}

func TestWhoMayBeElsewhereIsDialledNow(t *testing.T) {
	h := ready(t, Config{}, 8<<20)
	if dials, todo := h.p.Elsewhere(h.now), h.next(); dials || todo.Dial || todo.Close {
		t.Fatal("a link that stands is given up")
	}
	h.p.Lost(peers.ErrUnreachable, h.now)
	h.next()
	if !h.p.Elsewhere(h.now) || !h.next().Dial {
		t.Error("it waits")
	}
}

func TestWhoAcceptsAndSaysNothingIsDialledEverMoreRarely(t *testing.T) {
	w := newWorld(t, Config{}, layoutOf(t, 64<<20), 1e6, 10*time.Millisecond)
	w.silent = true
	w.to(start.Add(10 * time.Minute))
	if w.dials > 40 || w.dials < 15 {
		t.Errorf("%d dials in 10 minutes", w.dials)
	}
}

func TestInvariant34LossOfOneSourceDoesNotDisturbAnother(t *testing.T) {
	run := func(other bool) string {
		a, b := ready(t, Config{}, 8<<20), ready(t, Config{}, 8<<20)
		todo := a.grant(0, 1)
		b.grant(2, 3)
		if other {
			b.p.Lost(peers.ErrLost, b.now)
			b.next()
			b.after(time.Minute)
		}
		a.serve(todo.Requests, 1e6)
		todo = a.next()
		return fmt.Sprint(todo.Requests, todo.Wake, todo.Want)
	}
	if run(false) != run(true) {
		t.Error("it does")
	}
}

func TestInvariant36BackoffsAreApart(t *testing.T) {
	h := byHand(t, Config{}, 8<<20)
	// Dials fail five times: the redial is far out.
	for range 5 {
		h.next()
		h.p.Lost(peers.ErrUnreachable, h.now)
		h.now = h.next().Wake
	}
	h.next()
	h.p.Opened(time.Millisecond, h.now)
	h.next()
	// The subscription is declined, which has a first wait of its own.
	h.p.Declined(0, "as many children as it can serve", h.now)
	todo := h.next()
	if wait := todo.Wake.Sub(h.now); wait > 1250*time.Millisecond || todo.Close || h.p.State() != Subscribing {
		t.Fatalf("waits %v to subscribe again, %+v", wait, todo)
	}
	if why := h.p.Why(); !strings.Contains(why, "as many children") {
		t.Error(why)
	}
	h.now = todo.Wake
	if todo = h.next(); !todo.Subscribe {
		t.Fatalf("does not subscribe again: %+v", todo)
	}
	h.p.Subscribed(h.now)
	// So has BUSY.
	todo = h.grant(0)
	h.p.Failed(todo.Requests[0].ID, Busy, 0, h.now)
	if todo = h.next(); todo.Wake.Sub(h.now) > 1250*time.Millisecond {
		t.Fatalf("waits %v for a busy source", todo.Wake.Sub(h.now))
	}
}

func TestServingResetsTheWaitForABusySource(t *testing.T) {
	h := ready(t, Config{HoldBusy: time.Hour, MaxRequests: 1}, 8<<20)
	todo := h.grant(0)
	for range 4 {
		h.p.Failed(todo.Requests[0].ID, Busy, 0, h.now)
		h.now = h.next().Wake
		todo = h.next()
	}
	h.p.Finished(todo.Requests[0].ID, h.now)
	todo = h.next()
	h.p.Failed(todo.Requests[0].ID, Busy, 0, h.now)
	if wait := h.next().Wake.Sub(h.now); wait > 1250*time.Millisecond {
		t.Errorf("waits %v", wait)
	}
}

func TestSubscribingResetsItsWait(t *testing.T) {
	h := byHand(t, Config{}, 1<<20)
	for range 2 {
		h.next()
		h.p.Opened(time.Millisecond, h.now)
		for i := range 4 {
			h.next()
			h.p.Declined(0, "full", h.now)
			todo := h.next()
			if wait := todo.Wake.Sub(h.now); wait > (time.Second<<i)*5/4 {
				t.Errorf("waits %v after %d times", wait, i+1)
			}
			h.now = todo.Wake
		}
		h.next()
		h.p.Subscribed(h.now)
		h.p.Lost(peers.ErrLost, h.now)
		h.now = h.next().Wake
	}
}

func TestSourceThatGaveNothingIsAskedForLittleAtFirst(t *testing.T) {
	h := ready(t, Config{}, 8<<20)
	if todo := h.grant(0); len(todo.Requests) != 4 {
		t.Fatalf("%d requests", len(todo.Requests))
	}
	h.now = h.after(5 * time.Second).Wake
	h.connect()
	if todo := h.grant(1); len(todo.Requests) != 2 {
		t.Errorf("%d requests after a link that gave nothing", len(todo.Requests))
	}
}

func TestRoundTripIsTheLeastThatWasSeen(t *testing.T) {
	h := byHand(t, Config{}, 8<<20)
	h.next()
	h.p.Opened(time.Second, h.now)
	h.next()
	h.p.Subscribed(h.now)
	todo := h.grant(0)
	h.now = h.now.Add(20 * time.Millisecond)
	h.p.Finished(todo.Requests[0].ID, h.now)
	if _, rtt, _ := h.p.Measure(); rtt != 20*time.Millisecond {
		t.Errorf("round trip of %v", rtt)
	}
}

func TestLinkThatHeldIsASuccessWithoutBytes(t *testing.T) {
	h := byHand(t, Config{}, 1<<20)
	for range 4 {
		h.next()
		h.p.Lost(peers.ErrUnreachable, h.now)
		h.now = h.next().Wake
	}
	h.connect()
	h.now = h.now.Add(30 * time.Second)
	h.p.Lost(peers.ErrLost, h.now)
	if wait := h.next().Wake.Sub(h.now); wait > 1250*time.Millisecond || h.p.Dials() != 1 {
		t.Errorf("waits %v, %d dials counted", wait, h.p.Dials())
	}
}

// The answer to an earlier subscription may come just before that to the last one, which counts.
func TestDeclinedAfterItWasAcceptedSubscribesAgain(t *testing.T) {
	h := ready(t, Config{}, 8<<20)
	h.grant(0)
	h.p.Declined(4*time.Second, "full", h.now)
	todo := h.next()
	if len(todo.Return) != 1 || todo.Return[0].Why != SourceBusy || todo.Close || h.p.State() != Subscribing || todo.Wake.Sub(h.now) != 4*time.Second {
		t.Fatalf("%+v, %v", todo, h.p.State())
	}
	h.now = todo.Wake
	if todo = h.next(); !todo.Subscribe {
		t.Errorf("does not subscribe again: %+v", todo)
	}
}

func TestDeclinedForEverEndsThePool(t *testing.T) {
	h := byHand(t, Config{}, 1)
	h.next()
	h.p.Opened(0, h.now)
	h.next()
	h.p.Declined(-1, "does not have the share", h.now)
	if todo := h.next(); !todo.Gone || h.p.Why() != "does not have the share" {
		t.Errorf("%+v: %s", todo, h.p.Why())
	}
}

func TestUnansweredSubscriptionIsGivenUp(t *testing.T) {
	h := byHand(t, Config{SubscribeFor: 3 * time.Second}, 1)
	h.next()
	h.p.Opened(0, h.now)
	todo := h.next()
	if !todo.Wake.Equal(h.now.Add(3 * time.Second)) {
		t.Fatalf("alarm in %v", todo.Wake.Sub(h.now))
	}
	if todo = h.after(3 * time.Second); !todo.Close || h.p.State() != Waiting {
		t.Errorf("%+v in %v", todo, h.p.State())
	}
}

func TestUnansweredDialIsGivenUp(t *testing.T) {
	h := byHand(t, Config{DialFor: 3 * time.Second}, 1)
	if todo := h.next(); !todo.Wake.Equal(h.now.Add(3 * time.Second)) {
		t.Fatalf("alarm in %v", todo.Wake.Sub(h.now))
	}
	if todo := h.after(3 * time.Second); !todo.Close || h.p.State() != Waiting {
		t.Errorf("%+v in %v", todo, h.p.State())
	}
}

func TestSilenceReturnsLeasesAndRedials(t *testing.T) {
	h := ready(t, Config{}, 8<<20)
	todo := h.grant(0, 1)
	if !todo.Wake.Equal(h.now.Add(5 * time.Second)) {
		t.Fatalf("alarm in %v, want 5 s for a source not yet measured", todo.Wake.Sub(h.now))
	}
	h.after(5*time.Second - 1)
	if h.p.State() != Ready {
		t.Fatal("gave up too early")
	}
	todo = h.after(1)
	if !todo.Close || h.p.State() != Waiting || reasons(todo) != "0 missed its deadline, 1 link lost" {
		t.Fatalf("silent for 5 s: %s, %+v", reasons(todo), todo)
	}
	if why := h.p.Why(); why != "silent for 5 s; trying again in 1 s" {
		t.Error(why)
	}
}

func TestMeasuredSourceIsFoundDeadWithinSeconds(t *testing.T) {
	w := newWorld(t, Config{}, bigLayout(t), 10e6, 50*time.Millisecond)
	w.to(start.Add(5 * time.Second))
	w.silent = true
	at := w.now
	for w.pool.State() == Ready {
		w.to(w.now.Add(100 * time.Millisecond))
	}
	if took := w.now.Sub(at); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
	if w.back[MissedDeadline] == 0 {
		t.Error("nothing returned")
	}
}

// A new lease does not restart the time of silence, but a new link does.
func TestSilenceGoesOnFromLeaseToLease(t *testing.T) {
	h := ready(t, Config{}, 8<<20)
	h.serve(h.grant(0).Requests, 1e6)
	h.p.Revoke(0, 100, h.now)
	todo := h.grant(1) // of a source that is measured
	h.now = h.now.Add(time.Second)
	h.p.Partial(todo.Requests[0].ID, 1, h.now)
	todo = h.after(3 * time.Second)
	if reasons(todo) != "1 missed its deadline" || h.p.State() != Ready {
		t.Fatalf("%s in %v", reasons(todo), h.p.State())
	}
	h.grant(2)
	if todo = h.after(1800 * time.Millisecond); h.p.State() != Waiting || h.p.LastLoss() != "silent for 5 s" {
		t.Fatalf("%+v in %v: %s", todo, h.p.State(), h.p.LastLoss())
	}
	h.after(2 * time.Second)
	h.connect()
	h.grant(3)
	if todo = h.after(4 * time.Second); h.p.State() != Ready {
		t.Errorf("%+v in %v: %s", todo, h.p.State(), h.p.LastLoss())
	}
}

// Nor does a lease that was taken away, but no answer is expected within a round trip.
func TestSilenceGoesOnWhenLeasesAreRevoked(t *testing.T) {
	h := ready(t, Config{}, 8<<20)
	h.serve(h.grant(0).Requests, 1e6)
	h.p.Revoke(0, 100, h.now)
	for range 1000 {
		h.grant(1)
		h.after(10 * time.Millisecond)
		h.p.Revoke(1, 101, h.now)
	}
	h.grant(2)
	h.after(1500 * time.Millisecond)
	h.p.Revoke(2, 102, h.now)
	h.now = h.now.Add(time.Minute) // there was nothing to answer, and it may have come back
	h.grant(3)
	if h.after(1500 * time.Millisecond); h.p.State() != Ready {
		t.Fatalf("%v: %s", h.p.State(), h.p.LastLoss())
	}
	h.p.Revoke(3, 103, h.now)
	h.after(time.Second)
	h.grant(4)
	if h.after(100 * time.Millisecond); h.p.State() != Ready {
		t.Fatalf("%v: %s", h.p.State(), h.p.LastLoss())
	}
	if h.after(1500 * time.Millisecond); h.p.State() != Waiting {
		t.Errorf("%v, and it has been silent for 3 s", h.p.State())
	}
}

// Only after a link that gave nothing less is asked for at first, and silence is borne for longer.
func TestALinkThatGaveSomethingIsFollowedByOneLikeIt(t *testing.T) {
	h := ready(t, Config{}, 8<<20)
	h.serve(h.grant(0).Requests[:1], 1e6)
	for _, c := range []struct {
		bytes int
		bears time.Duration
	}{{256 << 10, 3 * time.Second}, {128 << 10, 5 * time.Second}, {128 << 10, 9 * time.Second}} {
		h.p.Lost(errors.New("reset"), h.now)
		h.after(10 * time.Second)
		h.connect()
		bytes := 0
		for _, r := range h.grant(1).Requests {
			bytes += r.Bytes
		}
		if bytes != c.bytes {
			t.Errorf("%d bytes are asked for at first, want %d", bytes, c.bytes)
		}
		if h.after(c.bears - time.Second); h.p.State() != Ready {
			t.Errorf("given up before %v", c.bears-time.Second)
		}
		if h.after(time.Second); h.p.State() != Waiting {
			t.Errorf("%v after %v of silence", h.p.State(), c.bears)
		}
	}
}

func TestFarSourceMayBeSilentForFourRoundTripsMore(t *testing.T) {
	w := newWorld(t, Config{}, bigLayout(t), 10e6, time.Second)
	w.to(start.Add(30 * time.Second))
	w.silent = true
	w.to(w.now.Add(5900 * time.Millisecond))
	if w.pool.State() != Ready {
		t.Fatal("given up too early")
	}
	w.to(w.now.Add(3 * time.Second))
	if w.pool.State() == Ready {
		t.Error("not given up")
	}
}

func TestSourceThatTurnsSlowGivesBackWhatItHasNotBegun(t *testing.T) {
	sizes := make([]int64, 5000)
	for i := range sizes {
		sizes[i] = 100 << 10
	}
	w := newWorld(t, Config{}, layoutOf(t, sizes...), 20e6, 100*time.Millisecond)
	w.to(start.Add(5 * time.Second))
	before := w.pool.Leases()
	w.parts = true
	w.rate = func(time.Time) float64 { return 20e3 }
	w.to(start.Add(30 * time.Second))
	t.Logf("%d leases before, %d after; returned %v", before, w.pool.Leases(), w.back)
	if w.back[Unneeded] == 0 || w.pool.Leases() > 8 {
		t.Errorf("holds %d leases at 20 kB/s, returned %v", w.pool.Leases(), w.back)
	}
}

func TestLeaseOfWhichNothingComesReturnsAlone(t *testing.T) {
	h := ready(t, Config{}, 8<<20, 100<<10)
	h.p.Grant([]Work{{Piece: 8, Token: 1}, {Piece: 0, Token: 2}}, h.now)
	todo := h.next()
	reqs := slices.Clone(todo.Requests)
	if reqs[0].Piece != 8 || reqs[len(reqs)-1].Piece != 0 {
		t.Fatalf("asked for %+v", reqs)
	}
	var back string
	for range 700 { // piece 0 flows, piece 8 does not
		h.now = h.now.Add(100 * time.Millisecond)
		for _, r := range reqs {
			if r.Piece == 0 {
				h.p.Arrived(r.ID, 100, h.now)
			}
		}
		todo = h.next()
		if back += reasons(todo); back != "" {
			break
		}
	}
	if back != "8 missed its deadline" || h.p.State() != Ready || len(todo.Cancel) != 2 {
		t.Errorf("returned %q in %v, cancelled %d", back, h.p.State(), len(todo.Cancel))
	}
}

func TestDeadlineOfAnUnmeasuredSourceIsSetAgainWhenItIsMeasured(t *testing.T) {
	// Four leases of 100 KiB at 10 KB/s: the last begins after 30 s.
	w := newWorld(t, Config{}, layoutOf(t, 100<<10, 100<<10, 100<<10, 100<<10), 10e3, 20*time.Millisecond)
	w.parts = true
	w.to(start.Add(time.Minute))
	if len(w.back) > 0 || w.arrived != 400<<10 {
		t.Errorf("returned %v, %d bytes arrived", w.back, w.arrived)
	}
}

func TestBusyWaitsAsLongAsItIsTold(t *testing.T) {
	h := ready(t, Config{}, 8<<20)
	todo := h.grant(0)
	reqs := slices.Clone(todo.Requests)
	h.p.Failed(reqs[3].ID, Busy, 400*time.Millisecond, h.now)
	todo = h.next()
	if len(todo.Requests) > 0 || todo.Want > 0 || len(todo.Return) > 0 || !todo.Wake.Equal(h.now.Add(400*time.Millisecond)) {
		t.Fatalf("busy: %+v", todo)
	}
	if why := h.p.Why(); why != "is busy; is asked again in 400 ms" {
		t.Error(why)
	}
	h.serve(reqs[:3], 1e6) // those that it accepted are served
	if h.now.Sub(start) < 400*time.Millisecond {
		h.now = start.Add(400 * time.Millisecond)
	}
	todo = h.next()
	if len(todo.Requests) == 0 || todo.Requests[0].First != 4 && todo.Requests[0].First != 3 {
		t.Fatalf("asked again for %+v", todo.Requests)
	}
}

func TestLongBusyReturnsIdleLeases(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{{Config{}, "0 source is busy, 1 source is busy"}, {Config{HoldBusy: time.Minute}, ""}} {
		h := ready(t, c.cfg, 8<<20)
		todo := h.grant(0, 1)
		for _, r := range slices.Clone(todo.Requests) {
			h.p.Failed(r.ID, Busy, 5*time.Second, h.now)
		}
		todo = h.next()
		slices.SortFunc(todo.Return, func(a, b Return) int { return int(a.Piece) - int(b.Piece) })
		if reasons(todo) != c.want {
			t.Errorf("%+v: returned %q", c.cfg, reasons(todo))
		}
		if todo = h.after(5 * time.Second); todo.Want == 0 && len(todo.Requests) == 0 {
			t.Error("does not ask again")
		}
	}
}

func TestBusySourceIsAskedForLessAtOnce(t *testing.T) {
	h := ready(t, Config{}, 8<<20)
	todo := h.grant(0)
	was := len(todo.Requests)
	for _, r := range slices.Clone(todo.Requests) {
		h.p.Failed(r.ID, Busy, 100*time.Millisecond, h.now)
	}
	h.next()
	todo = h.after(100 * time.Millisecond)
	if len(todo.Requests) != was/2 {
		t.Errorf("%d requests after BUSY to %d", len(todo.Requests), was)
	}
	for range 200 { // and more again when it serves
		h.serve(todo.Requests, 50e6)
		if todo = h.next(); len(todo.Requests) == 0 {
			break
		}
	}
	if h.p.pipeline <= was/2 {
		t.Errorf("pipeline stays at %d", h.p.pipeline)
	}
}

// A lease that comes twice is not begun anew.
func TestALeaseThatComesTwiceIsOne(t *testing.T) {
	h := ready(t, Config{}, 1<<20)
	first := h.grant(0)
	if again := h.grant(0); len(again.Cancel)+len(again.Requests) > 0 || reasons(again) != "0 not needed" {
		t.Errorf("%d requests before; then %+v", len(first.Requests), again)
	}
}

// What a source does not have is remembered within a bound.
func TestAbsentPiecesAreForgottenWhenThereAreTooMany(t *testing.T) {
	rig.Slow(t)
	h := ready(t, Config{AbsentFor: time.Hour}, 2*maxAbsent<<20)
	for p := range share.Piece(maxAbsent + 10) {
		for _, r := range h.grant(p).Requests {
			h.p.Failed(r.ID, NotFound, 0, h.now)
		}
		h.p.Announced([]share.Piece{2*maxAbsent - 1}, h.now) // it has something: no rest
		h.p.pause = time.Time{}
	}
	if n := len(h.p.absent); n == 0 || n > maxAbsent {
		t.Errorf("%d pieces are remembered", n)
	}
}

func TestNotFoundReturnsTheLeaseAndIsRemembered(t *testing.T) {
	h := ready(t, Config{AbsentFor: 20 * time.Second}, 8<<20)
	todo := h.grant(0, 1)
	h.p.Failed(todo.Requests[0].ID, NotFound, 0, h.now)
	todo = h.next()
	if reasons(todo) != "0 source does not have the piece" {
		t.Fatalf("returned %s", reasons(todo))
	}
	h.p.Grant([]Work{{Piece: 0, Token: 500}}, h.now)
	if todo = h.next(); reasons(todo) != "0 not needed" {
		t.Fatalf("leased again: %+v", todo)
	}
	h.now = h.now.Add(20 * time.Second)
	h.p.Revoke(1, 101, h.now)
	h.p.Grant([]Work{{Piece: 0, Token: 501}}, h.now)
	if todo = h.next(); len(todo.Return) > 0 || len(todo.Requests) == 0 {
		t.Fatalf("not asked again later: %+v", todo)
	}
	h.p.Failed(todo.Requests[0].ID, NotFound, 0, h.now)
	h.p.Announced([]share.Piece{0}, h.now)
	h.p.Grant([]Work{{Piece: 0, Token: 502}}, h.now)
	if todo = h.next(); len(todo.Requests) == 0 {
		t.Fatalf("not asked again when announced: %+v", todo)
	}
}

func TestSourceThatHasNothingItClaimsIsAskedRarely(t *testing.T) {
	h := ready(t, Config{}, 64<<20)
	asked := 0
	for p := share.Piece(0); p < 60 && h.now.Before(start.Add(time.Minute)); {
		todo := h.next()
		if todo.Want == 0 {
			h.now = todo.Wake
			continue
		}
		todo = h.grant(p)
		p++
		asked++
		h.p.Failed(todo.Requests[0].ID, NotFound, 0, h.now)
	}
	if asked > 16 {
		t.Errorf("asked %d times in a minute", asked)
	}
	if why := h.p.Why(); !strings.Contains(why, "does not have what it announced") {
		t.Error(why)
	}
}

func TestGoneAndRefusedEndThePool(t *testing.T) {
	for how, why := range map[Outcome]string{NoShare: "the source no longer has the share", Refused: "the source refuses to serve this node"} {
		h := ready(t, Config{}, 8<<20)
		todo := h.grant(0, 1)
		h.p.Failed(todo.Requests[0].ID, how, 0, h.now)
		todo = h.next()
		if !todo.Gone || len(todo.Return) != 2 || h.p.Why() != why {
			t.Errorf("%v: %+v, %s", how, todo, h.p.Why())
		}
		if todo = h.after(time.Hour); todo.Dial {
			t.Error("dials again")
		}
	}
}

func TestPeerThatBreaksTheProtocolThreeTimesIsGone(t *testing.T) {
	h := byHand(t, Config{}, 1)
	for i := range 3 {
		h.next()
		h.p.Lost(fmt.Errorf("frame too long: %w", peers.ErrProtocol), h.now)
		if todo := h.next(); todo.Gone != (i == 2) {
			t.Fatalf("time %d: gone %v", i+1, todo.Gone)
		} else if !todo.Gone {
			h.now = todo.Wake
		}
	}
}

func TestStarvedPoolAsksOnceThereIsRoom(t *testing.T) {
	h := ready(t, Config{}, 8<<20)
	h.p.Grant([]Work{{Piece: 0, Token: 1}}, h.now)
	room := 2 * share.BlockSize
	take := func(n int) Permission {
		if n > room {
			return NoMemory
		}
		room -= n
		return Granted
	}
	todo := h.p.Next(h.now, take)
	if !todo.Starved || len(todo.Requests) != 2 {
		t.Fatalf("%+v", todo)
	}
	for _, r := range slices.Clone(todo.Requests) {
		h.p.Finished(r.ID, h.now.Add(time.Millisecond))
	}
	h.now = h.now.Add(time.Millisecond)
	todo = h.p.Next(h.now, take)
	if !todo.Starved || len(todo.Requests) != 0 || !strings.Contains(h.p.Why(), "memory") {
		t.Fatalf("%+v: %s", todo, h.p.Why())
	}
	room = 8 << 20
	if todo = h.p.Next(h.now, take); todo.Starved || len(todo.Requests) == 0 {
		t.Fatalf("%+v", todo)
	}
}

func TestHedgeWorksFromTheTailAndOnlyOnWhatIsMissing(t *testing.T) {
	h := ready(t, Config{}, 1<<20)
	have := make([]bool, 16)
	have[15], have[12] = true, true
	h.p.Grant([]Work{{Piece: 0, Token: 1, Have: have, Proven: true, Hedge: true}}, h.now)
	todo := h.next()
	var got []share.Block
	for _, r := range todo.Requests {
		if r.Proof {
			t.Error("asks for a proof that is known")
		}
		got = append(got, r.First)
	}
	if fmt.Sprint(got) != "[14 13 11 10]" {
		t.Fatalf("asked for %v", got)
	}
	// The other holder is faster than expected: what it was given is neither asked for nor waited for.
	h.p.Verified(0, 0, 12, h.now)
	todo = h.next()
	if len(todo.Cancel) != 2 || len(todo.Requests) != 0 {
		t.Fatalf("after the others came: %+v", todo)
	}
	h.p.Verified(0, 13, 2, h.now)
	if h.next(); h.p.Leases() != 0 {
		t.Error("the lease did not end")
	}
}

func TestLeaseForAHeldPieceReplacesTheOlder(t *testing.T) {
	h := ready(t, Config{}, 8<<20)
	sent := len(h.grant(0).Requests)
	h.p.Grant([]Work{{Piece: 0, Token: 900}}, h.now)
	todo := h.next()
	if len(todo.Cancel) != sent || len(todo.Return) > 0 || todo.Requests[0].Token != 900 {
		t.Fatalf("%+v", todo)
	}
	h.p.Grant([]Work{{Piece: 0, Token: 100}}, h.now)
	if todo = h.next(); reasons(todo) != "0 not needed" || len(todo.Cancel) > 0 {
		t.Fatalf("an older one: %+v", todo)
	}
}

func TestLeasesThatComeWhileTheLinkIsDownReturn(t *testing.T) {
	h := ready(t, Config{}, 8<<20)
	h.p.Lost(peers.ErrLost, h.now)
	h.next()
	if todo := h.grant(0); reasons(todo) != "0 link lost" {
		t.Errorf("%+v", todo)
	}
	h.p.Lost(errors.New("again"), h.now) // reported twice: no second back-off
	if h.p.Dials() != 1 {
		t.Errorf("%d dials counted", h.p.Dials())
	}
}

func TestSourceThatTurnsSlowGivesBackWhatItCannotDo(t *testing.T) {
	w := newWorld(t, Config{}, bigLayout(t), 50e6, 20*time.Millisecond)
	w.to(start.Add(5 * time.Second))
	before := w.pool.Leases()
	w.parts = true
	w.rate = func(time.Time) float64 { return 20e3 }
	w.to(start.Add(60 * time.Second))
	t.Logf("%d leases before, %d after; returned %v", before, w.pool.Leases(), w.back)
	if w.pool.Leases() > 3 {
		t.Errorf("holds %d leases at 20 kB/s", w.pool.Leases())
	}
	if w.pool.State() != Ready || w.dials > 1 {
		t.Errorf("%v after %d dials: it was honest", w.pool.State(), w.dials)
	}
}

// Only the large pieces of a share of many small files are left. A pool that gave
// them all back, because one is more than a window, would get them again at
// once, and never ask for anything.
func TestLargePiecesAmongSmallOnesAreAskedFor(t *testing.T) {
	sizes := make([]int64, 600)
	for i := range sizes {
		sizes[i] = 5000
	}
	first := share.Piece(len(sizes))
	h := ready(t, Config{}, append(sizes, 16<<20)...)
	left := map[share.Piece]bool{}
	for p := range share.Piece(16) {
		left[first+p] = true
	}
	token, granted, came := share.Token(0), 0, 0
	todo := h.next()
	for rounds := 0; came < 16<<20; rounds++ {
		if rounds > 1000 {
			t.Fatalf("%d bytes came; %d pieces were leased", came, granted)
		}
		for _, r := range todo.Return {
			left[r.Piece] = true
		}
		for _, r := range todo.Requests {
			came += r.Bytes
		}
		h.serve(todo.Requests, 10e6)
		var works []Work
		for p := first; p < first+16 && len(works) < todo.Want; p++ {
			if left[p] {
				token++
				works = append(works, Work{Piece: p, Token: token})
				delete(left, p)
			}
		}
		granted += len(works)
		h.p.Grant(works, h.now)
		todo = h.next()
	}
	if granted > 32 {
		t.Errorf("16 pieces were leased %d times", granted)
	}
}

func TestConfigBoundsWindowRequestsAndLeases(t *testing.T) {
	w := newWorld(t, Config{MaxWindow: 1 << 20, MaxRequest: 128 << 10}, bigLayout(t), 100e6, 100*time.Millisecond)
	w.to(start.Add(5 * time.Second))
	if w.most > 1<<20 || w.largest > 128<<10 {
		t.Errorf("%d in flight, requests of %d", w.most, w.largest)
	}
	h := ready(t, Config{FirstWindow: 512 << 10, MaxRequests: 3}, 8<<20)
	if todo := h.grant(0); len(todo.Requests) != 3 {
		t.Errorf("%d requests in flight of 3", len(todo.Requests))
	}
	h = ready(t, Config{FirstWindow: 512 << 10}, 8<<20)
	if todo := h.grant(0); len(todo.Requests) != 8 {
		t.Errorf("%d requests in a first window of 512 KiB", len(todo.Requests))
	}
	h = ready(t, Config{MaxLeases: 2}, 8<<20)
	if todo := h.grant(0, 1, 2); reasons(todo) != "2 not needed" {
		t.Errorf("returned %q", reasons(todo))
	}
	slow := newWorld(t, Config{MinWindow: 512 << 10}, layoutOf(t, 8<<20), 10e3, time.Millisecond)
	slow.parts = true
	slow.to(start.Add(5 * time.Minute))
	if slow.pool.win.size != 512<<10 {
		t.Errorf("window of %d", slow.pool.win.size)
	}
	if c := (Config{FirstWindow: 1, MinWindow: 1, MaxWindow: 1, MaxRequest: 1, RedialMin: time.Minute}).withDefaults(); c.FirstWindow != 128<<10 || c.MaxWindow != 128<<10 || c.MaxRequest != 64<<10 || c.RedialMax != time.Minute {
		t.Errorf("%+v", c)
	}
}

func TestConfigOfTimes(t *testing.T) {
	rig.Slow(t)
	h := ready(t, Config{Patience: peers.Patience{First: time.Second}}, 8<<20)
	if todo := h.grant(0); !todo.Wake.Equal(h.now.Add(time.Second)) {
		t.Errorf("First: alarm in %v", todo.Wake.Sub(h.now))
	}
	dead := func(cfg Config) time.Duration {
		w := newWorld(t, cfg, bigLayout(t), 10e6, 50*time.Millisecond)
		w.to(start.Add(3 * time.Second))
		w.silent = true
		for at := w.now; ; w.to(w.now.Add(50 * time.Millisecond)) {
			if w.pool.State() != Ready {
				return w.now.Sub(at)
			}
		}
	}
	if a, b := dead(Config{}), dead(Config{Patience: peers.Patience{Slack: 6 * time.Second}}); b-a < 3900*time.Millisecond {
		t.Errorf("Slack: dead after %v and %v", a, b)
	}
	p := New(Config{RedialMin: 100 * time.Millisecond, RedialMax: 200 * time.Millisecond}, layoutOf(t, 1), 1, start)
	now := start
	for range 5 {
		p.Next(now, nil)
		p.Lost(peers.ErrLost, now)
		wake := p.Next(now, nil).Wake
		if wait := wake.Sub(now); wait > 200*time.Millisecond || wait < 75*time.Millisecond {
			t.Errorf("redial in %v", wait)
		}
		now = wake
	}
	// Slack and Recheck concern the window.
	used := func(cfg Config) *world {
		w := newWorld(t, cfg, bigLayout(t), 50e6, time.Millisecond)
		w.to(start.Add(30 * time.Second))
		return w
	}
	if a, b := used(Config{Turnaround: 2 * time.Millisecond}), used(Config{}); b.pool.win.size < 2*a.pool.win.size {
		t.Errorf("Turnaround: windows of %d and %d", a.pool.win.size, b.pool.win.size)
	}
	grown := func(cfg Config) time.Duration {
		w := newWorld(t, cfg, bigLayout(t), 5e6, 40*time.Millisecond)
		w.to(start.Add(5 * time.Second))
		w.rtt = 100 * time.Millisecond
		w.to(start.Add(9 * time.Second))
		return w.pool.win.rtt
	}
	if a, b := grown(Config{Recheck: 30 * time.Second}), grown(Config{Recheck: time.Second}); b < 90*time.Millisecond || a >= 90*time.Millisecond {
		t.Errorf("Recheck: round trips of %v and %v", a, b)
	}
}

func TestMeasureTellsRateAndRoundTrip(t *testing.T) {
	w := newWorld(t, Config{}, bigLayout(t), 10e6, 50*time.Millisecond)
	if _, _, known := w.pool.Measure(); known {
		t.Error("known before anything was asked")
	}
	w.to(start.Add(10 * time.Second))
	rate, rtt, known := w.pool.Measure()
	if !known || rate < 9.5e6 || rate > 10.5e6 || rtt < 45*time.Millisecond || rtt > 60*time.Millisecond {
		t.Errorf("%.0f B/s, %v, %v", rate, rtt, known)
	}
}

// Whoever decides about hedges hears soon of a source that has become slow, and not when the
// first block has come, at 25 kB/s after seconds.
func TestASlowSourceIsMeasuredBeforeItsRequestsEnd(t *testing.T) {
	w := newWorld(t, Config{}, bigLayout(t), 2.5e6, 40*time.Millisecond)
	w.parts = true
	w.to(start.Add(5 * time.Second))
	w.rate = func(time.Time) float64 { return 25e3 }
	w.to(start.Add(7500 * time.Millisecond))
	if rate, _, _ := w.pool.Measure(); rate > 0.4e6 {
		t.Errorf("measured %.0f B/s after 2.5 s at 25 kB/s", rate)
	}
	w.to(start.Add(20 * time.Second))
	if rate, _, _ := w.pool.Measure(); rate < 20e3 || rate > 50e3 {
		t.Errorf("measured %.0f B/s after 15 s at 25 kB/s", rate)
	}
}

// Bytes that came early count once.
func TestBytesOfAnIncompleteRunCountOnce(t *testing.T) {
	h := ready(t, Config{}, 1<<20)
	r := h.grant(0).Requests[0]
	h.p.Partial(r.ID, 1000, h.now)
	h.p.Arrived(r.ID, share.BlockSize, h.now)
	h.p.Partial(r.ID, 500, h.now)
	if got := h.p.win.delivered; got != share.BlockSize+500 {
		t.Errorf("%d bytes came", got)
	}
}

func TestEveryStateAndReasonHasAWord(t *testing.T) {
	for s := Idle; s <= Gone; s++ {
		if s.String() == "" {
			t.Error(s)
		}
	}
	for r := MissedDeadline; r <= Unneeded; r++ {
		if r.String() == "" {
			t.Error(r)
		}
	}
	h := byHand(t, Config{}, 8<<20)
	said := []string{h.p.Why()}
	h.next()
	said = append(said, h.p.Why())
	h.p.Opened(0, h.now)
	h.next()
	said = append(said, h.p.Why())
	h.p.Subscribed(h.now)
	h.next()
	said = append(said, h.p.Why())
	h.grant(0)
	said = append(said, h.p.Why())
	h.p.Lost(errors.New("connection reset"), h.now)
	said = append(said, h.p.Why())
	h.after(2 * time.Second)
	said = append(said, h.p.Why())
	h.p.Opened(0, h.now)
	h.next()
	said = append(said, h.p.Why())
	if h.p.LastLoss() != "connection reset" {
		t.Errorf("of the loss before it says %q", h.p.LastLoss())
	}
	if h.p.Subscribed(h.now); h.p.LastLoss() != "" {
		t.Errorf("when it works it still says %q", h.p.LastLoss())
	}
	want := "not begun; connecting; asking what it has; waiting for leases; fetching; connection reset; trying again in 1 s; connection reset; trying again; asking what it has"
	if got := strings.Join(said, "; "); got != want {
		t.Errorf("said %q\nwant %q", got, want)
	}
}

func BenchmarkSmallPieces(b *testing.B) {
	sizes := make([]int64, 4096)
	for i := range sizes {
		sizes[i] = 10 << 10
	}
	p := New(Config{}, layoutOf(b, sizes...), 1, start)
	now := start
	take := granted
	p.Next(now, take)
	p.Opened(time.Millisecond, now)
	p.Next(now, take)
	p.Subscribed(now)
	var live []Request
	next, token := 0, share.Token(0)
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(20 * time.Microsecond)
		todo := p.Next(now, take)
		live = append(live, todo.Requests...)
		var works []Work
		for range min(todo.Want, 64) {
			token++
			works = append(works, Work{Piece: share.Piece(next % 4096), Token: token})
			next++
		}
		p.Grant(works, now)
		if len(live) > 0 {
			p.Arrived(live[0].ID, live[0].Bytes, now)
			p.Finished(live[0].ID, now)
			live = live[1:]
		}
	}
}

// Under a limit of the node a pool asks for little at a time and holds few leases.
func TestALimitKeepsRequestsAndLeasesSmall(t *testing.T) {
	h := ready(t, Config{FirstWindow: 8 << 20}, 64<<20)
	var works []Work
	for p := range share.Piece(32) {
		works = append(works, Work{Piece: p, Token: share.Token(p + 1)})
	}
	h.p.Grant(works, h.now)
	h.p.win.rate = 100e6
	if todo := h.next(); todo.Requests[0].Bytes != 1<<20 {
		t.Fatalf("asks for %d bytes without a limit", todo.Requests[0].Bytes)
	}
	h.p.Refused("", time.Time{}, h.now)
	h.p.Limit(4e6, "this node", h.now)
	todo := h.next()
	if len(todo.Return) < 10 || todo.Return[0].Why != Unneeded {
		t.Errorf("%d of 32 leases are given back", len(todo.Return))
	}
	for _, r := range todo.Requests {
		if r.Bytes != 3*share.BlockSize { // in 50 ms
			t.Errorf("asks for %d bytes below a limit of 4 MB/s", r.Bytes)
		}
	}
	if n := h.p.Leases(); todo.Want > 0 || n > 16 {
		t.Errorf("wants %d more than the %d leases it holds", todo.Want, n)
	}
	h.p.Limit(0, "this node", h.now)
	if todo := h.next(); todo.Want == 0 {
		t.Error("wants nothing after the limit was lifted, because it was refused below it")
	}
}

func TestWhyNamesTheLimitAsLongAsItHolds(t *testing.T) {
	h := ready(t, Config{}, 8<<20)
	h.p.Limit(1e6, "this node", h.now)
	h.p.Grant([]Work{{Piece: 0, Token: 1}}, h.now)
	next := func(l Permission) Todo { return h.p.Next(h.now, func(int) Permission { return l }) }
	if todo := next(TooSoon); !todo.Paced || todo.Starved || h.p.Why() == "paced by the download limit of this node" {
		t.Errorf("paced %v, starved %v: %s", todo.Paced, todo.Starved, h.p.Why())
	}
	h.now = h.now.Add(600 * time.Millisecond)
	if todo := next(Granted); todo.Paced || h.p.Why() != "paced by the download limit of this node" {
		t.Errorf("paced %v between two turns: %s", todo.Paced, h.p.Why())
	}
	h.now = h.now.Add(time.Second)
	if next(Granted); h.p.Why() != "fetching" {
		t.Error(h.p.Why())
	}
	for range 20 { // the source is slower than the limit: it waits for that for a tenth of the time
		next(TooSoon)
		h.now = h.now.Add(60 * time.Millisecond)
		if next(Granted); h.p.Paced() {
			t.Error("a slow source is taken for the limit")
		}
		h.now = h.now.Add(540 * time.Millisecond)
	}
}

// Slowness caused by our own limit is no sign of a slow path.
func TestALimitDoesNotLowerTheMeasuredRate(t *testing.T) {
	w := newWorld(t, Config{}, layoutOf(t, 1<<30), 50e6, 20*time.Millisecond)
	w.to(start.Add(3 * time.Second))
	before, _, _ := w.pool.Measure()
	w.jitter = func() time.Duration { return time.Duration(w.seq%7) * 5 * time.Millisecond } // among others on the path
	next, turn := w.now, w.now
	w.pool.Limit(2e6, "this node", w.now)
	w.leave = func(n int) Permission {
		if w.now.Before(next) {
			if turn != next {
				turn = next
				w.schedule(next, func() {})
			}
			return TooSoon
		}
		next = w.now.Add(time.Duration(float64(n) / 2e6 * 1e9))
		return Granted
	}
	w.to(w.now.Add(time.Second))
	from := w.arrived
	w.to(w.now.Add(10 * time.Second))
	if got := float64(w.arrived-from) / 10; got < 1.9e6 || got > 2.3e6 {
		t.Errorf("%.0f B/s below a limit of 2 MB/s", got)
	}
	if after, _, _ := w.pool.Measure(); after < before/2 {
		t.Errorf("measured %.0f B/s before the limit and %.0f below it", before, after)
	}
	if w.back[MissedDeadline] > 0 {
		t.Errorf("%d leases missed a deadline", w.back[MissedDeadline])
	}
}

// Waits grow to a bound, and are random there too: pools that failed together do not
// come back together for ever.
func TestTheLongestWaitsDiffer(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	b := backoff{min: time.Second, max: 30 * time.Second}
	drawn := map[time.Duration]bool{}
	for i := range 60 {
		d := b.next(rng)
		if d > 30*time.Second || i >= 5 && d < 22*time.Second {
			t.Errorf("wait %d is %v", i, d)
		}
		if i >= 10 && i < 30 {
			drawn[d] = true
		}
	}
	if len(drawn) < 5 { // half of the waits are the longest
		t.Errorf("only %d different waits of 20", len(drawn))
	}
}

// An event in a state in which it means nothing changes nothing.
func TestEventsOutOfPlaceChangeNothing(t *testing.T) {
	h := ready(t, Config{}, 8<<20)
	h.grant(0)
	h.p.Opened(time.Second, h.now)
	if h.p.State() != Ready || h.p.Leases() != 1 || len(h.next().Return) > 0 {
		t.Errorf("%v, %s, with %d leases", h.p.State(), h.p.Why(), h.p.Leases())
	}
	h.p.Stop("first", h.now)
	h.next()
	h.p.Stop("second", h.now)
	h.p.Opened(time.Second, h.now)
	h.p.Subscribed(h.now)
	h.p.Declined(time.Second, "late", h.now)
	h.p.Lost(errors.New("lost"), h.now)
	if todo := h.next(); !todo.Gone || h.p.Why() != "first" || todo.Dial {
		t.Errorf("%+v, %s", todo, h.p.Why())
	}
}

// A link that lasts a moment and brings nothing is dialled ever more rarely;
// one that lasted long counts as good.
func TestALinkThatGivesNothingIsRedialledEverMoreRarely(t *testing.T) {
	h := byHand(t, Config{}, 8<<20)
	wait := func(stood time.Duration) time.Duration {
		h.connect()
		h.now = h.now.Add(stood)
		h.p.Lost(errors.New("lost"), h.now)
		d := h.next().Wake.Sub(h.now)
		h.now = h.now.Add(d)
		return d
	}
	var last time.Duration
	for range 4 {
		d := wait(time.Second)
		if d < last*6/5 {
			t.Errorf("waits %v after %v", d, last)
		}
		last = d
	}
	if d := wait(time.Minute); d > 1250*time.Millisecond {
		t.Errorf("waits %v after a link that stood for a minute", d)
	}
}

// All bytes of a request have come and then the source says that it is busy: the
// last block, which is short, is not asked for again.
func TestAShortLastBlockIsNotAskedForAgain(t *testing.T) {
	h := ready(t, Config{}, 3*share.BlockSize+5)
	todo := h.grant(0)
	for _, r := range slices.Clone(todo.Requests) {
		h.p.Arrived(r.ID, r.Bytes, h.now)
		h.p.Failed(r.ID, Busy, 0, h.now)
	}
	if todo := h.after(time.Minute); len(todo.Requests) > 0 {
		t.Errorf("asks again: %+v", todo.Requests)
	}
}

func TestARefusalStandsBesideLeasesThatCameWithIt(t *testing.T) {
	h := ready(t, Config{}, 8<<20)
	nearly := make([]bool, 15) // one block is missing
	for i := range nearly {
		nearly[i] = true
	}
	h.p.Refused("", time.Time{}, h.now)
	h.p.GrantLate([]Work{{Piece: 0, Token: 1, Have: nearly}}, h.now)
	if todo := h.next(); todo.Want > 0 || len(todo.Requests) != 1 {
		t.Errorf("it wants %d more, and makes %d requests", todo.Want, len(todo.Requests))
	}
	h.p.Grant([]Work{{Piece: 1, Token: 2, Have: nearly}}, h.now)
	if h.next().Want == 0 {
		t.Error("it wants no more after leases")
	}
}

func TestWhyAReadyPoolDoesNotAsk(t *testing.T) {
	h := ready(t, Config{}, 8<<20)
	h.p.Refused("", time.Time{}, h.now)
	if h.p.Why() != "every piece that it has and this node lacks is leased already" {
		t.Error(h.p.Why())
	}
	h.p.Grant([]Work{{Piece: 0, Token: 1}}, h.now)
	if h.p.Why() != "about to ask" {
		t.Error(h.p.Why())
	}
}

// Zero bytes are not a sign of life.
func TestNoBytesExtendNoDeadline(t *testing.T) {
	h := ready(t, Config{}, 1<<20)
	todo := h.grant(0)
	id := todo.Requests[0].ID
	h.after(4 * time.Second)
	h.p.Arrived(id, 0, h.now)
	h.p.Partial(id, 0, h.now)
	h.after(time.Second)
	if h.p.State() == Ready {
		t.Error("a source that sent nothing for 5 s is still waited for")
	}
}

// What others have fetched is cancelled, but not a request whose bytes have begun to arrive.
func TestARequestThatHasBegunIsNotCancelled(t *testing.T) {
	h := ready(t, Config{FirstWindow: 8 << 20}, 1<<20)
	h.p.win.rate = 1e9 // so that one request takes it all
	todo := h.grant(0)
	r := todo.Requests[0]
	if len(todo.Requests) != 1 {
		t.Fatalf("%+v", todo.Requests)
	}
	h.p.Arrived(r.ID, share.BlockSize, h.now)
	h.p.Verified(0, 0, r.Count, h.now)
	if todo := h.next(); len(todo.Cancel) > 0 {
		t.Error("cancelled:", todo.Cancel)
	}
}

// A lease is in the queue once, however many of its requests come back.
func TestALeaseIsQueuedOnce(t *testing.T) {
	h := ready(t, Config{FirstWindow: 256 << 10}, 8<<20)
	todo := h.grant(0)
	if len(todo.Requests) < 2 {
		t.Fatalf("%+v", todo.Requests)
	}
	for _, r := range slices.Clone(todo.Requests) {
		h.p.Failed(r.ID, Busy, 0, h.now)
	}
	if len(h.p.queue) != 1 {
		t.Errorf("queued %d times", len(h.p.queue))
	}
}

func TestThePipelineGrowsToItsBoundAndNoFurther(t *testing.T) {
	h := ready(t, Config{MaxRequests: 3}, 64<<20)
	todo := h.grant(0, 1, 2, 3)
	for len(todo.Requests) > 0 {
		for _, r := range slices.Clone(todo.Requests) {
			h.p.Finished(r.ID, h.now)
		}
		todo = h.next()
	}
	if h.p.pipeline != 3 {
		t.Errorf("%d requests may be in flight", h.p.pipeline)
	}
}

func TestTheEndOfAnUnknownRequestMeansNothing(t *testing.T) {
	h := ready(t, Config{}, 8<<20)
	h.p.Failed(999, NoShare, 0, h.now)
	h.p.Failed(999, Busy, 0, h.now)
	if todo := h.next(); h.p.State() != Ready || todo.Gone {
		t.Error(h.p.State())
	}
}

// Many absent pieces cost one wait at a time, and what a source says that is not
// connected counts for nothing.
func TestManyMissesAreOneWaitAndNotBelievedWhileAway(t *testing.T) {
	h := ready(t, Config{FirstWindow: 16 << 20}, 64<<20)
	todo := h.grant(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
	seen := map[share.Piece]bool{}
	for _, r := range slices.Clone(todo.Requests) {
		if !seen[r.Piece] {
			seen[r.Piece] = true
			h.p.Failed(r.ID, NotFound, 0, h.now)
		}
	}
	if len(seen) < 10 || h.p.busy.failed != 1 {
		t.Errorf("%d pieces were not there, and the back-off grew %d times", len(seen), h.p.busy.failed)
	}
	h.p.Lost(errors.New("lost"), h.now)
	if todo := h.after(time.Minute); len(todo.Believe) > 0 {
		t.Error("believed while away:", todo.Believe)
	}
}

func TestAProofThatDidNotComeIsAskedForAgain(t *testing.T) {
	h := ready(t, Config{}, 8<<20)
	todo := h.grant(0)
	if !todo.Requests[0].Proof {
		t.Fatal("the first request asks for no proof")
	}
	for _, r := range slices.Clone(todo.Requests) {
		h.p.Failed(r.ID, Busy, 100*time.Millisecond, h.now)
	}
	h.next()
	todo = h.after(100 * time.Millisecond)
	if len(todo.Requests) == 0 || !todo.Requests[0].Proof {
		t.Errorf("after BUSY the first of %d requests asks for no proof", len(todo.Requests))
	}
}

func TestALinkThatWaitsForOthersIsNotLate(t *testing.T) {
	h := byHand(t, Config{}, 1<<20)
	if !h.next().Dial {
		t.Fatal("no dial")
	}
	h.p.Held("waits for its turn", h.now)
	if todo := h.after(time.Hour); todo.Close || todo.Dial || !todo.Wake.IsZero() || h.p.State() != Dialing {
		t.Errorf("after an hour: %+v in state %v", todo, h.p.State())
	}
	if h.p.Why() != "waits for its turn" || !h.p.IsHeld() || h.p.Dials() != 0 {
		t.Errorf("%q, held: %v, %d dials failed", h.p.Why(), h.p.IsHeld(), h.p.Dials())
	}
	h.p.Opened(10*time.Millisecond, h.now)
	h.p.Held("too late", h.now)
	if h.next(); h.p.State() != Subscribing || h.p.IsHeld() {
		t.Errorf("state %v, held: %v", h.p.State(), h.p.IsHeld())
	}
}

// If a source is busy in the middle of a reply, what has arrived is not asked for again,
// and the block that was cut off is asked for first.
func TestTheBlockThatWasCutOffIsAskedForAgain(t *testing.T) {
	h := ready(t, Config{FirstWindow: 8 << 20}, 1<<20)
	h.p.win.rate = 1e9 // so that one request takes it all
	todo := h.grant(0)
	if len(todo.Requests) != 1 || todo.Requests[0].Count != 16 {
		t.Fatalf("%+v", todo.Requests)
	}
	r := todo.Requests[0]
	h.p.Arrived(r.ID, 5*share.BlockSize, h.now)
	h.p.Partial(r.ID, 1000, h.now)
	h.p.Failed(r.ID, Busy, 100*time.Millisecond, h.now)
	again := map[share.Block]int{}
	for _, r := range h.after(time.Second).Requests {
		for b := range r.Count {
			again[r.First+share.Block(b)]++
		}
	}
	for b := range share.Block(16) {
		want := 1
		if b < 5 {
			want = 0
		}
		if again[b] != want {
			t.Errorf("block %d is asked for %d times, and should be %d times", b, again[b], want)
		}
	}
}

// Links of which nothing was asked, and that held long, say nothing of how long a source is silent.
func TestIdleLinksDoNotMakePatient(t *testing.T) {
	h := ready(t, Config{}, 8<<20)
	h.serve(h.grant(0).Requests, 1e6)
	for range 5 { // the node has nothing to ask for; a router drops the link now and then
		h.after(10 * time.Minute)
		h.p.Lost(errors.New("reset"), h.now)
		h.after(10 * time.Minute)
		h.connect()
	}
	h.grant(1)
	if h.after(5 * time.Second); h.p.State() != Waiting {
		t.Errorf("%v after 5 s of silence", h.p.State())
	}
}

// A source that sends blocks the whole time is not given up because the answer to the subscription is late: on a thin line it
// comes behind what was asked for early.
func TestASourceThatSendsIsNotGivenUpForItsSubscription(t *testing.T) {
	h := early(t)
	for range 12 {
		if h.after(time.Second).Close {
			t.Fatal("given up:", h.p.LastLoss())
		}
		for id := range h.p.requests {
			h.p.Arrived(id, share.BlockSize/4, h.now)
			break
		}
	}
}
