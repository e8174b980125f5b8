package depot

import (
	"testing"
	"time"
)

// clockwork is a machine with its clocks.
type clockwork struct {
	Reading
	Clock
	busy bool // a respite takes long
}

func newClockwork() *clockwork {
	w := &clockwork{Reading: Reading{Boot: "1", Wall: time.Unix(1_000_000_000, 0), Passed: time.Hour}}
	w.look()
	return w
}

// look looks at the clock, and gives what is held its respite if that is needed.
func (w *clockwork) look() time.Time {
	if w.Look(w.Reading); w.Waits && !w.busy {
		w.Stepped(w.Clock.Wall)
	}
	return w.Now
}

// run lets time pass, and makes the wall clock jump in addition.
func (w *clockwork) run(d, jump time.Duration) time.Time {
	w.Reading.Passed += d
	w.Reading.Wall = w.Reading.Wall.Add(d + jump)
	return w.look()
}

// restart restarts the system, after it was off for d.
func (w *clockwork) restart(d time.Duration, synced bool) time.Time {
	w.Reading.Boot += "1"
	w.Reading.Passed = 0
	w.Reading.Wall = w.Reading.Wall.Add(d)
	w.Reading.Synced = synced
	return w.look()
}

const day = 24 * time.Hour

func TestClockThatAgreesIsBelieved(t *testing.T) {
	w := newClockwork()
	for range 1000 {
		if now := w.run(day, 0); w.Frozen || !now.Equal(w.Reading.Wall) {
			t.Fatal(now, w.Frozen)
		}
	}
	for range 1000 { // asleep every night: suspension is part of what passed
		w.run(16*time.Hour, 0)
		w.run(8*time.Hour, 0)
	}
	for range 1000 { // off every night, and synchronised before it starts
		w.run(16*time.Hour, 0)
		w.restart(8*time.Hour, true)
	}
	if now := w.restart(400*day, true); w.Frozen || !now.Equal(w.Reading.Wall) {
		t.Error("a year off, and synchronised: frozen")
	}
}

func TestClockJumpsFreezeAndTimeStandsStill(t *testing.T) {
	for _, jump := range []time.Duration{365 * day, 12*time.Hour + 1, -12*time.Hour - 1, -365 * day, 1 << 62, -1 << 62} {
		w := newClockwork()
		before := w.run(time.Hour, 0)
		if now := w.run(time.Hour, jump); !w.Frozen || !now.Equal(before) {
			t.Errorf("%v: frozen %v, at %v", jump, w.Frozen, now)
		}
		if now := w.run(40*day, 0); !w.Frozen || !now.Equal(before) {
			t.Errorf("%v: it passed in the end", jump)
		}
		if now := w.restart(day, true); !w.Frozen || !now.Equal(before) {
			t.Errorf("%v: a restart lets it pass", jump)
		}
		w.OK(w.Reading)
		if now := w.run(time.Hour, 0); w.Frozen || !now.Equal(w.Reading.Wall) {
			t.Errorf("%v: the owner's word does not count", jump)
		}
	}
}

// A clock that was frozen stays so, also if it is set back to what it was.
func TestOnlyTheOwnerThawsAClock(t *testing.T) {
	w := newClockwork()
	w.run(time.Hour, 365*day)
	if w.run(time.Hour, -365*day); w.Drift != 0 || !w.Frozen {
		t.Errorf("a drift of %v: frozen %v", w.Drift, w.Frozen)
	}
}

// A machine that says it is the same boot, but that less time has passed, has measured nothing.
func TestTimeThatGoesBackWithinABootIsNotMeasured(t *testing.T) {
	w := newClockwork()
	w.run(100*time.Hour, 0)
	w.Reading.Passed = 0
	if w.run(time.Hour, 0); w.Drift != 0 || w.Gap != time.Hour {
		t.Errorf("a drift of %v, a gap of %v", w.Drift, w.Gap)
	}
}

// Gaps of any length freeze a clock, and their sum does not overflow.
func TestAGapOfCenturiesFreezes(t *testing.T) {
	w := newClockwork()
	w.restart(time.Hour, false)
	if w.restart(1<<63-1, false); !w.Frozen {
		t.Errorf("a gap of %v", w.Gap)
	}
}

