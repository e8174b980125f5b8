package leasemgr

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

const mib = share.MinPiece

// tail is a rig at the end of a transfer: "slow" holds all remaining pieces.
func tail(t *testing.T, pieces int, cfg Config) (*rig, []Lease) {
	r := newRig(t, pieces, cfg)
	r.add("slow", "fast").full("slow", "fast")
	ls := r.get("slow", pieces)
	if len(ls) != pieces {
		t.Fatalf("%d leases", len(ls))
	}
	return r, ls
}

func TestOverdueLeaseIsHedged(t *testing.T) {
	r, ls := tail(t, 1, Config{})
	no := r.not("fast", AllLeased)
	equal(t, "may ask again when it is overdue, or after a second", no.Until, r.now.Add(time.Second))
	r.pass(time.Second)
	no = r.not("fast", AllLeased)
	equal(t, "may ask again when it is overdue", no.Until, r.now.Add(250*time.Millisecond))
	r.to(no.Until)
	h := r.one("fast")
	equal(t, "hedge", h.Hedge, true)
	equal(t, "piece", h.Piece, ls[0].Piece)
	wanted, leased, _ := r.m.Counts()
	equal(t, "one leased piece", [2]int{wanted, leased}, [2]int{0, 1})
}

func TestLoserOfAHedgeIsRevoked(t *testing.T) {
	for _, winner := range []peers.ID{"slow", "fast"} {
		r, ls := tail(t, 1, Config{})
		r.pass(2 * time.Second)
		held := map[peers.ID]Lease{"slow": ls[0], "fast": r.one("fast")}
		todo := r.done(held[winner])
		if len(todo.Finished) != 1 || todo.Finished[0].Source != winner || len(todo.Revoked) != 1 || len(todo.Expired) != 0 || !todo.Done {
			t.Errorf("%s won: %+v", winner, todo)
		}
		// A second completion, late, changes nothing.
		if todo := r.m.Verified(ls[0].Piece, r.now, ls[0].Token); len(todo.Finished)+len(todo.Revoked) > 0 || todo.Done {
			t.Errorf("late: %+v", todo)
		}
	}
}

func TestHolderOfAHedgeStaysWhenTheOtherFails(t *testing.T) {
	for _, loser := range []peers.ID{"slow", "fast"} {
		for _, crash := range []bool{false, true} {
			r, ls := tail(t, 1, Config{})
			r.pass(2 * time.Second)
			held := map[peers.ID]Lease{"slow": ls[0], "fast": r.one("fast")}
			if crash {
				r.m.RemoveSource(loser, r.now)
			} else {
				r.m.Fail(loser, 0, held[loser].Token, Lost, r.now)
			}
			wanted, leased, _ := r.m.Counts()
			equal(t, "still leased", [2]int{wanted, leased}, [2]int{0, 1})
			r.add("third").full("third")
			r.pass(2 * time.Second)
			equal(t, "may be hedged again", r.one("third").Hedge, true)
		}
	}
}

func TestNoHedgeWhileSomethingUnleasedIsLeft(t *testing.T) {
	r := newRig(t, 5, Config{})
	r.add("slow", "fast").full("slow", "fast")
	r.get("slow", 4)
	r.pass(2 * time.Second)
	equal(t, "hedge", r.one("fast").Hedge, false)
	equal(t, "hedge", r.one("fast").Hedge, true)
}

func TestClearlySlowerHolderIsHedgedBeforeItIsOverdue(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		slow float64 // the holder, with two pieces of 1 MiB in its queue
		want bool
	}{
		{Config{}, 8 * mib, false},                // 0.25 s, and the asker needs 0.2 s
		{Config{}, 4 * mib, true},                 // 0.5 s
		{Config{HedgeFactor: 5}, 4 * mib, false},  // five times 0.2 s is more
		{Config{HedgeFactor: 1.1}, 8 * mib, true}, // 0.22 s and a little is less
	} {
		r := newRig(t, 2, c.cfg)
		r.add("slow", "fast").full("slow", "fast").rate("slow", c.slow, 0).rate("fast", 10*mib, 100*time.Millisecond)
		ls := r.get("slow", 2)
		got, _ := r.m.Acquire("fast", 1, r.now)
		equal(t, "hedged", len(got) == 1, c.want)
		if len(got) == 1 {
			equal(t, "the last of its queue", got[0].Piece, ls[1].Piece)
		}
	}
}

