package peers

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/piecelease/fetcher/internal/rig"
)

// crowdAsk is a request of one child of a crowd to the source of a share.
func (d *desk) crowdAsk(child ID, piece uint32, with func(*Ask)) Verdict {
	d.job++
	a := Ask{Job: d.job, Child: child, Key: "share", Piece: piece, Bytes: 1000, Crowd: 49, Spreads: true, Whole: true}
	if with != nil {
		with(&a)
	}
	d.asks[d.job] = a
	v := d.u.Ask(a, d.now)
	if v.Go {
		d.admitted([]Job{d.job})
	}
	return v
}

func (d *desk) pass(t time.Duration) {
	d.now = d.now.Add(t)
	d.tick()
}

func TestWhoHadItsPartGetsTheRestElsewhere(t *testing.T) {
	fed := func(a *Ask) { a.Crowd, a.Fed = 3, true }
	d := newDesk(UploadConfig{})
	if v := d.crowdAsk("a", 1, fed); !v.Elsewhere || v.Retry != fedRetry {
		t.Errorf("%+v", v)
	}
	if v := d.crowdAsk("a", 1, func(a *Ask) { fed(a); a.Pressed = true }); !v.Go {
		t.Errorf("pressed: %+v", v)
	}
	if v := newDesk(UploadConfig{Spread: -1}).crowdAsk("a", 1, fed); !v.Go {
		t.Errorf("where nothing is held back: %+v", v)
	}
}

func TestWhatIsOnItsWayIsNotSentToAnother(t *testing.T) {
	d := newDesk(UploadConfig{})
	d.hold = true
	part := func(a *Ask) { a.Whole, a.Crowd = false, smallCrowd }
	d.crowdAsk("a", 1, part)
	first := d.job
	if v := d.crowdAsk("b", 1, part); !v.Elsewhere || v.Retry <= 0 || v.Go || v.Queued || v.Busy {
		t.Errorf("b: %+v", v)
	}
	if v := d.crowdAsk("b", 2, part); !v.Go {
		t.Errorf("another piece: %+v", v)
	}
	if v := d.crowdAsk("a", 1, part); !v.Go {
		t.Errorf("more of the piece, for the child that gets it: %+v", v)
	}
	d.u.Done(first, d.now)
	d.u.Done(d.job, d.now)
	if v := d.crowdAsk("b", 1, part); !v.Go {
		t.Errorf("when it is served: %+v", v)
	}
}

func TestAQuickMemberOfAFleetSendsNobodyElsewhere(t *testing.T) {
	for took, want := range map[time.Duration]bool{0: true, soonestRetry - 1: false, soonestRetry: true} {
		d := newDesk(UploadConfig{})
		d.hold = true
		d.u.spreads.took = took
		part := func(a *Ask) { a.Whole, a.Crowd, a.Fleet = false, smallCrowd, true }
		d.crowdAsk("a", 1, part)
		if v := d.crowdAsk("b", 1, part); v.Elsewhere != want {
			t.Errorf("a piece takes %v: %+v", took, v)
		}
		if v := d.crowdAsk("c", 1, func(a *Ask) { part(a); a.Fleet = false }); !v.Elsewhere {
			t.Errorf("one that is no member, a piece takes %v: %+v", took, v)
		}
	}
}

func TestPieceOfASourceGetsAroundFirst(t *testing.T) {
	for _, x := range []struct {
		crowd int
		held  time.Duration
	}{{1, 0}, {smallCrowd - 1, 0}, {7, 1500 * time.Millisecond}, {largeCrowd, longestSpread}, {31, longestSpread}} {
		d := newDesk(UploadConfig{})
		of := func(a *Ask) { a.Crowd = x.crowd }
		d.crowdAsk("a", 1, of)
		if x.held > 0 {
			d.pass(x.held - time.Millisecond)
			v := d.crowdAsk("b", 1, of)
			if !v.Elsewhere {
				t.Fatalf("%d others: %+v just before %v", x.crowd, v, x.held)
			}
			d.pass(max(time.Millisecond, v.Retry))
		}
		if v := d.crowdAsk("b", 1, of); !v.Go {
			t.Errorf("%d others: %+v after %v", x.crowd, v, x.held)
		}
	}
}