func TestSmallJumpsAddUp(t *testing.T) {
	w := newClockwork()
	if w.run(day, 12*time.Hour); w.Frozen {
		t.Error("12 h freeze")
	}
	if w.run(day, time.Second); !w.Frozen {
		t.Error("12 h and a second do not")
	}
	w = newClockwork()
	if w.restart(23*time.Hour, false); w.Frozen {
		t.Error("a gap of 23 h freezes")
	}
	w.run(time.Hour, 0)
	if w.restart(23*time.Hour, false); !w.Frozen {
		t.Error("23 h at every start pass again and again")
	}
}

func TestTimeNeverGoesBack(t *testing.T) {
	w := newClockwork()
	before := w.run(time.Hour, 0)
	if now := w.run(time.Hour, -11*time.Hour); w.Frozen || !now.Equal(before) {
		t.Error(now, w.Frozen)
	}
	if now := w.run(11*time.Hour, 0); !now.After(before) {
		t.Error("it does not go on")
	}
}

// Events that must be an hour apart are so, whatever the wall clock does meanwhile.
func TestElapsedTimeIsMeasured(t *testing.T) {
	w := newClockwork()
	for _, jump := range []time.Duration{0, 6 * time.Hour, -6 * time.Hour, 365 * day, -400 * day} {
		before := w.Elapsed()
		w.run(time.Hour, jump)
		if d := w.Elapsed().Sub(before); d != time.Hour {
			t.Errorf("an hour in which the clock jumps by %v is %v", jump, d)
		}
	}
}

// A step that nobody measured makes time stand still until what is held was given a respite. Shorter ones do not, nor does time that was
// measured.
func TestALongStepWaits(t *testing.T) {
	for name, c := range map[string]struct {
		step  func(*clockwork)
		waits bool
	}{
		"off for a day":         {func(w *clockwork) { w.restart(MaxStep, true) }, false},
		"off for longer":        {func(w *clockwork) { w.restart(MaxStep+time.Second, true) }, true},
		"asleep for a year":     {func(w *clockwork) { w.run(365*day, 0) }, false},
		"confirmed after a day": {func(w *clockwork) { w.run(0, -13*time.Hour); w.run(day, 13*time.Hour); w.OK(w.Reading) }, false},
		"confirmed later":       {func(w *clockwork) { w.run(0, -13*time.Hour); w.run(day+1, 13*time.Hour); w.OK(w.Reading) }, true},
		"confirmed twice":       {func(w *clockwork) { w.run(0, -13*time.Hour); w.run(9*day, 0); w.OK(w.Reading); w.OK(w.Reading) }, true},
		"confirmed a year back": {func(w *clockwork) { w.run(0, -365*day); w.OK(w.Reading) }, false},
		"confirmed, and restarted": {func(w *clockwork) {
			w.run(0, 13*time.Hour)
			w.run(9*day, 0)
			w.OK(w.Reading)
			w.restart(time.Minute, true)
		}, true},
		"confirmed, and set back to what it was": {func(w *clockwork) {
			w.run(0, -13*time.Hour)
			w.run(day+time.Hour, 13*time.Hour)
			w.OK(w.Reading)
			w.run(0, -2*time.Hour)
		}, false},
		"synchronised late": {func(w *clockwork) {
			if w.restart(9*day, false); !w.Frozen {
				t.Error("9 days off, and believed")
			}
			w.Synced = true
		}, true},
		"synchronised late, and stood still while it was off": {func(w *clockwork) {
			w.restart(0, false)
			w.Synced, w.Reading.Wall = true, w.Reading.Wall.Add(9*day)
		}, true},
	} {
		w := newClockwork()
		w.busy = true
		c.step(w)
		before := w.Now
		w.Reading.Passed, w.Reading.Wall = w.Reading.Passed+time.Minute, w.Reading.Wall.Add(time.Minute)
		now := w.Look(w.Reading)
		switch {
		case w.Frozen || w.Waits != c.waits:
			t.Errorf("%s: it waits: %v; frozen: %v", name, w.Waits, w.Frozen)
		case c.waits && !now.Equal(before):
			t.Errorf("%s: time went from %v to %v", name, before, now)
		case c.waits:
			if w.Stepped(w.Clock.Wall); !w.run(time.Minute, 0).Equal(w.Reading.Wall) || w.Waits {
				t.Errorf("%s: time does not go on", name)
			}
		}
	}
}