// In a crowd a holder that is a little slow now is left its pieces, and a much slower one is not.
func TestInACrowdOnlyAMuchSlowerHolderIsHedged(t *testing.T) {
	for name, c := range map[string]struct {
		parts int
		self  peers.ID
		slow  float64 // as above: the asker needs 0.2 s
		reads bool
		want  bool
	}{
		"crowd":          {crowdParts, "self", 4 * mib, false, false}, // 0.5 s
		"much slower":    {crowdParts, "self", mib, false, true},      // 2 s
		"fewer":          {crowdParts - 1, "self", 4 * mib, false, true},
		"in a fleet":     {crowdParts, "", 4 * mib, false, true},
		"a reader waits": {crowdParts, "self", 4 * mib, true, true},
	} {
		r := newRig(t, 3, Config{})
		r.add("slow", "fast").has("slow", 0, 1).has("fast", 0, 1).rate("slow", c.slow, 0).rate("fast", 10*mib, 100*time.Millisecond)
		for i := range c.parts - 2 {
			id := peers.ID(fmt.Sprint("p", i))
			r.add(id).has(id, 2)
		}
		r.m.self = c.self
		r.get("slow", 2)
		if c.reads {
			r.m.SetReader(1, 1, 1, r.now)
		}
		got, _ := r.m.Acquire("fast", 1, r.now)
		equal(t, name, len(got) == 1, c.want)
	}
}

func TestHolderNotMeasuredYetIsJudgedByWhatCame(t *testing.T) {
	r, ls := tail(t, 1, Config{})
	r.rate("fast", 500*mib, 0)
	r.not("fast", AllLeased)
	// 64 KiB in 250 ms, so the rest takes another 3.75 s; the fast one needs 2 ms.
	r.pass(250 * time.Millisecond)
	r.m.Progress("slow", 0, ls[0].Token, share.BlockSize, r.now)
	equal(t, "hedge", r.one("fast").Hedge, true)
}

func TestHedgeStaysWithinTheCap(t *testing.T) {
	r := newRig(t, 6, Config{})
	r.add("slow", "fast").full("slow", "fast").rate("fast", 7*mib, 0) // room for 3.5 MiB
	equal(t, "leases", len(r.get("fast", 3)), 3)
	equal(t, "leases", len(r.get("slow", 3)), 3)
	r.pass(1600 * time.Millisecond)
	r.not("fast", AllLeased)
}

func TestUnmeasuredAskerHedgesOnlyWhatIsOverdue(t *testing.T) {
	r := newRig(t, 2, Config{})
	r.add("slow", "new").full("slow", "new").rate("slow", 1000, 0)
	r.get("slow", 2)
	r.pass(time.Minute)
	r.not("new", AllLeased)
}

func TestAtMostTwoHoldersOfDifferentPeers(t *testing.T) {
	r, _ := tail(t, 1, Config{})
	r.add("third").full("third")
	r.pass(2 * time.Second)
	r.not("slow", AllLeased)
	r.one("fast")
	r.not("fast", AllLeased)
	r.not("slow", AllLeased)
	r.pass(2 * time.Second) // both overdue
	r.not("third", AllLeased)
}

func TestTenTimesFasterSourceTakesAnOverdueLease(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		fast float64
		want bool
	}{
		{Config{}, 10 * mib, true},
		{Config{}, 9 * mib, false},
		{Config{TakeoverFactor: 5}, 5 * mib, true},
		{Config{TakeoverFactor: 20}, 10 * mib, false},
	} {
		r := newRig(t, 1, c.cfg)
		r.add("slow", "fast").full("slow", "fast").rate("slow", mib, 0).rate("fast", c.fast, 0)
		old := r.one("slow")
		r.pass(1600 * time.Millisecond) // 1 s for the bytes, and a quarter of 2 s
		l := r.one("fast")
		equal(t, "hedge", l.Hedge, !c.want)
		if !c.want {
			continue
		}
		equal(t, "told at once", r.m.Wake(), r.now)
		todo := r.m.Expire(r.now)
		if len(todo.Revoked) != 1 || todo.Revoked[0].Token != old.Token || len(todo.Expired) != 0 {
			t.Errorf("%+v", todo)
		}
		equal(t, "alarm", r.m.Wake().After(r.now), true)
		equal(t, "taken", r.m.Stats().Taken, 1)
		equal(t, "nothing at stake", r.m.hedged, 0)
		if todo := r.m.Fail("slow", 0, old.Token, Missed, r.now); len(todo.Wake) > 0 {
			t.Errorf("%+v", todo)
		}
		equal(t, "leased", r.m.leased, 1)
	}
}