// In a large crowd a piece is held back however small the crowd was when it was sent.
func TestAPieceThatTheFirstOfALargeCrowdGotGetsAroundInAllOfIt(t *testing.T) {
	for _, x := range []struct {
		crowd int
		whole bool
		held  time.Duration
	}{{smallCrowd - 1, true, 0}, {largeCrowd - 1, true, 0}, {largeCrowd, true, longestSpread}, {49, true, longestSpread}, {49, false, 0}} {
		d := newDesk(UploadConfig{})
		of := func(a *Ask) { a.Crowd, a.Whole = x.crowd, x.whole }
		d.crowdAsk("a", 1, func(a *Ask) { a.Crowd, a.Whole = 0, x.whole })
		if x.held > 0 {
			d.pass(x.held - time.Millisecond)
			if v := d.crowdAsk("b", 1, of); !v.Elsewhere {
				t.Errorf("%+v: %+v just before", x, v)
			}
			d.pass(time.Millisecond)
		}
		if v := d.crowdAsk("b", 1, of); !v.Go {
			t.Errorf("%+v: %+v", x, v)
		}
	}
	d := newDesk(UploadConfig{})
	d.crowdAsk("a", 1, func(a *Ask) { a.Crowd = 0 })
	d.u.Forget("a", d.now)
	if v := d.crowdAsk("b", 1, nil); !v.Go {
		t.Errorf("whoever was given it is gone: %+v", v)
	}
	d = newDesk(UploadConfig{})
	d.crowdAsk("a", 1, func(a *Ask) { a.Crowd = 0 })
	for range 3 { // more of it, for the same child, holds nothing back any longer
		d.pass(longestSpread / 3)
		d.crowdAsk("a", 1, nil)
	}
	if v := d.crowdAsk("b", 1, nil); !v.Go {
		t.Errorf("after %v: %+v", longestSpread, v)
	}
}

// In a large crowd a child may ask again long before the piece is free: others may bring it too
// little by then.
func TestAChildOfALargeCrowdMayAskAgainSoon(t *testing.T) {
	d := newDesk(UploadConfig{})
	of := func(a *Ask) { a.Crowd = 31 }
	d.crowdAsk("a", 1, of)
	v := d.crowdAsk("b", 1, of)
	if !v.Elsewhere || v.Retry != 4500*time.Millisecond { // 1.5 s for each of three doublings
		t.Fatalf("%+v", v)
	}
	d.pass(v.Retry)
	if v := d.crowdAsk("b", 1, of); !v.Elsewhere {
		t.Errorf("after that time: %+v", v)
	}
	if v := d.crowdAsk("b", 1, func(a *Ask) { of(a); a.Pressed = true }); !v.Go {
		t.Errorf("pressed: %+v", v)
	}
}

// A source with a limit sends a piece to one child at a time even if only one other
// could pass it on, until it has had time to send all of it. A child alone is served.
func TestALimitedSourceSendsAPieceToOneChild(t *testing.T) {
	const held = 1500*time.Millisecond + 2<<20*time.Second/250_000 // one piece to each of two
	few := func(a *Ask) { a.Crowd, a.Bytes = 1, share64K }
	for rate, want := range map[int64]time.Duration{0: 0, 250_000: held, 1 << 40: 1500 * time.Millisecond} {
		d := newDesk(UploadConfig{Rate: rate, Burst: 1 << 20})
		d.crowdAsk("a", 1, few)
		if v := d.crowdAsk("a", 1, few); !v.Go {
			t.Errorf("at %d: more for the child that was given it: %+v", rate, v)
		}
		v := d.crowdAsk("b", 1, few)
		if v.Elsewhere != (want > 0) || want > 0 && (v.Retry < want || v.Retry > want+time.Millisecond) {
			t.Errorf("at %d: another: %+v; want it held back for %v", rate, v, want)
		}
		if v := d.crowdAsk("c", 1, func(a *Ask) { few(a); a.Crowd = 0 }); !v.Go {
			t.Errorf("at %d: one that knows nobody: %+v", rate, v)
		}
		d.pass(want + time.Millisecond)
		if v := d.crowdAsk("b", 1, few); !v.Go {
			t.Errorf("at %d: after %v: %+v", rate, want, v)
		}
	}
}

const share64K = 64 << 10

func TestSpreadIsAnOption(t *testing.T) {
	d := newDesk(UploadConfig{Spread: -1})
	d.hold = true
	d.crowdAsk("a", 1, nil)
	if v := d.crowdAsk("b", 1, nil); !v.Go {
		t.Errorf("none: %+v", v)
	}
	d = newDesk(UploadConfig{Spread: 10 * time.Millisecond})
	d.crowdAsk("a", 1, nil)
	d.pass(largeSteps * 10 * time.Millisecond)
	if v := d.crowdAsk("b", 1, nil); !v.Go {
		t.Errorf("short: %+v", v)
	}
}

