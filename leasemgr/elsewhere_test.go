package leasemgr

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// away gives a lease back because its source sent us elsewhere.
func (r *rig) away(l Lease, retry time.Duration) Todo {
	return r.m.Defer(l.Source, l.Piece, l.Token, retry, r.now)
}

// feed makes a source bring pieces at a rate for some seconds.
func (r *rig) feed(id peers.ID, rate, seconds int) {
	r.t.Helper()
	for range 4 * seconds {
		l := r.one(id)
		r.pass(time.Second / 4)
		r.m.Progress(id, l.Piece, l.Token, rate/4, r.now)
		r.m.Fail(id, l.Piece, l.Token, GaveBack, r.now)
	}
}

func TestPieceGivenToOthersIsAskedForLater(t *testing.T) {
	r := newRig(t, 2, Config{}).add("s", "b").full("s")
	first, second := r.one("s"), r.one("s")
	r.away(first, 3*time.Second)
	no := r.not("s", Spared)
	if d := no.Until.Sub(r.now); d <= 0 || d > time.Second {
		t.Errorf("asks again in %v", d)
	}
	r.done(second)
	r.pass(2999 * time.Millisecond)
	r.not("s", Spared)
	why := r.m.Why(first.Piece, r.now).Next
	if !strings.Contains(why, "gave it to others first") || !strings.Contains(why, "asked again in 1 ms") {
		t.Errorf("why: %s", why)
	}
	r.pass(time.Millisecond)
	if l := r.one("s"); l.Piece != first.Piece {
		t.Errorf("got %v", l)
	}
}

func TestPieceGivenToOthersGoesToThem(t *testing.T) {
	r := newRig(t, 1, Config{}).add("s", "b").full("s")
	r.not("b", NoneHere)
	l := r.one("s")
	r.away(l, 3*time.Second)
	todo := r.m.Have("b", []share.Piece{0}, r.now)
	if !slices.Contains(todo.Wake, "b") {
		t.Errorf("woke %v", todo.Wake)
	}
	equal(t, "piece", r.one("b").Piece, 0)
}

func TestNoRetryIsBelievedForEver(t *testing.T) {
	r := newRig(t, 1, Config{}).add("s").full("s")
	r.away(r.one("s"), 1000*time.Hour)
	r.pass(maxElsewhere)
	r.one("s")
	r = newRig(t, 1, Config{}).add("s").full("s")
	l := r.one("s")
	r.m.Fail("s", l.Piece, l.Token, Elsewhere, r.now) // without a time
	r.not("s", Spared)
	r.pass(elsewhereFor)
	r.away(r.one("s"), 0) // the same
	r.not("s", Spared)
	r.pass(elsewhereFor)
	r.one("s")
}

func TestPartialSourceFindsWhatItGaveToOthersAgain(t *testing.T) {
	r := newRig(t, 8, Config{}).add("s").has("s", 1, 2, 3)
	var got []share.Piece
	for range 3 {
		l := r.one("s")
		got = append(got, l.Piece)
		r.away(l, time.Second)
	}
	r.not("s", Spared)
	r.pass(time.Second)
	slices.Sort(got)
	equal(t, "pieces", len(r.get("s", 4)), 3)
	if !slices.Equal(got, []share.Piece{1, 2, 3}) {
		t.Errorf("got %v", got)
	}
}

func TestSourceIsSparedWhileOthersBringMore(t *testing.T) {
	r := newRig(t, 20, Config{HedgeFloor: -1, HedgeShare: -1}).add("s", "b").full("s").has("b", 0, 1, 2, 3, 4).rate("s", 1e5, 0).rate("b", 1e6, 0)
	r.feed("b", 1e6, 3)
	r.away(r.one("s"), 0)
	for range 15 { // pieces that only it has
		l := r.one("s")
		if l.Piece < 5 {
			t.Fatalf("asked for %d, which b has", l.Piece)
		}
		r.done(l)
	}
	no := r.not("s", Spared)
	if no.Until.IsZero() {
		t.Error("and then?")
	}
	why := r.m.Why(0, r.now).Next
	if !strings.Contains(why, "the one source that has room will be asked for it") {
		t.Errorf("why: %s", why)
	}
	r.pass(8 * time.Second) // the measured rate of the others has ebbed away
	r.one("s")
}

func TestSourceIsSparedForAWhile(t *testing.T) {
	for _, x := range []struct {
		cfg    Config
		spared time.Duration
	}{{Config{}, 10 * time.Second}, {Config{SpareFor: 3 * time.Second}, 3 * time.Second}, {Config{SpareFor: -1}, 0}, {Config{SpareFactor: 100}, 0}} {
		r := newRig(t, 20, x.cfg).add("s", "b").full("s").has("b", 0, 1, 2).rate("s", 1e5, 0).rate("b", 1e6, 0)
		r.feed("b", 1e6, 3)
		r.away(r.one("s"), 0)
		began := r.now
		for r.m.spared(r.m.sources[r.m.byID["s"]]) {
			r.feed("b", 1e6, 1)
		}
		equal(t, "spared for", r.now.Sub(began), x.spared)
	}
}

func TestWhatOthersFailedWithIsAskedOfASparedSource(t *testing.T) {
	r := newRig(t, 20, Config{}).add("s", "b").full("s").has("b", 0, 1, 2).rate("s", 1e5, 0).rate("b", 1e6, 0)
	r.feed("b", 1e6, 3)
	r.away(r.one("s"), 0)
	r.pass(elsewhereFor)
	for r.m.pool.count > 3 { // pieces that only it has
		r.done(r.one("s"))
	}
	r.not("s", Spared)
	l := r.one("b")
	r.m.Fail("b", l.Piece, l.Token, BadData, r.now)
	equal(t, "piece", r.one("s").Piece, l.Piece)
}