func TestTakeoverReplacesOneOfTwoSlowHolders(t *testing.T) {
	r := newRig(t, 1, Config{})
	r.add("a", "b", "fast").full("a", "b", "fast").rate("a", mib, 0).rate("b", mib, 0).rate("fast", 100*mib, 0)
	r.one("a")
	r.pass(1600 * time.Millisecond)
	equal(t, "hedge", r.one("b").Hedge, true)
	r.pass(1600 * time.Millisecond)
	equal(t, "hedge", r.one("fast").Hedge, true)
	todo := r.m.Expire(r.now)
	equal(t, "revoked", len(todo.Revoked), 1)
	equal(t, "leased", r.m.leased, 1)
	equal(t, "leases", len(r.m.leases)-1-len(r.m.free), 2)
}

// Both lines became slow with the piece in hand, and all rates are from before.
func TestTwoSilentHoldersOfAPieceDoNotKeepOthersFromIt(t *testing.T) {
	for _, c := range []struct {
		cfg    Config
		before int  // blocks that came from the other before the first was asked
		since  int  // and since then
		came   bool // a block from the first just now
		want   bool
	}{
		{Config{}, 0, 10, false, true},
		{Config{}, 0, 9, false, false},
		{Config{}, 5, 9, false, false},
		{Config{}, 10, 6, false, false},
		{Config{}, 0, 10, true, false}, // neither is overdue
		{Config{TakeoverFactor: 5}, 0, 5, false, true},
		{Config{TakeoverFactor: 5}, 0, 4, false, false},
	} {
		r := newRig(t, 2, c.cfg)
		r.add("a", "b", "other").full("a", "b", "other").rate("a", mib, 0).rate("b", mib, 0).rate("other", mib, 0)
		other := r.one("other")
		brings := func(blocks int) {
			for range blocks {
				r.m.Progress("other", other.Piece, other.Token, share.BlockSize, r.now)
			}
			r.pass(100 * time.Millisecond)
		}
		brings(c.before)
		l := r.one("a")
		brings(0)
		brings(c.since)
		r.done(other)
		r.pass(1400 * time.Millisecond)
		equal(t, "hedge", r.one("b").Hedge, true)
		r.pass(1300 * time.Millisecond)
		if c.came {
			r.m.Progress("a", l.Piece, l.Token, share.BlockSize, r.now)
		}
		if !c.want {
			r.not("other", AllLeased)
			continue
		}
		equal(t, "hedge", r.one("other").Hedge, true)
		todo := r.m.Expire(r.now)
		if len(todo.Revoked) != 1 || todo.Revoked[0].Token != l.Token {
			t.Errorf("%+v: %+v", c, todo)
		}
	}
}

func TestReaderIsNotLeftWaitingForASlowHolder(t *testing.T) {
	r := newRig(t, 100, Config{})
	r.add("slow", "fast").full("slow", "fast").rate("slow", mib, 0).rate("fast", 100*mib, 0)
	l, _ := r.m.Restore("slow", 50, r.now)
	equal(t, "without a reader", r.one("fast").Hedge, false)
	r.m.SetReader(1, 50, 4, r.now)
	h := r.one("fast")
	equal(t, "piece", h.Piece, l.Piece)
	equal(t, "hedge", h.Hedge, true)
	equal(t, "then what it reads next", r.one("fast").Piece, 51)
	r.m.DropReader(1)
	r.m.SetReader(1, 50, 0, r.now)
	equal(t, "readers", len(r.m.readers), 0)
}

func TestReaderDoesNotHedgeAHolderThatIsFastEnough(t *testing.T) {
	r := newRig(t, 100, Config{})
	r.add("a", "b").full("a", "b").rate("a", 100*mib, 0).rate("b", 100*mib, 0)
	r.m.Restore("a", 50, r.now)
	r.m.SetReader(1, 50, 1, r.now)
	equal(t, "hedge", r.one("b").Hedge, false)
}

func TestReaderWakesSourcesThatWait(t *testing.T) {
	r, _ := tail(t, 2, Config{})
	r.not("fast", AllLeased)
	r.woken(r.m.SetReader(1, 0, 2, r.now), "fast")
}

func TestHedgesStayWithinTheirBound(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want int // hedges at once, of 100 overdue pieces
	}{
		{Config{}, 16},
		{Config{HedgeFloor: 5 * mib}, 5},
		{Config{HedgeFloor: -1}, 1},                    // 1 % of 100 MiB
		{Config{HedgeFloor: -1, HedgeShare: 0.2}, 20},  //
		{Config{HedgeFloor: -1, HedgeShare: -1}, 0},    // off
		{Config{HedgeFloor: mib, HedgeShare: -0.5}, 1}, //
	} {
		c.cfg.MaxLeasesPerPeer = 100
		r, _ := tail(t, 100, c.cfg)
		r.pass(2 * time.Second)
		equal(t, "hedges", len(r.get("fast", 100)), c.want)
	}
}

