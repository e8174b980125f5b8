package leasemgr

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"pgregory.net/rapid"
)

func TestRarestPieceGoesFirst(t *testing.T) {
	for seed := range uint64(20) {
		m := New(Config{MaxLeasesPerPeer: 100}, Plan{Layout: even{6, share.MinPiece}, Seed: seed}, time.Unix(1, 0))
		now := time.Unix(1, 0)
		// Piece p is at p+1 partial sources, and at a whole one.
		for i := range 6 {
			id := peers.ID(fmt.Sprint(i))
			m.AddSource(id, now)
			have := share.NewSet(6)
			for p := i; p < 6; p++ {
				have.Add(share.Piece(p))
			}
			if i == 0 {
				have.Remove(0) // so that only the last is whole
			}
			m.SetHave(id, have, now)
		}
		m.AddSource("full", now)
		m.SetHave("full", share.FullSet(6), now)
		got, _ := m.Acquire("full", 6, now)
		for i, l := range got {
			equal(t, "piece", l.Piece, share.Piece(i))
		}
	}
}

func TestTiesAreBrokenBySeed(t *testing.T) {
	const n, runs = 50, 5000
	var count [n]int
	for seed := range uint64(runs) {
		m := New(Config{}, Plan{Layout: even{n, share.MinPiece}, Seed: seed}, time.Unix(1, 0))
		now := time.Unix(1, 0)
		m.AddSource("a", now)
		m.SetHave("a", share.FullSet(n), now)
		got, _ := m.Acquire("a", 1, now)
		count[got[0].Piece]++
	}
	for p, c := range count {
		if c < runs/n/2 || c > runs/n*2 {
			t.Errorf("piece %d was first in %d of %d runs", p, c, runs)
		}
	}
}

func TestSourcesDoNotConverge(t *testing.T) {
	// Two transfers fetch one share, each from one source: they do not fetch
	// the same pieces first.
	const n = 100_000
	var firsts [2]map[share.Piece]bool
	for i := range firsts {
		firsts[i] = map[share.Piece]bool{}
		now := time.Unix(1, 0)
		m := New(Config{}, Plan{Layout: even{n, share.MinPiece}, Seed: uint64(i)}, now)
		m.AddSource("seed", now)
		m.SetHave("seed", share.FullSet(n), now)
		for range 1000 {
			got, _ := m.Acquire("seed", 1, now)
			firsts[i][got[0].Piece] = true
			m.Verified(got[0].Piece, now, got[0].Token)
		}
	}
	both := 0
	for p := range firsts[0] {
		if firsts[1][p] {
			both++
		}
	}
	if both > 100 {
		t.Errorf("%d of the first 1000 pieces are the same", both)
	}
}

func TestSwarmDoesNotWalkInStep(t *testing.T) {
	// Four transfers feed each other from one seed, one piece at a time. Each gives
	// what it has to all others before the next round, so that all lack the same.
	const n, transfers = 400, 4
	now := time.Unix(1, 0)
	var ms [transfers]*Manager
	for i := range ms {
		ms[i] = New(Config{}, Plan{Layout: even{n, share.MinPiece}, Seed: uint64(i)}, now)
		ms[i].AddSource("seed", now)
		ms[i].SetHave("seed", share.FullSet(n), now)
		ms[i].AddSource("others", now)
		ms[i].SetHave("others", setOf(n, 0), now)
	}
	sent := 0
	for have := 1; have < n*9/10; {
		picked := map[share.Piece]bool{}
		for i := range ms {
			got, _ := ms[i].Acquire("seed", 1, now)
			sent++
			picked[got[0].Piece] = true
		}
		have += len(picked)
		for p := range picked {
			for i := range ms {
				ms[i].Have("others", []share.Piece{p}, now)
				ms[i].Verified(p, now)
			}
		}
	}
	if sent > n*9/10*11/10 {
		t.Errorf("the seed sent %d pieces until %d of %d were there", sent, n*9/10, n)
	}
}

