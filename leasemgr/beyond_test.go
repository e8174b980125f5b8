package leasemgr

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// offices is an office with another, far away, where x fetches the share. Only s has all of it, and rate is what
// s could send.
func offices(t *testing.T, rate float64) *rig {
	r := office(t, 96)
	r.m.RemoveSource("t", r.now)
	r.add("x").has("x")
	r.m.Away("x", 40*time.Millisecond)
	for p := range part(r) {
		if !partOfAll(r)[p] {
			r.has("x", p).one("x") // it is busy with that
			break
		}
	}
	r.m.Measured("s", rate, 0, r.now)
	r.m.cfg.Ahead = time.Hour // there is room for all of it
	return r
}

// partOfAll is the pieces for which a's lot is the least of all four.
func partOfAll(r *rig) map[share.Piece]bool {
	out := map[share.Piece]bool{}
	for p := range part(r) {
		if !r.m.another([]uint64{lotsOf("x")}, uint32(p)) {
			out[p] = true
		}
	}
	return out
}

// takesItsPart makes s bring what is ours among all that fetch.
func (r *rig) takesItsPart() {
	r.t.Helper()
	want, got := partOfAll(r), r.get("s", 96)
	for _, l := range got {
		if !want[l.Piece] {
			r.t.Fatalf("s is asked for piece %d, which is another's", l.Piece)
		}
	}
	if len(got) != len(want) || len(want) == 0 || len(want) == len(part(r)) {
		r.t.Fatalf("s is asked for %d pieces, and %d of our %d are ours among all", len(got), len(want), len(part(r)))
	}
	r.not("s", Spared) // as long as it is busy
	for _, l := range got {
		r.done(l)
	}
}

// brings makes x bring bytes at a rate, for some seconds.
func (r *rig) brings(rate, seconds int) {
	x := r.m.sources[r.m.byID["x"]]
	for range 4 * seconds {
		r.pass(time.Second / 4)
		r.m.clock.tick(r.now)
		r.m.flows(x, uint32(rate/4))
		for _, id := range []peers.ID{"b", "c", "x"} { // which get something, too
			r.m.sources[r.m.byID[id]].grew = r.m.clock.at
		}
	}
}

// restOfPart expects that s is asked for the rest of our part, too.
func (r *rig) restOfPart() {
	r.t.Helper()
	part, got := part(r), r.get("s", 96)
	for _, l := range got {
		if !part[l.Piece] {
			r.t.Errorf("s is asked for piece %d, which is a neighbour's", l.Piece)
		}
	}
	if len(got) == 0 {
		r.t.Error("s is not asked for the rest of our part")
	}
}

// Each piece leaves a source once, for all offices.
func TestAWholeSourceIsAskedForWhatIsOursAmongAll(t *testing.T) {
	r := offices(t, 1e6)
	r.brings(2e6, 5)
	r.takesItsPart()
	for range 20 { // for as long as they bring it
		r.brings(2e6, 1)
		r.not("s", Spared)
	}
}

func TestTheRestIsOursWhenOthersBringTooLittle(t *testing.T) {
	for name, brings := range map[string]int{"nothing": 0, "little": 300_000} {
		t.Run(name, func(t *testing.T) {
			r := offices(t, 1e6)
			if brings > 0 {
				r.brings(brings, 5)
			}
			r.takesItsPart()
			r.restOfPart()
			if now := r.m.clock.at; r.m.reliance.alone != now+nearAgain {
				t.Errorf("those beyond the line are not relied on until %d, at %d", r.m.reliance.alone, now)
			}
		})
	}
}

// Half of what the source could is enough only at first: it may be all that their line takes.
func TestOthersMustSoonBringAsMuchAsTheSource(t *testing.T) {
	r := offices(t, 1e6)
	r.brings(700_000, 8)
	r.takesItsPart()
	r.not("s", Spared)
	r.brings(700_000, 1)
	r.not("s", Spared)
	r.brings(700_000, 1)
	r.restOfPart()
}

// A source that was never measured may be fast.
func TestASourceThatWasNeverMeasuredIsAskedForTheRest(t *testing.T) {
	r := offices(t, 1e6)
	r.brings(2e6, 5)
	r.takesItsPart()
	r.m.sources[r.m.byID["s"]].measured = false
	r.restOfPart()
}

// Who has what it wants takes no part, nor does one that is not known to fetch.
func TestWhoDoesNotFetchIsLeftNothing(t *testing.T) {
	for name, change := range map[string]func(r *rig){
		"it has gone": func(r *rig) { r.m.RemoveSource("x", r.now) },
		"it has all":  func(r *rig) { r.full("x") },
		"unknown":     func(r *rig) { r.m.SetHave("x", nil, r.now) },
	} {
		r := offices(t, 1e6)
		change(r)
		got, want := r.get("s", 96), len(part(r))
		if len(got) < want-1 { // x may have one
			t.Errorf("%s: s is asked for %d of our %d", name, len(got), want)
		}
		for _, l := range got {
			r.done(l)
		}
		r.not("s", Spared)
		if r.m.reliance.alone != 0 {
			t.Errorf("%s: nobody was relied on, and is not any more", name)
		}
	}
}

