package leasemgr

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// beside is a manager of one of three nodes that fetch the same share from "s".
func beside(t *testing.T, self peers.ID, n int) *rig {
	r := newRig(t, n, Config{MaxSmallLeases: 1000})
	r.m.self, r.m.ownLots = self, lotsOf(self)
	r.add("s").full("s")
	for _, id := range []peers.ID{"a", "b", "c"} {
		if id != self {
			r.add(id).has(id)
		}
	}
	return r
}

// ours returns the pieces that nobody else may ask for.
func (r *rig) ours() map[share.Piece]bool {
	out := map[share.Piece]bool{}
	rivals := r.m.rivals(r.m.sources[r.m.byID["s"]])
	for p := range uint32(r.n) {
		if !r.m.another(rivals, p) {
			out[share.Piece(p)] = true
		}
	}
	return out
}

// feeds makes a source that has one piece bring parts of it at a rate, for some seconds.
func (r *rig) feeds(id peers.ID, p share.Piece, rate, seconds int) {
	r.t.Helper()
	r.m.Have(id, []share.Piece{p}, r.now)
	r.m.SetPriority(p, 1, High, r.now)
	r.feed(id, rate, seconds)
}

func TestEachPieceIsOneRivalsToAskFor(t *testing.T) {
	for _, n := range []int{96, 20_000} {
		of := map[share.Piece]int{}
		for _, id := range []peers.ID{"a", "b", "c"} {
			ours := beside(t, id, n).ours()
			for p := range ours {
				of[p]++
			}
			if len(ours) < n/5 || len(ours) > n/2 {
				t.Errorf("%s has %d of %d", id, len(ours), n)
			}
		}
		for p := range share.Piece(n) {
			if of[p] != 1 {
				t.Fatalf("piece %d is for %d of them", p, of[p])
			}
		}
	}
}

// In a large share neighbouring pieces stay together; otherwise disks would seek at each piece.
func TestLotsAreDrawnForRuns(t *testing.T) {
	const n = 100_000
	ours, runs := beside(t, "a", n).ours(), 0
	for p := range share.Piece(n) {
		if ours[p] && !ours[p-1] {
			runs++
		}
	}
	if mean := float64(len(ours)) / float64(runs); mean < n/lotPieces {
		t.Errorf("runs of %.1f pieces", mean)
	}
}

func TestWhatIsOursIsAskedForFirst(t *testing.T) {
	r := beside(t, "a", 60)
	ours := r.ours()
	for i, l := range r.get("s", 60) {
		if want := i < len(ours); ours[l.Piece] != want {
			t.Fatalf("%d of %d is %d", i, len(ours), l.Piece)
		}
	}
}

func TestOneWhoFetchesAloneHasAllToAskFor(t *testing.T) {
	r := beside(t, "", 60)
	if n := len(r.ours()); n != 60 {
		t.Errorf("%d of 60", n)
	}
	r = beside(t, "a", 60)
	r.full("b")
	r.m.Rank("c", 1, true, r.now)
	r.add("d")
	if n := len(r.ours()); n != 60 {
		t.Errorf("%d of 60 beside a whole one, a banned one, and one that has not said what it has", n)
	}
}

func TestTheRestIsLeftToThoseWhoBringIt(t *testing.T) {
	r := beside(t, "a", 60).rate("s", 100_000, 0)
	ours := r.ours()
	var p share.Piece
	for ours[p] {
		p++
	}
	r.feeds("b", p, 400_000, 8)
	left := 60
	for got := r.get("s", 1); len(got) > 0; got = r.get("s", 1) {
		if l := got[0]; !ours[l.Piece] && l.Piece != p {
			t.Fatalf("asks for %d", l.Piece)
		}
		left--
		r.done(got[0])
	}
	if left == 0 {
		t.Fatal("everything was asked for")
	}
	no := r.not("s", Spared)
	if d := no.Until.Sub(r.now); d <= 0 || d > time.Second {
		t.Errorf("asks again in %v", d)
	}
	r.pass(5 * time.Second) // they bring nothing more
	if p := r.one("s").Piece; ours[p] {
		t.Errorf("asks for %d", p)
	}
}