func TestPriorityThenReaderThenBegunThenRarest(t *testing.T) {
	r := newRig(t, 60, Config{MaxLeasesPerPeer: 100})
	r.add("a", "rare").full("a")
	all := share.FullSet(60)
	all.Remove(50)
	r.m.SetHave("rare", all, r.now)
	r.m.SetPriority(0, 10, Low, r.now)
	r.m.SetPriority(10, 4, High, r.now)
	r.m.SetPriority(20, 5, Skip, r.now)
	r.m.Begun(5)  // low
	r.m.Begun(40) // normal
	r.m.Begun(12) // high
	r.m.SetReader(1, 30, 3, r.now)
	r.m.SetReader(2, 8, 6, r.now) // 8 and 9 are low, 10 to 13 high
	var got []share.Piece
	for _, l := range r.get("a", 100) {
		got = append(got, l.Piece)
	}
	equal(t, "leases", len(got), 55)
	equal(t, "high, in the reader's order", fmt.Sprint(got[:4]), "[10 11 12 13]")
	equal(t, "normal: window, begun, rarest", fmt.Sprint(got[4:9]), "[30 31 32 40 50]")
	equal(t, "low: window, begun", fmt.Sprint(got[45:48]), "[8 9 5]")
	if slices.ContainsFunc(got, func(p share.Piece) bool { return p >= 20 && p < 25 }) {
		t.Errorf("skipped pieces were leased: %v", got)
	}
}

func TestSkippingRevokesAndSelectingWakes(t *testing.T) {
	r := newRig(t, 10, Config{MaxLeasesPerPeer: 100})
	r.add("a").full("a")
	for _, l := range r.get("a", 100) {
		if l.Piece < 4 {
			r.done(l)
		}
	}
	todo := r.m.SetPriority(2, 4, Skip, r.now)
	equal(t, "revoked", fmt.Sprint(piecesOf(todo.Revoked)), "[4 5]")
	equal(t, "done", todo.Done, false)
	wanted, leased, verified := r.m.Counts()
	equal(t, "counts", fmt.Sprint(wanted, leased, verified), "0 4 2")
	todo = r.m.SetPriority(6, 4, Skip, r.now)
	equal(t, "done when what is left is not selected", todo.Done, true)
	r.not("a", AllVerified)
	todo = r.m.SetPriority(0, 10, Normal, r.now)
	r.woken(todo, "a")
	equal(t, "granted", fmt.Sprint(piecesOf(r.get("a", 100))), "[4 5 6 7 8 9]")
	equal(t, "verified", r.m.have, 4)
	if todo := r.m.SetPriority(100, 5, High, r.now); len(todo.Wake) > 0 {
		t.Error("pieces past the share did something")
	}
}

func TestSelectionAtStart(t *testing.T) {
	now := time.Unix(1, 0)
	m := New(Config{}, Plan{
		Layout: even{8, share.MinPiece}, Verified: setOf(8, 0, 1), Wanted: setOf(8, 1, 2, 3),
	}, now)
	wanted, leased, verified := m.Counts()
	equal(t, "counts", fmt.Sprint(wanted, leased, verified), "2 0 1")
	equal(t, "bytes", m.bytes, 3*share.MinPiece)
	m.AddSource("a", now)
	m.SetHave("a", share.FullSet(8), now)
	got, _ := m.Acquire("a", 8, now)
	equal(t, "granted", fmt.Sprint(piecesOf(got)), "[2 3]")
}

func TestEmptyPlanIsDone(t *testing.T) {
	now := time.Unix(1, 0)
	for _, p := range []Plan{
		{Layout: even{0, 1}},
		{Layout: even{5, 1}, Wanted: share.NewSet(5)},
		{Layout: even{5, 1}, Verified: share.FullSet(5)},
	} {
		m := New(Config{}, p, now)
		equal(t, "done", m.Done(), true)
		m.AddSource("a", now)
		m.SetHave("a", share.FullSet(p.Layout.Pieces()), now)
		_, no := m.Acquire("a", 1, now)
		equal(t, "refusal", no, Refusal{Reason: AllVerified, Never: true})
		m.Missing(10, now)
		m.Expire(now)
	}
}

func TestBegunPieceGoesOutAgainFirst(t *testing.T) {
	for _, lacks := range []int{0, 1} { // whole sources, and some that have nearly everything
		r := newRig(t, 20_000, Config{})
		have := share.FullSet(20_000)
		for p := range lacks {
			have.Remove(share.Piece(p))
		}
		r.add("a", "b")
		r.m.SetHave("a", have, r.now)
		r.m.SetHave("b", have, r.now)
		r.get("b", 3) // its cursor is somewhere
		l := r.one("a")
		equal(t, "begun", l.Begun, false)
		r.m.Progress("a", l.Piece, l.Token, 1000, r.now)
		r.m.Fail("a", l.Piece, l.Token, Lost, r.now)
		again := r.one("b")
		equal(t, "piece", again.Piece, l.Piece)
		equal(t, "begun", again.Begun, true)
		r.m.Begun(50_000)
	}
}