// Before anything is measured a line is not filled with requests: one source after the other is asked for a first piece.
func TestOneSourceBeyondTheLineIsTriedAfterTheOther(t *testing.T) {
	r := office(t, 96)
	for _, id := range []peers.ID{"s", "t"} {
		r.m.sources[r.m.byID[id]].measured = false
	}
	for p := range share.Piece(96) { // what a neighbour is asked for does not count
		if !part(r)[p] {
			r.has("b", p).one("b")
			break
		}
	}
	l := r.one("s")
	r.not("s", Spared)
	r.not("t", Spared)
	r.pass(900 * time.Millisecond)
	r.m.Progress("s", l.Piece, l.Token, 1, r.now)
	r.pass(900 * time.Millisecond)
	r.not("t", Spared) // s is slow, not silent
	r.pass(200 * time.Millisecond)
	r.one("t")
	r.not("s", Spared)
	r.m.Measured("t", 1e10, 0, r.now)
	r.done(l)
	r.one("s") // nothing else is tried
	if got := len(r.get("t", 96)); got < 10 {
		t.Errorf("t was measured, and is asked for %d", got)
	}
}

// onOneMachine is a manager of a, with b, c and the source s on the same machine.
func onOneMachine(t *testing.T, rate float64) *rig {
	r := beside(t, "a", 96)
	r.pass(time.Second)
	for _, id := range []peers.ID{"b", "c"} {
		r.m.SetHave(id, share.NewSet(96), r.now)
	}
	for _, id := range []peers.ID{"b", "c", "s"} {
		r.m.Away(id, peers.SameMachine)
	}
	r.m.Measured("s", rate, 0, r.now)
	r.m.cfg.Ahead, r.m.cfg.MaxWindow = time.Hour, 1<<40
	return r
}

// little makes b bring bytes at a rate, every 20 ms.
func (r *rig) little(rate, times int) {
	for range times {
		r.pass(20 * time.Millisecond)
		r.m.clock.tick(r.now)
		r.m.flows(r.m.sources[r.m.byID["b"]], uint32(rate/50))
		r.m.sources[r.m.byID["b"]].grew = r.m.clock.at
	}
}

// Where a core bounds all of them, a source is spared what the others could bring.
func TestNodesOfOneMachineDivideUpWhatTheSourceHas(t *testing.T) {
	for rate, left := range map[int]int{0: 0, 50_000: 0, 200_000: 25, 2_000_000: 1000} {
		r := onOneMachine(t, 1e6)
		want := part(r)
		got := r.get("s", 96)
		for _, l := range got {
			if !want[l.Piece] {
				t.Fatalf("the source is asked for piece %d, which is another's", l.Piece)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("the source is asked for %d of our %d", len(got), len(want))
		}
		r.not("s", Spared)
		r.little(rate, 2)
		for _, l := range got {
			r.done(l)
		}
		n := 0
		for ; n < 1000; n++ {
			r.little(rate, 1)
			if ls, _ := r.m.Acquire("s", 1, r.now); len(ls) > 0 {
				break
			}
		}
		if n < left || n > left+3 {
			t.Errorf("at %d bytes a second the rest is left to others for %d times 20 ms, want %d", rate, n, left)
		}
	}
}

// A source that is far slower, and may be busy for minutes, keeps no other waiting.
func TestASlowSourceDoesNotHoldUpAFastOne(t *testing.T) {
	for name, r := range map[string]*rig{"on one machine": onOneMachine(t, 1e6), "beyond the line": offices(t, 1e6)} {
		r.add("far").full("far")
		r.m.cfg.HedgeShare, r.m.cfg.HedgeFloor = 0, 0
		r.one("far") // at first there was no other
		r.m.Away("far", 100*time.Millisecond)
		r.m.Measured("far", 1e4, 0, r.now)
		got := r.get("s", 96)
		for _, l := range got {
			r.done(l)
		}
		if got := r.get("s", 96); len(got) < 5 {
			t.Errorf("%s: others bring nothing, and the source is asked for %d more", name, len(got))
		}
	}
}

func TestOnlyNodesOfOneMachineDoSo(t *testing.T) {
	for name, change := range map[string]func(r *rig){
		"the source is elsewhere": func(r *rig) { r.m.Away("s", time.Millisecond) },
		"the others are":          func(r *rig) { r.m.Away("b", time.Millisecond); r.m.Away("c", time.Millisecond) },
		"they are a crowd": func(r *rig) {
			for _, id := range []peers.ID{"d", "e", "f", "g"} {
				r.add(id).has(id)
				r.m.SetHave(id, share.NewSet(96), r.now)
				r.m.Away(id, peers.SameMachine)
			}
		},
		"another leases": func(r *rig) { r.m.self = "" },
	} {
		r := onOneMachine(t, 1e6)
		change(r)
		if got := len(r.get("s", 96)); got != 96 {
			t.Errorf("%s: asked for %d of 96", name, got)
		}
	}
}