func TestWhoGetsNothingElsewhereIsServed(t *testing.T) {
	d := newDesk(UploadConfig{})
	d.hold = true
	pressed := func(a *Ask) { a.Pressed = true }
	d.crowdAsk("a", 1, nil)
	v := d.crowdAsk("b", 1, pressed)
	if !v.Elsewhere || v.Retry > soonestRetry {
		t.Errorf("while it is on its way: %+v", v)
	}
	d.u.Done(1, d.now)
	if v := d.crowdAsk("c", 1, nil); !v.Elsewhere {
		t.Errorf("not pressed: %+v", v)
	}
	if v := d.crowdAsk("b", 1, pressed); !v.Go {
		t.Errorf("pressed: %+v", v)
	}
}

func TestWhoCannotPassOnHoldsNothingAndWhoKnowsFewIsServed(t *testing.T) {
	d := newDesk(UploadConfig{})
	d.hold = true
	d.crowdAsk("leech", 1, func(a *Ask) { a.Spreads = false })
	if v := d.crowdAsk("b", 1, nil); !v.Go {
		t.Errorf("held back for a child that passes nothing on: %+v", v)
	}
	if v := d.crowdAsk("alone", 1, func(a *Ask) { a.Crowd = smallCrowd - 1 }); !v.Go {
		t.Errorf("sent away though it knows too few: %+v", v)
	}
}

func TestPieceOfAChildThatLeftIsFree(t *testing.T) {
	for _, serving := range []bool{true, false} {
		d := newDesk(UploadConfig{})
		d.hold = serving
		d.crowdAsk("a", 1, nil)
		d.u.Forget("a", d.now)
		if v := d.crowdAsk("b", 1, nil); !v.Go {
			t.Errorf("being served %v: %+v", serving, v)
		}
	}
}

func TestSlowChildDoesNotHoldAPieceForLong(t *testing.T) {
	d := newDesk(UploadConfig{})
	d.hold = true
	d.crowdAsk("slow", 1, nil)
	d.pass(shortestOnWay - time.Millisecond)
	v := d.crowdAsk("b", 1, nil)
	if !v.Elsewhere {
		t.Fatalf("%+v", v)
	}
	d.pass(v.Retry)
	if v := d.crowdAsk("b", 1, nil); !v.Go {
		t.Errorf("%+v", v)
	}
}

func TestWhoAsksAgainAndAgainHoldsNothing(t *testing.T) {
	d := newDesk(UploadConfig{})
	d.crowdAsk("greedy", 1, nil)
	for range 3 * longestSpread / time.Second {
		d.pass(time.Second)
		d.crowdAsk("greedy", 1, nil)
	}
	if v := d.crowdAsk("b", 1, nil); !v.Go {
		t.Errorf("it kept on asking: %+v", v)
	}
	d.pass(time.Minute)
	d.crowdAsk("b", 2, nil)
	d.pass(time.Minute)
	d.crowdAsk("b", 2, nil)
	if v := d.crowdAsk("greedy", 2, nil); !v.Go {
		t.Errorf("what was given long ago was held back again: %+v", v)
	}
}

func TestWaitingRequestIsSentElsewhere(t *testing.T) {
	d := newDesk(UploadConfig{Slots: 1})
	d.hold = true
	d.crowdAsk("a", 1, nil) // is served
	d.crowdAsk("a", 2, nil) // waits
	d.crowdAsk("b", 2, nil) // waits
	d.crowdAsk("b", 3, nil) // waits
	d.admitted(d.u.Done(1, d.now))
	d.admitted(d.u.Done(d.order[1], d.now))
	gone := d.u.Elsewhere()
	if len(gone) != 1 || d.asks[gone[0].Job].Piece != 2 || gone[0].Retry <= 0 {
		t.Fatalf("sent elsewhere: %+v; served %v", gone, d.order)
	}
	if len(d.u.Elsewhere()) > 0 || d.u.Waiting() != 0 || d.u.Serving() != 1 {
		t.Errorf("%d wait, %d are served", d.u.Waiting(), d.u.Serving())
	}
}