func TestWasteCountsAgainstTheBound(t *testing.T) {
	r, ls := tail(t, 4, Config{HedgeFloor: 2 * mib})
	r.pass(2 * time.Second)
	got := r.get("fast", 4)
	equal(t, "hedges", len(got), 2)
	for _, h := range got {
		for _, l := range ls {
			if l.Piece == h.Piece {
				r.m.Progress("slow", l.Piece, l.Token, mib, r.now)
				r.m.Progress("fast", h.Piece, h.Token, mib/2, r.now)
			}
		}
		r.done(h)
	}
	st := r.m.Stats()
	equal(t, "waste", st.Duplicate, mib)
	equal(t, "hedged", st.Hedged, 2)
	equal(t, "hedged bytes", st.HedgedBytes, 2*mib)
	r.pass(2 * time.Second)
	equal(t, "hedges", len(r.get("fast", 4)), 1)
}

func TestManyHoldersAreSearchedInTurn(t *testing.T) {
	const n = 400
	r := newRig(t, n, Config{MaxLeasesPerPeer: 1, HedgeFloor: 1 << 40})
	r.add("z")
	for i := range n {
		id := peers.ID(string(rune('A' + i)))
		r.add(id).has(id, share.Piece(i)).rate(id, 1e6, 0)
		r.one(id)
	}
	r.has("z", 200).rate("z", 100*mib, 0)
	found := false
	for range 20 {
		got, no := r.m.Acquire("z", 1, r.now)
		if found = len(got) == 1; found {
			break
		}
		equal(t, "refusal", no.Reason, AllLeased)
		r.to(no.Until)
	}
	equal(t, "found", found, true)
}

// Five sources of random rates share a transfer: the last hundredth takes no more
// than three hundredths of the time, and almost nothing is fetched twice.
func TestTheEndIsNotSlow(t *testing.T) {
	for seed := range uint64(testrig.Most(10, 4)) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		const pieces = 4000
		r := newRig(t, pieces, Config{})
		w := newWorld(r)
		for i := range 5 {
			id := peers.ID(string(rune('a' + i)))
			r.add(id).full(id)
			w.join(id, mib*(0.5+20*rnd.Float64()*rnd.Float64()), 30*time.Millisecond)
		}
		var at99 time.Time
		w.run(func() bool {
			if _, _, v := r.m.Counts(); at99.IsZero() && v >= pieces*99/100 {
				at99 = r.now
			}
			return r.m.Done()
		})
		total := r.now.Sub(w.start)
		if last := r.now.Sub(at99); last > total*3/100 {
			t.Errorf("seed %d: last hundredth took %s of %s", seed, last, total)
		}
		if d := r.m.Stats().Duplicate; d > pieces*mib/100 {
			t.Errorf("seed %d: %d bytes twice", seed, d)
		}
	}
}

// One of two sources stops in the middle: the transfer takes little longer than
// the other needs alone for the rest.
func TestSourceThatStopsCostsLittle(t *testing.T) {
	const pieces = 1000
	for _, rate := range []float64{1, 10, 100} { // MiB/s
		for _, stop := range []float64{0.01, 0.3, 0.9, 0.99} {
			r := newRig(t, pieces, Config{})
			w := newWorld(r)
			for _, id := range []peers.ID{"a", "b"} {
				r.add(id).full(id)
				w.join(id, rate*mib, 10*time.Millisecond)
			}
			w.run(func() bool {
				_, _, v := r.m.Counts()
				if float64(v) >= stop*pieces {
					w.peers["a"].stopped = true
				}
				return r.m.Done()
			})
			took := r.now.Sub(w.start).Seconds()
			both := stop * pieces / (2 * rate)
			want := both + (1-stop)*pieces/rate
			if took > want*1.15+0.6 {
				t.Errorf("%g MiB/s, stopped at %g: took %.2f s, want %.2f s", rate, stop, took, want)
			}
		}
	}
}