// On one network each of two others soon brings what the source does, and more than that cannot be had.
func TestTheRestIsLeftSoonerToThoseAsNearAsTheSource(t *testing.T) {
	for _, c := range []struct {
		away  time.Duration // of the source
		rate  int           // of the others together
		takes bool          // what is another's is asked for
	}{{time.Millisecond, 180_000, false}, {time.Millisecond, 60_000, true}, {nearTrip, 180_000, true}} {
		r := beside(t, "a", 60).rate("s", 100_000, 0)
		r.m.Away("s", c.away)
		ours := r.ours()
		var p share.Piece
		for ours[p] {
			p++
		}
		r.feeds("b", p, c.rate, 1)
		took := false
		for got := r.get("s", 1); len(got) > 0; got = r.get("s", 1) {
			took = took || !ours[got[0].Piece] && got[0].Piece != p
			r.done(got[0])
		}
		if took != c.takes {
			t.Errorf("%+v: %v", c, took)
		}
	}
}

func TestUrgentAndBegunPiecesAreLeftToNobody(t *testing.T) {
	r := beside(t, "a", 60)
	ours := r.ours()
	var theirs []share.Piece
	for p := range share.Piece(60) {
		if !ours[p] {
			theirs = append(theirs, p)
		}
	}
	r.m.SetPriority(theirs[0], 1, High, r.now)
	r.m.Begun(theirs[1])
	equal(t, "first", r.one("s").Piece, theirs[0])
	equal(t, "second", r.one("s").Piece, theirs[1])
	if p := r.one("s").Piece; !ours[p] {
		t.Errorf("third is %d", p)
	}
}

// A piece of lower priority waits, even if it is ours and the other is not.
func TestPriorityGoesBeforeLots(t *testing.T) {
	r := beside(t, "a", 60)
	r.m.SetPriority(0, 30, Low, r.now)
	for i, l := range r.get("s", 60) {
		if want := i < 30; (l.Piece >= 30) != want {
			t.Fatalf("%d is %d", i, l.Piece)
		}
	}
}

// Who has said that it has everything and does not have the last piece is not one that fetches: the piece is asked for
// elsewhere at once, also when it is offered there again, and fails again.
func TestNothingIsLeftToWhoLacksWhatItClaims(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]time.Duration{"anywhere": 0, "on this machine": peers.SameMachine, "near": 2 * time.Millisecond, "beyond the line": 40 * time.Millisecond} {
		r := beside(t, "a", 96)
		r.pass(time.Second)
		r.m.RemoveSource("c", r.now)
		r.m.cfg.MaxLeasesPerPeer = 1000
		r.full("b")
		r.m.Away("s", away)
		r.m.Away("b", min(away, 3*time.Millisecond))
		r.rate("b", 1e9, 0).rate("s", 1e6, 0)
		l := r.one("b")
		for r.m.lotFor(r.m.ownLots, uint32(l.Piece)) < r.m.lotFor(lotsOf("b"), uint32(l.Piece)) {
			r.done(l)
			l = r.one("b")
		}
		last := l.Piece
		r.m.Fail("b", last, l.Token, NotFound, r.now)
		for got := r.get("b", 96); len(got) > 0; got = r.get("b", 96) { // the rest comes from there
			for _, x := range got {
				r.m.Progress("b", x.Piece, x.Token, share.MinPiece, r.now)
				r.done(x)
			}
		}
		l = r.one("s")
		equal(t, name+": piece", l.Piece, last)
		r.m.Have("b", []share.Piece{last}, r.now)
		r.m.Fail("s", last, l.Token, GaveBack, r.now)
		b := r.one("b")
		r.not("s", AllLeased)
		r.woken(r.m.Fail("b", last, b.Token, NotFound, r.now), "s")
		equal(t, name+": piece again", r.one("s").Piece, last)
	}
}

// One that fetches may lose a piece that it had, as when somebody edits its file. With the next that it gets
// it shows that it fetches on, and its part is left to it as before.
func TestWhoLostAPieceAndFetchesOnCountsAgain(t *testing.T) {
	t.Parallel()
	r := beside(t, "a", 96)
	r.m.RemoveSource("c", r.now)
	r.has("b", 1, 2)
	part := len(r.ours())
	l := r.one("b")
	r.m.Fail("b", l.Piece, l.Token, NotFound, r.now)
	equal(t, "ours while it has not got any", len(r.ours()), 96)
	r.m.Have("b", []share.Piece{3}, r.now)
	equal(t, "ours when it gets more", len(r.ours()), part)
}
