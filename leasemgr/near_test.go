package leasemgr

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// office is a manager of a, whose neighbours b and c fetch the same share from s and t beyond their line.
func office(t *testing.T, n int) *rig {
	r := beside(t, "a", n)
	r.pass(time.Second) // since the beginning
	r.m.cfg.MaxLeasesPerPeer, r.m.cfg.MaxSmallLeases = 1<<20, 1<<20
	r.add("t").full("t")
	for id, trip := range map[peers.ID]time.Duration{"b": time.Millisecond, "c": 2 * time.Millisecond, "s": 30 * time.Millisecond, "t": 8 * time.Millisecond} {
		r.m.Away(id, trip)
	}
	for _, id := range []peers.ID{"b", "c"} { // they have nothing yet
		r.m.SetHave(id, share.NewSet(n), r.now)
	}
	r.m.cfg.MaxWindow = 1 << 40
	for _, id := range []peers.ID{"s", "t"} {
		r.m.Measured(id, 1e10, 0, r.now)
	}
	return r
}

// part is the pieces for which a's lot is the least of three.
func part(r *rig) map[share.Piece]bool {
	out := map[share.Piece]bool{}
	for p := range uint32(r.n) {
		if !r.m.another([]uint64{lotsOf("b"), lotsOf("c")}, p) {
			out[share.Piece(p)] = true
		}
	}
	return out
}

func TestSourcesBeyondTheLineAreAskedForOurPartAlone(t *testing.T) {
	for _, n := range []int{96, 20_000} {
		r := office(t, n)
		part, got := part(r), 0
		for _, id := range []peers.ID{"s", "t"} {
			for _, l := range r.get(id, n) {
				if got++; !part[l.Piece] {
					t.Fatalf("of %d: %s is asked for piece %d", n, id, l.Piece)
				}
			}
		}
		if n == 96 && got != len(part) {
			t.Errorf("%d of our %d are asked for", got, len(part))
		}
		if n > 96 && got < 1500 {
			t.Errorf("%d of our %d are asked for", got, len(part))
		}
	}
}

// What a neighbour has comes from there.
func TestWhatANeighbourHasIsNotAskedForBeyondTheLine(t *testing.T) {
	r := office(t, 96)
	part := part(r)
	var some []share.Piece
	for p := range part {
		if some = append(some, p); len(some) == 5 {
			break
		}
	}
	r.has("b", some...)
	r.m.SetPriority(some[0], 1, High, r.now) // what is urgent is left to nobody
	if got := len(r.get("s", 96)); got != len(part)-4 {
		t.Errorf("%d of our %d are asked for, and a neighbour has 5", got, len(part))
	}
	if got := len(r.get("b", 96)); got != 4 {
		t.Errorf("the neighbour is asked for %d of 4", got)
	}
}

// Without a neighbour that is much nearer than the source all is asked for, as before.
func TestWhoIsNoNeighbourIsNotReliedOn(t *testing.T) {
	for name, change := range map[string]func(r *rig){
		"nobody is near":   func(r *rig) { r.m.Away("b", 6*time.Millisecond); r.m.Away("c", 6*time.Millisecond) },
		"nothing is known": func(r *rig) { r.m.Away("b", 0); r.m.Away("c", 0) },
		"the source is":    func(r *rig) { r.m.Away("s", 4*time.Millisecond) },
		"not much nearer": func(r *rig) {
			r.m.Away("b", 4*time.Millisecond)
			r.m.Away("c", 4*time.Millisecond)
			r.m.Away("s", 15*time.Millisecond)
		},
		"they have all":   func(r *rig) { r.full("b", "c") },
		"they are banned": func(r *rig) { r.m.Rank("b", 0, true, r.now); r.m.Rank("c", 0, true, r.now) },
		"another leases":  func(r *rig) { r.m.self = "" },
		"the piece is asked": func(r *rig) {
			for p := range share.Piece(96) {
				r.m.SetPriority(p, 1, High, r.now)
			}
		},
	} {
		r := office(t, 96)
		change(r)
		if got := len(r.get("s", 96)); got != 96 {
			t.Errorf("%s: asked for %d of 96", name, got)
		}
	}
}

// A slow line is no reason not to rely on neighbours; but they have their time, and only
// what really comes counts.
func TestNeighboursHaveTheirTime(t *testing.T) {
	r := office(t, 96)
	ours := r.get("s", 96)
	for p := range share.Piece(96) { // a lease of a neighbour does not make us busy
		if !part(r)[p] {
			r.has("b", p).one("b")
			break
		}
	}
	for range 20 { // a part of it comes now and then
		r.pass(time.Second)
		r.m.Progress("s", ours[0].Piece, ours[0].Token, 1, r.now)
		r.not("t", Spared)
	}
	for _, l := range ours {
		r.done(l)
	}
	r.not("s", Spared) // our part took 20 s
	for range 10 {
		r.pass(time.Second)
		r.m.Away("b", time.Millisecond)
		r.m.reliance.flowed = r.m.clock.at // something comes from others
		for _, id := range []peers.ID{"b", "c"} {
			r.m.sources[r.m.byID[id]].grew = r.m.clock.at // and to them
		}
		r.not("s", Spared)
	}
	r.pass(2 * time.Second)
	r.m.reliance.flowed = r.m.clock.at
	if got := len(r.get("s", 96)); got != 96-len(ours) { // with a hedge of the one that b has
		t.Errorf("asked for %d of %d when they had their time", got, 96-len(ours))
	}
}