func TestSparedSourceIsAskedForNothingAnotherWholeOneHas(t *testing.T) {
	r := newRig(t, 20, Config{}).add("s", "b").full("s", "b").rate("s", 1e5, 0).rate("b", 1e6, 0)
	r.feed("b", 1e6, 3)
	r.away(r.one("s"), 0)
	r.not("s", Spared)
	r.one("b")
	r.m.RemoveSource("b", r.now)
	r.one("s")
}

func TestPressed(t *testing.T) {
	r := newRig(t, 200, Config{MaxLeasesPerPeer: 100}).add("s", "b").full("s").has("b", 1).rate("s", 1e6, 0)
	if r.one("s").Pressed {
		t.Error("nobody sent us elsewhere")
	}
	for range 10 {
		l := r.one("s")
		early := l.Granted.Before(time.Unix(1000, 0).Add(time.Duration(pressAfter)))
		equal(t, "pressed", l.Pressed, !early)
		r.away(l, 0)
		r.pass(time.Second)
	}
	r.rate("s", 1e4, 0)
	r.feed("b", 1e5, 4)
	if l := r.one("s"); l.Pressed {
		t.Error("others bring more than enough")
	}
}

// One that has the whole share need not fetch it first: it is given less time, and all the work meanwhile.
func TestPressedSoonerWhenAnotherHasTheWholeShare(t *testing.T) {
	for _, gone := range []bool{false, true} {
		r := newRig(t, 200, Config{MaxLeasesPerPeer: 100}).add("s", "b").full("s", "b").rate("s", 1e6, 0)
		r.away(r.one("s"), 0)
		r.not("s", Spared)
		if gone {
			r.m.RemoveSource("b", r.now)
			if l := r.one("s"); l.Pressed {
				t.Error("nobody else has the share, and it is pressed at once")
			}
			continue
		}
		r.pass(time.Duration(pressSoon) - 1)
		r.not("s", Spared)
		r.pass(1)
		if !r.one("s").Pressed {
			t.Error("not pressed, though the other brings nothing")
		}
	}
}

// awayAll gives back every piece that a source is asked for, as gone elsewhere, and returns how many.
func (r *rig) awayAll(id peers.ID, retry time.Duration) (n int) {
	for n < 1000 {
		l, _ := r.m.Acquire(id, 1, r.now)
		if len(l) == 0 {
			break
		}
		r.away(l[0], retry)
		n++
	}
	return n
}

// Of a source that was never measured nobody knows that it could bring more than the others.
func TestNotPressedSoonerAtASourceThatWasNotMeasured(t *testing.T) {
	r := newRig(t, 200, Config{MaxLeasesPerPeer: 100}).add("s", "b").full("s", "b")
	r.away(r.one("s"), 0)
	r.pass(time.Duration(pressSoon))
	if r.one("s").Pressed {
		t.Error("pressed, though nothing is known of the source")
	}
	r.pass(time.Duration(pressAfter - pressSoon))
	if !r.one("s").Pressed {
		t.Error("not pressed after the usual time")
	}
}

func TestSourceThatIsAllWeHaveIsAskedAgainForEverything(t *testing.T) {
	for name, rate := range map[string]float64{"measured": 1e6, "not measured": 0} {
		r := newRig(t, 8, Config{}).add("s", "b").full("s").has("b", 1)
		if rate > 0 {
			r.rate("s", rate, 0)
		}
		r.feed("b", 2e5, 1) // the rate ebbs away, and never reaches zero
		r.m.HaveNot("b", []share.Piece{1}, r.now)
		equal(t, name+": at first", r.awayAll("s", maxElsewhere), 8)
		r.pass(time.Duration(pressAfter) - time.Millisecond)
		equal(t, name+": early", r.awayAll("s", maxElsewhere), 0)
		r.pass(3 * time.Second)
		equal(t, name+": later", r.awayAll("s", 2*time.Second), 8)
		r.pass(time.Second)
		equal(t, name+": again", r.awayAll("s", 2*time.Second), 0)
		r.pass(time.Second)
		equal(t, name+": pressed", r.one("s").Pressed, true)
	}
}

func TestSourceIsNotAskedAgainSoonWhileOthersBringSomething(t *testing.T) {
	r := newRig(t, 8, Config{}).add("s", "b").full("s").has("b", 1).rate("s", 1e6, 0)
	r.m.SetHave("b", share.NewSet(8), r.now)
	equal(t, "at first", r.awayAll("s", maxElsewhere), 8)
	r.m.SetHave("b", share.FullSet(8), r.now)
	for range 4 * 6 {
		l := r.one("b")
		r.pass(time.Second / 4)
		r.m.Progress("b", l.Piece, l.Token, leastRate, r.now)
		r.m.Fail("b", l.Piece, l.Token, GaveBack, r.now)
	}
	equal(t, "later", r.awayAll("s", maxElsewhere), 0)
}

// A source that says beforehand that it has many to feed is spared for a while if another has the
// whole share, and then asked.
func TestSourceWithManyToFeedIsSpared(t *testing.T) {
	r := newRig(t, 4, Config{}).add("s", "b").full("s").has("b", 1)
	r.m.Spare("s", r.now)
	r.one("s")
	r = newRig(t, 4, Config{}).add("s", "b").full("s", "b")
	r.m.Spare("s", r.now)
	r.not("s", Spared)
	r.one("b")
	r.pass(time.Duration(pressSoon))
	if l := r.one("s"); l.Pressed {
		t.Error("it is told that others bring too little, and nobody was sent elsewhere for a piece")
	}
	r = newRig(t, 4, Config{SpareFor: -1}).add("s", "b").full("s", "b")
	r.m.Spare("s", r.now)
	r.one("s")
}