// Whatever others did or claimed before: a child that comes back when it was told to is
// served before long, unless others are given the piece meanwhile.
func TestNobodyIsSentElsewhereForLong(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDesk(UploadConfig{})
		d.hold = true
		children := []ID{"a", "b", "c"}
		var open []Job
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			switch rapid.IntRange(0, 4).Draw(t, "what") {
			case 0, 1:
				v := d.crowdAsk(rapid.SampledFrom(children).Draw(t, "child"), uint32(rapid.IntRange(0, 2).Draw(t, "piece")), func(a *Ask) {
					a.Crowd = rapid.SampledFrom([]int{0, 1, 5, 4095}).Draw(t, "crowd")
					a.Spreads, a.Whole, a.Pressed = rapid.Bool().Draw(t, "spreads"), rapid.Bool().Draw(t, "whole"), rapid.Bool().Draw(t, "pressed")
				})
				if v.Elsewhere && (v.Retry < soonestRetry || v.Retry > longestSpread) {
					t.Fatalf("%+v", v)
				}
				if v.Go {
					open = append(open, d.job)
				}
			case 2:
				if len(open) > 0 {
					d.u.Done(open[0], d.now)
					open = open[1:]
				}
			case 3:
				d.pass(time.Duration(rapid.IntRange(0, 9000).Draw(t, "ms")) * time.Millisecond)
			case 4:
				d.u.Forget(rapid.SampledFrom(children).Draw(t, "lost"), d.now)
			}
		}
		began := d.now
		for {
			v := d.crowdAsk("patient", 1, nil)
			if !v.Elsewhere {
				break
			}
			d.pass(v.Retry)
			if d.now.Sub(began) > longestSpread+time.Second {
				t.Fatalf("sent elsewhere for %v", d.now.Sub(began))
			}
		}
	})
}

func TestSpreadsAreForgotten(t *testing.T) {
	const each = 20 * time.Millisecond
	d := newDesk(UploadConfig{})
	for p := range uint32(5000) {
		d.crowdAsk("a", p, nil)
		d.pass(each)
	}
	if n, most := len(d.u.spreads.each), int((longestSpread+rememberSpread)/each); n > most {
		t.Errorf("%d pieces are remembered, want those of 32 s, %d", n, most)
	}
}

// Of many small pieces only so many are remembered, but none that is held back is forgotten.
func TestSpreadsOfManyPiecesAreBounded(t *testing.T) {
	rig.Slow(t)
	for crowd, want := range map[int]int{1: maxSpreads + 1, largeCrowd: maxSpreads + 1000} {
		d := newDesk(UploadConfig{})
		d.hold = true
		for piece := range uint32(maxSpreads + 1000) {
			d.crowdAsk("a", piece, func(a *Ask) { a.Crowd = crowd })
			d.u.Done(d.job, d.now)
		}
		if n := len(d.u.spreads.each); n != want {
			t.Errorf("in a crowd of %d, %d pieces are remembered, not %d", crowd, n, want)
		}
	}
}

func TestAChildThatIsForgottenIsForgottenTheSameWayEachTime(t *testing.T) {
	var was Verdict
	for try := range 20 {
		d := newDesk(UploadConfig{})
		d.hold = true
		part := func(a *Ask) { a.Whole = false }
		for piece := range uint32(8) {
			d.crowdAsk("a", piece, part)
			d.pass(100 * time.Millisecond)
		}
		d.crowdAsk("b", 9, part)
		d.u.Forget("a", d.now)
		v := d.crowdAsk("c", 9, part)
		if try == 0 {
			was = v
		}
		if !v.Elsewhere || v != was {
			t.Fatalf("%+v, and at first %+v", v, was)
		}
	}
}

// While a crowd is coming, what one child was given is held back as in a large crowd; afterwards it is not.
func TestACrowdThatComesIsALargeOne(t *testing.T) {
	flash := func(n int) func(*Ask) { return func(a *Ask) { a.Crowd, a.Flash = n, true } }
	d := newDesk(UploadConfig{})
	d.crowdAsk("a", 1, flash(1))
	d.pass(time.Second)
	if v := d.crowdAsk("b", 1, flash(1)); !v.Elsewhere || v.Retry > d.u.cfg.Spread {
		t.Errorf("beside one other: %+v", v)
	}
	if v := d.crowdAsk("b", 1, flash(0)); !v.Go {
		t.Errorf("who knows nobody: %+v", v)
	}
	if v := d.crowdAsk("c", 1, func(a *Ask) { a.Crowd = smallCrowd }); !v.Go {
		t.Errorf("when it has come, and is small: %+v", v)
	}
}
