package leasemgr

import (
	"math"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

func TestUnmeasuredSourceMayBeSilentForAWhile(t *testing.T) {
	for _, d := range []time.Duration{0, 3 * time.Second} {
		r := newRig(t, 10, Config{Patience: peers.Patience{First: d}})
		r.add("a").full("a")
		ls := r.get("a", 4)
		want := d
		if d == 0 {
			want = 5 * time.Second
		}
		equal(t, "wake", r.m.Wake(), r.now.Add(want))
		r.pass(want - 1)
		equal(t, "expired before", len(r.m.Expire(r.now).Expired), 0)
		r.pass(1)
		todo := r.m.Expire(r.now)
		equal(t, "expired", len(todo.Expired), len(ls))
		equal(t, "alarm left", r.m.Wake(), time.Time{}.Add(0))
	}
}

func TestDeadlineIsSlackTripsAndBytesAtRate(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		rate float64
		trip time.Duration
		want time.Duration
	}{
		{Config{}, share.MinPiece, 100 * time.Millisecond, 2*time.Second + 400*time.Millisecond + time.Second},
		{Config{Patience: peers.Patience{Slack: time.Second}}, share.MinPiece, 0, 2 * time.Second},
		{Config{Patience: peers.Patience{Trips: 2}}, share.MinPiece, time.Second, 5 * time.Second},
		{Config{}, 1000, 0, 300 * time.Second},
		{Config{LeaseDuration: 10 * time.Second}, 1000, 0, 10 * time.Second},
		{Config{}, math.SmallestNonzeroFloat64, 0, 300 * time.Second},
		{Config{}, math.MaxFloat64, 365 * 24 * time.Hour, 2*time.Second + 4*maxTrip},
	} {
		r := newRig(t, 10, c.cfg)
		r.add("a").full("a").rate("a", c.rate, c.trip)
		l := r.one("a")
		if got := l.Expires.Sub(r.now).Round(time.Millisecond); got != c.want {
			t.Errorf("%+v: deadline after %s, want %s", c, got, c.want)
		}
	}
}

func TestQueuedLeaseHasTimeForTheBytesAhead(t *testing.T) {
	r := newRig(t, 100, Config{Ahead: 8 * time.Second})
	r.add("a").full("a").rate("a", share.MinPiece, 0)
	for i, l := range r.get("a", 8) {
		equal(t, "deadline", l.Expires.Sub(r.now), 2*time.Second+time.Duration(i+1)*time.Second)
	}
}

// Who missed its deadline is not asked for the piece again while another source has it.
func TestWhoMissedItsDeadlineIsNotAskedAgainAtOnce(t *testing.T) {
	r := newRig(t, 1, Config{})
	r.add("a", "b").full("a", "b")
	r.one("a")
	r.pass(5 * time.Second)
	equal(t, "expired", len(r.m.Expire(r.now).Expired), 1)
	equal(t, "leases for a", len(r.get("a", 1)), 0)
	equal(t, "leases for b", len(r.get("b", 1)), 1)
}

// A source that was at work on a piece, and gave it back, has not been silent: the next piece has all its time.
func TestALeaseThatComesBackLeavesTheNextItsTime(t *testing.T) {
	r := newRig(t, 100, Config{})
	r.add("a").full("a")
	ls := r.get("a", 2)
	for range 4 {
		r.pass(4 * time.Second)
		r.m.Progress("a", ls[0].Piece, ls[0].Token, 1000, r.now)
	}
	r.m.Fail("a", ls[0].Piece, ls[0].Token, GaveBack, r.now)
	equal(t, "wake", r.m.Wake(), r.now.Add(5*time.Second))
}

func TestMeasurementMovesDeadlines(t *testing.T) {
	r := newRig(t, 100, Config{})
	r.add("a").full("a")
	r.one("a")
	r.rate("a", share.MinPiece/8, 0)
	equal(t, "wake", r.m.Wake(), r.now.Add(10*time.Second))
}

func TestMeasurementWithoutSenseIsIgnored(t *testing.T) {
	r := newRig(t, 100, Config{})
	r.add("a").full("a")
	r.one("a")
	for _, rate := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		r.rate("a", rate, 0)
	}
	r.rate("a", 1, -1)
	equal(t, "wake", r.m.Wake(), r.now.Add(5*time.Second))
}