func TestNeighboursThatBringMuchAreReliedOn(t *testing.T) {
	r, theirs := office(t, 96), map[share.Piece]bool{}
	for p := range share.Piece(96) {
		theirs[p] = true
	}
	r.m.RemoveSource("t", r.now)
	r.m.HaveNot("s", []share.Piece{95}, r.now) // it misses some itself: of one that has all ours.go would say the same
	for _, l := range r.get("s", 96) {
		r.done(l)
	}
	r.m.Measured("s", leastRate, 30*time.Millisecond, r.now)
	r.not("s", Spared)
	for p := range part(r) {
		delete(theirs, p)
	}
	for p := range theirs {
		r.feeds("b", p, 8*leastRate, 10)
		break
	}
	r.one("b") // what is begun is left to nobody
	r.not("s", Spared)
}

// When nothing comes from anywhere, nobody is relied on, for a while.
func TestSilenceEndsRelying(t *testing.T) {
	r := office(t, 96)
	n := len(r.get("s", 96))
	r.pass(3 * time.Second)
	r.not("t", Spared)
	r.pass(2 * time.Second)
	if got := len(r.get("t", 10)); got != 10 {
		t.Errorf("asked for %d of 10, and %d are leased", got, n)
	}
	r.pass(9 * time.Second)
	if got := len(r.get("t", 1)); got != 1 {
		t.Error("relied on them again too soon")
	}
	r.pass(2 * time.Second)
	r.not("t", Spared)
}

// A slow neighbour that has all but one piece is not relied on for ever in place of a fast source that was never measured,
// because it was never asked.
func TestASlowNeighbourDoesNotTakeThePlaceOfASourceThatWasNeverAsked(t *testing.T) {
	r := office(t, 96)
	r.m.RemoveSource("t", r.now)
	r.m.RemoveSource("c", r.now)
	lacks := share.Piece(0)
	for p := range share.Piece(96) { // one that the neighbour is to ask for
		if r.m.another([]uint64{lotsOf("b")}, uint32(p)) {
			lacks = p
		}
	}
	var has []share.Piece
	for p := range share.Piece(96) {
		if p != lacks {
			has = append(has, p)
		}
	}
	r.has("b", has...)
	const rate = 4 * leastRate // 64 KiB a second
	at, got := r.one("b"), 0
	for range 20 {
		r.pass(time.Second)
		r.m.Progress("b", at.Piece, at.Token, rate, r.now)
		if got += rate; got >= r.m.layout.PieceLen(at.Piece) {
			r.done(at)
			at, got = r.one("b"), 0
		}
		if ls, _ := r.m.Acquire("s", 1, r.now); len(ls) > 0 {
			return
		}
	}
	t.Error("in 20 s the source beyond the line was asked for nothing")
}

// A neighbour whose connection was lost, or who declined the subscription, has nothing and fetches nothing: nothing is left to it.
func TestANeighbourThatIsAwayIsNotReliedOn(t *testing.T) {
	r := office(t, 96)
	r.m.SetHave("b", nil, r.now) // as a pool says when its link is lost, or the source declines
	r.m.SetHave("c", nil, r.now)
	if got := len(r.get("s", 96)); got != 96 {
		t.Errorf("the source beyond the line is asked for %d of 96, the rest is left to neighbours that are not there", got)
	}
}

// A source beyond the line that is far slower than another, and may be busy with one piece for minutes, does not prolong the time
// of neighbours that bring little.
func TestASlowSourceBeyondTheLineDoesNotProlongTheTimeOfNeighbours(t *testing.T) {
	r := office(t, 96)
	r.m.Measured("t", 1e4, 0, r.now)
	r.m.cfg.HedgeShare, r.m.cfg.HedgeFloor = 0, 0
	slow := r.one("t")
	for _, l := range r.get("s", 96) {
		r.done(l)
	}
	for range 40 {
		r.pass(500 * time.Millisecond)
		for _, id := range []peers.ID{"b", "c"} { // they get something now and then
			r.m.clock.tick(r.now)
			r.m.sources[r.m.byID[id]].grew = r.m.clock.at
		}
		r.m.Progress("t", slow.Piece, slow.Token, 5000, r.now)
		if len(r.get("s", 96)) > 5 {
			return
		}
	}
	t.Error("in 20 s the fast source was asked for nothing")
}