// A piece that a source's cursor has passed is offered to it again when it is returned.
func TestReturnedPiecesAreFoundBehindCursors(t *testing.T) {
	const n = 20_000
	rnd := rand.New(rand.NewPCG(3, 4))
	r := newRig(t, n, Config{MaxLeasesPerPeer: n})
	have := share.NewSet(n)
	for p := range n {
		if rnd.IntN(3) > 0 {
			have.Add(share.Piece(p))
		}
	}
	r.add("a", "b")
	r.m.SetHave("a", have, r.now)
	r.m.SetHave("b", have, r.now)
	ls := r.get("b", n)
	equal(t, "leases", len(ls), have.Count())
	r.not("a", AllLeased)
	for _, k := range []int{1, 3, maxExtra + 40, 1000} { // few fit in a cursor's memory, many do not
		var back []share.Piece
		for range k {
			i := rnd.IntN(len(ls))
			l := ls[i]
			ls = slices.Delete(ls, i, i+1)
			r.m.Fail("b", l.Piece, l.Token, GaveBack, r.now)
			back = append(back, l.Piece)
		}
		slices.Sort(back)
		got, no := r.m.Acquire("a", n, r.now)
		equal(t, "granted", fmt.Sprint(piecesOf(got)), fmt.Sprint(back))
		equal(t, "refusal", no.Reason, AllLeased)
	}
}

// A source gets all that it has, and only that, whatever its have-set looks like.
func TestEveryPieceOfASourceIsFound(t *testing.T) {
	testrig.Slow(t)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{1, 63, 64, 65, 4095, 4096, 4097, 9000, 300_000}).Draw(t, "pieces")
		seed := rapid.Uint64().Draw(t, "seed")
		rnd := rand.New(rand.NewPCG(seed, 1))
		now := time.Unix(1, 0)
		m := New(Config{MaxLeasesPerPeer: n}, Plan{Layout: even{n, 1}, Seed: seed}, now)
		want := share.NewSet(n)
		have := share.NewSet(n)
		for range rapid.IntRange(0, 3).Draw(t, "runs") {
			from, long := rnd.IntN(n), rnd.IntN(n)
			for p := from; p < min(n, from+long); p++ {
				have.Add(share.Piece(p))
			}
		}
		for range rapid.IntRange(0, 30).Draw(t, "singles") {
			have.Add(share.Piece(rnd.IntN(n)))
		}
		m.AddSource("a", now)
		m.AddSource("b", now)
		m.SetHave("a", have, now)
		m.SetHave("b", randomSet(rnd, n, 0.02), now)
		want.Union(have)
		for range rapid.IntRange(0, 30).Draw(t, "deltas") {
			p := share.Piece(rnd.IntN(n))
			m.Have("a", []share.Piece{p}, now)
			want.Add(p)
		}
		got, _ := m.Acquire("a", n, now)
		if len(got) != want.Count() {
			t.Fatalf("%d granted of %d", len(got), want.Count())
		}
		for _, l := range got {
			if !want.Has(l.Piece) {
				t.Fatalf("%d was granted, and the source lacks it", l.Piece)
			}
			want.Remove(l.Piece)
		}
	})
}

func TestHaveSetOfAnotherSizeIsClipped(t *testing.T) {
	r := newRig(t, 100, Config{MaxLeasesPerPeer: 200})
	r.add("a", "b")
	r.m.SetHave("a", share.FullSet(5000), r.now)
	r.m.SetHave("b", share.FullSet(10), r.now)
	equal(t, "clipped", r.m.sources[0].have.n, 100)
	equal(t, "short", r.m.sources[1].have.n, 10)
	r.m.Have("b", []share.Piece{99, 100, 1 << 31}, r.now)
	equal(t, "had", r.m.sources[1].have.n, 11)
	r.m.SetHave("b", nil, r.now)
	equal(t, "nothing", r.m.sources[1].have.n, 0)
}