func TestProgressOfTheFirstExtendsAll(t *testing.T) {
	r := newRig(t, 100, Config{})
	r.add("a").full("a")
	ls := r.get("a", 4)
	for range 100 {
		r.pass(4 * time.Second)
		r.m.Progress("a", ls[0].Piece, ls[0].Token, 1, r.now)
		equal(t, "expired", len(r.m.Expire(r.now).Expired), 0)
	}
	r.pass(5 * time.Second)
	equal(t, "expired", len(r.m.Expire(r.now).Expired), 4)
}

func TestPieceThatIsPassedOverExpires(t *testing.T) {
	r := newRig(t, 100, Config{})
	r.add("a").full("a")
	ls := r.get("a", 3)
	var expired []Lease
	for range 4 {
		r.pass(2 * time.Second)
		r.m.Progress("a", ls[1].Piece, ls[1].Token, 1, r.now)
		expired = append(expired, r.m.Expire(r.now).Expired...)
		if err := r.m.check(); err != nil {
			t.Fatal(err)
		}
	}
	if len(expired) != 1 || expired[0].Piece != ls[0].Piece {
		t.Errorf("expired %v, want only the first lease, which nothing came for", expired)
	}
}

func TestCompletionOfTheFirstExtendsTheRest(t *testing.T) {
	r := newRig(t, 100, Config{})
	r.add("a").full("a")
	for _, l := range r.get("a", 4) {
		r.pass(4 * time.Second)
		equal(t, "expired", len(r.m.Expire(r.now).Expired), 0)
		r.done(l)
	}
}

// A source of 20 kB/s, asked for 64 KiB blocks, takes 53 s for a piece.
func TestSlowHonestSourceKeepsItsLeases(t *testing.T) {
	r := newRig(t, 4, Config{})
	r.add("a").full("a")
	ls := r.get("a", 4)
	for _, l := range ls {
		for got := 0; got < share.MinPiece; got += share.BlockSize {
			r.pass(share.BlockSize * time.Second / 20_000)
			if x := r.m.Expire(r.now).Expired; len(x) > 0 {
				t.Fatalf("lost %v", x)
			}
			r.m.Progress("a", l.Piece, l.Token, share.BlockSize, r.now)
			r.rate("a", 20_000, 0)
		}
		r.done(l)
	}
	equal(t, "done", r.m.Done(), true)
}

func TestSilentSourceLosesItsWindowWithinSeconds(t *testing.T) {
	r := newRig(t, 1000, Config{})
	r.add("a").full("a").rate("a", 100<<20, 20*time.Millisecond)
	ls := r.get("a", 1000)
	if len(ls) < 40 {
		t.Fatalf("%d leases", len(ls))
	}
	r.pass(3 * time.Second)
	equal(t, "expired", len(r.m.Expire(r.now).Expired), len(ls))
}

func TestBackstopCountsFromTheLastSignOfLife(t *testing.T) {
	r := newRig(t, 4, Config{})
	r.add("a").full("a").rate("a", 1, 0)
	ls := r.get("a", 2)
	for range 10 {
		r.pass(200 * time.Second)
		equal(t, "expired", len(r.m.Expire(r.now).Expired), 0)
		r.m.Progress("a", ls[0].Piece, ls[0].Token, 1, r.now)
	}
	r.pass(300 * time.Second)
	equal(t, "expired", len(r.m.Expire(r.now).Expired), 2)
}

func TestClockSetBackLosesNoTime(t *testing.T) {
	r := newRig(t, 4, Config{})
	r.add("a").full("a")
	r.one("a")
	r.pass(4 * time.Second)
	r.m.Expire(r.now)
	r.pass(-time.Hour)
	r.m.Expire(r.now)
	equal(t, "wake", r.m.Wake(), r.now.Add(time.Second))
	r.pass(time.Second)
	equal(t, "expired", len(r.m.Expire(r.now).Expired), 1)
}

func TestLongTimesDoNotOverflow(t *testing.T) {
	for _, s := range []float64{1e9, 1e10, 1e300} {
		if d := seconds(s); d < 1e9*time.Second {
			t.Errorf("%g s are %s", s, d)
		}
	}
}

func TestAlarmsRingInOrder(t *testing.T) {
	r := newRig(t, 100, Config{})
	rates := map[string]float64{"a": 1e5, "b": 3e5, "c": 2e5, "d": 9e5, "e": 4e5, "f": 7e5}
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		r.add(peerID(id)).full(peerID(id)).rate(peerID(id), rates[id], 0)
		r.one(peerID(id))
	}
	var order string
	for range 6 {
		r.to(r.m.Wake())
		for _, l := range r.m.Expire(r.now).Expired {
			order += string(l.Source)
		}
	}
	equal(t, "order", order, "dfebca")
}