// A lease that waits in the queue of a slow source moves to a fast one that has nothing to do; one under which bytes came stays.
func TestWhatWaitsAtASlowSourceMovesToAnIdleOne(t *testing.T) {
	for _, x := range []struct {
		lines [2]peers.ID
		times float64 // as fast
		came  int     // bytes of the first
		moves bool
	}{
		{[2]peers.ID{"x", "y"}, 8, 1000, true},
		{[2]peers.ID{"x", "y"}, 8, 0, true},
		{[2]peers.ID{"x", "y"}, 1.2, 1000, false},
		{[2]peers.ID{"x", "x"}, 8, 1000, false},
		{[2]peers.ID{}, 8, 1000, false},
	} {
		r := newRig(t, 3, Config{HedgeFloor: -1, HedgeShare: -1})
		r.add("slow", "fast").full("slow", "fast").rate("slow", mib/x.times, 0).rate("fast", mib, 0)
		r.m.Shares("slow", x.lines[0])
		r.m.Shares("fast", x.lines[1])
		l := r.get("slow", 2)
		r.m.Progress("slow", l[0].Piece, l[0].Token, x.came, r.now)
		free := r.one("fast")
		r.not("fast", AllLeased) // it holds one
		r.done(free)
		if x.moves {
			got := r.one("fast")
			equal(t, "piece", got.Piece, l[1].Piece)
			r.done(got)
		}
		r.not("fast", AllLeased) // of what is left bytes have come or are on their way, or it may not move
	}
}

// A fast source to which leases move, and that sends nothing any more, is given none again and again: neither one that it was given
// before, nor, once it has missed a deadline, another. Nor is one that is to be spared.
func TestLeasesDoNotMoveToASourceThatFails(t *testing.T) {
	rig := func() (*rig, []Lease) {
		r := newRig(t, 4, Config{HedgeFloor: -1, HedgeShare: -1, Ahead: 5 * time.Second})
		r.add("slow", "slow2", "fast", "fast2").full("slow", "slow2", "fast", "fast2")
		for id, line := range map[peers.ID]peers.ID{"slow": "x", "slow2": "x", "fast": "y", "fast2": "y"} {
			r.rate(id, map[peers.ID]float64{"x": 4 * mib, "y": 64 * mib}[line], 0)
			r.m.Shares(id, line)
		}
		r.one("fast2")
		return r, r.get("slow", 3)
	}
	r, l := rig()
	equal(t, "piece", r.one("fast").Piece, l[2].Piece)
	r.pass(1500 * time.Millisecond) // nothing came, and it is not overdue by so much that the lease ends
	r.m.Progress("slow", l[0].Piece, l[0].Token, 1000, r.now)
	r.not("slow2", AllLeased)
	r.pass(time.Second)
	r.m.Progress("slow", l[0].Piece, l[0].Token, 1000, r.now)
	equal(t, "expired", len(r.m.Expire(r.now).Expired), 2)
	r.done(r.one("slow2")) // what the two of the fast line did not send
	r.done(r.one("slow2"))
	r.not("fast", AllLeased) // and no other lease
	r.pass(r.m.cfg.ShunFor)
	r.m.Expire(r.now)

	r, _ = rig()
	r.m.sources[r.m.byID["fast"]].spareAt, r.m.sources[r.m.byID["fast"]].spareTo = r.m.clock.at, r.m.clock.at+instant(time.Minute)
	r.not("fast", Spared)
}

// What is slower by a moment alone stays, as everywhere: onTime relies on it.
func TestNothingMovesToSaveAMoment(t *testing.T) {
	for size, moves := range map[int]bool{100: false, share.MinPiece: true} {
		r := newRigOf(t, even{3, size}, Config{HedgeFloor: -1, HedgeShare: -1, Ahead: 5 * time.Second})
		r.add("slow", "fast").full("slow", "fast").rate("slow", mib, 0).rate("fast", 1000*mib, 0)
		r.m.Shares("slow", "x")
		r.m.Shares("fast", "y")
		r.get("slow", 2)
		r.done(r.one("fast"))
		equal(t, "moves", len(r.get("fast", 1)) == 1, moves)
	}
}

// One that takes what waits elsewhere and gives it back, whatever it says of its rate, does so once.
func TestNobodyTakesLeasesToGiveThemBack(t *testing.T) {
	for _, why := range []Reason{GaveBack, Lost, Elsewhere, NotFound} {
		r := newRig(t, 5, Config{Ahead: 5 * time.Second})
		r.add("slow", "liar").full("slow").has("liar", 1, 2, 3, 4).rate("slow", mib, 0).rate("liar", 1e300, 0)
		r.m.Shares("slow", "x")
		r.m.Shares("liar", "y")
		for range 1000 {
			r.get("slow", 8)
			for _, l := range r.get("liar", 1) {
				r.m.Fail("liar", l.Piece, l.Token, why, r.now)
			}
			r.m.Expire(r.now)
			r.pass(time.Millisecond)
		}
		if n := r.m.Stats().Taken; n != 1 {
			t.Errorf("%s: took %d leases", why, n)
		}
	}
}