// A piece that a source finishes out of turn is not a sign of life for the one asked for first.
func TestFinishingAQueuedLeaseDoesNotExtendTheHead(t *testing.T) {
	r := newRig(t, 10, Config{})
	r.add("a").full("a").rate("a", share.MinPiece, 0)
	ls := r.get("a", 2)
	equal(t, "leases", len(ls), 2)
	before := r.m.Wake()
	r.pass(time.Second)
	r.m.Verified(ls[1].Piece, r.now, ls[1].Token)
	equal(t, "deadline of the head", r.m.Wake(), before)
}

// A request for zero leases does not count: a source that waits is woken all the same.
func TestAskingForNothingChangesNothing(t *testing.T) {
	r := newRig(t, 1, Config{HedgeShare: -1, HedgeFloor: -1})
	r.add("a").full("a").add("b").full("b")
	l := r.one("a")
	r.get("b", 1)
	r.m.Acquire("b", 0, r.now)
	todo := r.m.Fail("a", l.Piece, l.Token, GaveBack, r.now)
	woken := false
	for _, id := range todo.Wake {
		woken = woken || id == "b"
	}
	equal(t, "b is woken", woken, true)
}

// What this node itself holds up makes no source late, and is leased to no other for that, even if a reader waits for it.
func TestASourceThatThisNodeHoldsUpIsNotLate(t *testing.T) {
	r := newRig(t, 3, Config{})
	r.add("a", "b").full("a", "b")
	ls := r.get("a", 3)
	r.m.SetReader(1, ls[2].Piece, 1, r.now)
	for range 100 {
		r.pass(time.Second)
		r.m.Excuse("a", r.now)
		r.m.Excuse("nobody", r.now)
		equal(t, "expired", len(r.m.Expire(r.now).Expired), 0)
		if got, _ := r.m.Acquire("b", 1, r.now); len(got) > 0 {
			t.Fatalf("leased to another: %+v", got)
		}
	}
	r.pass(5*time.Second - 1)
	equal(t, "expired before", len(r.m.Expire(r.now).Expired), 0)
	r.pass(1)
	equal(t, "expired", len(r.m.Expire(r.now).Expired), len(ls))
}

// While nobody else could be asked, a source that says that it is busy is not late.
func TestTheOnlySourceIsNotLateWhileItSaysThatItIsBusy(t *testing.T) {
	r := newRig(t, 10, Config{})
	r.add("a", "b", "c").full("a", "b")
	r.m.Rank("b", 1, true, r.now)
	ls := r.get("a", 3)
	for range 100 {
		r.pass(4 * time.Second)
		r.m.Busy("a", r.now)
		r.m.Busy("nobody", r.now)
		equal(t, "expired", len(r.m.Expire(r.now).Expired), 0)
	}
	r.pass(5*time.Second - 1)
	equal(t, "expired before", len(r.m.Expire(r.now).Expired), 0)
	r.pass(1)
	equal(t, "expired", len(r.m.Expire(r.now).Expired), len(ls))
}

// A source cannot keep others from its pieces by saying that it is busy.
func TestBusyIsNoSignOfLifeBesideOthers(t *testing.T) {
	for what, others := range map[string]func(*rig){
		"one that has all":             func(r *rig) { r.full("b") },
		"one that has something":       func(r *rig) { r.has("b", 9) },
		"several that have a part":     func(r *rig) { r.has("b", 9).has("c", 8) },
		"one that has something again": func(r *rig) { r.full("b").has("b", 9) },
	} {
		r := newRig(t, 10, Config{})
		r.add("a", "b", "c").full("a")
		others(r)
		r.get("a", 3)
		r.pass(4 * time.Second)
		r.m.Busy("a", r.now)
		equal(t, what+": wake", r.m.Wake(), r.now.Add(time.Second))
	}
}

// Whoever comes later hedges as soon as if the source had said nothing.
func TestBusyDoesNotDelayHedges(t *testing.T) {
	r := newRig(t, 1, Config{})
	r.add("a", "b").full("a")
	l := r.one("a")
	r.pass(2 * time.Second)
	r.m.Busy("a", r.now)
	r.full("b").rate("b", share.BlockSize, 0)
	h := r.one("b")
	equal(t, "hedge", h.Hedge, true)
	equal(t, "piece", h.Piece, l.Piece)
}
