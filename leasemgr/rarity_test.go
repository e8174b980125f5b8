package leasemgr

import (
	"math/bits"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func TestClassesAreExactBelow16AndWithinAnEighthAbove(t *testing.T) {
	last := -1
	lowest := map[int]int{}
	for n := range 300_000 {
		c := classOf(n)
		if c != last && c != last+1 || c >= classes {
			t.Fatalf("class of %d is %d after %d", n, c, last)
		}
		if n < 16 && c != n {
			t.Fatalf("class of %d is %d", n, c)
		}
		if _, ok := lowest[c]; !ok {
			lowest[c] = n
		}
		if low := lowest[c]; c < classes-1 && n-low > low/8 {
			t.Fatalf("%d and %d are in one class", low, n)
		}
		last = c
	}
}

func TestPlanesCountAndSortLikePlainCounters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const n = 200
		sp := newSpace(n)
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		var r rarity
		var counts [n]int
		var sets []haves
		for range rapid.IntRange(0, 80).Draw(t, "sets") {
			if len(sets) > 0 && rnd.IntN(4) == 0 {
				h := sets[len(sets)-1]
				sets = sets[:len(sets)-1]
				r.subSet(&h, sp)
				for p := range uint32(n) {
					if h.has(p, n) {
						counts[p]--
					}
				}
				continue
			}
			h := sp.parse(randomSet(rnd, n, []float64{0.5, 0.02, 0.9}[rnd.IntN(3)]))
			if h.n == n {
				continue // whole ones are counted separately
			}
			sets = append(sets, h)
			r.addSet(&h, sp)
			for p := range uint32(n) {
				if h.has(p, n) {
					counts[p]++
				}
			}
		}
		for w := range sp.words {
			left := sp.full(0)[w]
			r.split(w, left, func(class int, pieces uint64) {
				if pieces&^left != 0 {
					t.Fatal("a piece in two classes")
				}
				left &^= pieces
				for x := pieces; x != 0; x &= x - 1 {
					if p := w*64 + bits.TrailingZeros64(x); classOf(counts[p]) != class {
						t.Fatalf("piece %d, had %d times, is in class %d", p, counts[p], class)
					}
				}
			})
			if left != 0 {
				t.Fatal("a piece in no class")
			}
		}
		for p := range uint32(n) {
			if r.of(p) != counts[p] {
				t.Fatalf("piece %d: %d, should be %d", p, r.of(p), counts[p])
			}
		}
	})
}

// A layer finds what a plain walk finds, from any position to any other.
func TestLayerFindsLikeAPlainWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{1, 64, 100, 4096, 4100, 20_000, 270_000}).Draw(t, "pieces")
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		sp := newSpace(n)
		l := newLayer(sp)
		h := sp.parse(randomSet(rnd, n, []float64{0.5, 0.02, 1}[rnd.IntN(3)]))
		in := map[uint32]bool{}
		for range rapid.IntRange(0, 60).Draw(t, "members") {
			p := uint32(rnd.IntN(n))
			if in[p] {
				l.remove(p)
				delete(in, p)
			} else {
				l.put(int(p/64), 1<<(p%64))
				in[p] = true
			}
		}
		for range 20 {
			from, to := uint32(rnd.IntN(n+1)), uint32(rnd.IntN(n+1))
			want, found := uint32(0), false
			for p := range in {
				if p >= from && p < to && h.has(p, n) && (!found || p < want) {
					want, found = p, true
				}
			}
			if h.n == 0 {
				continue // never asked
			}
			got, ok := l.next(&h, sp, from, to)
			if ok != found || ok && got != want {
				t.Fatalf("from %d to %d: %d %t, want %d %t", from, to, got, ok, want, found)
			}
		}
		l.clear()
		if bitmap(l.words).count()+bitmap(l.sum).count()+bitmap(l.top).count()+l.count != 0 {
			t.Fatal("not empty after clear")
		}
	})
}

func TestHaveSetTakesAndLosesPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.SampledFrom([]int{1, 2, 64, 65, 4096, 4097, 4160}).Draw(t, "pieces")
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		sp := newSpace(n)
		h := sp.parse(randomSet(rnd, n, []float64{0.5, 0.02, 1}[rnd.IntN(3)]))
		want := map[uint32]bool{}
		for p := range uint32(n) {
			want[p] = h.has(p, n)
		}
		for range 3 * n {
			p, in := uint32(rnd.IntN(n)), rnd.IntN(8) > 0
			if h.set(p, in, sp) != (want[p] != in) {
				t.Fatalf("set %d %t: changed or not", p, in)
			}
			want[p] = in
			if h.n > 0 && h.n < n {
				if c := h.chunk(int(p / chunkPieces)); c == nil && in || c != nil && bitmap(c).has(p%chunkPieces) != in {
					t.Fatalf("piece %d is not seen in its chunk", p)
				}
			}
		}
		count := 0
		for p := range uint32(n) {
			if h.has(p, n) != want[p] || h.word(int(p/64), sp)>>(p%64)&1 == 1 != want[p] {
				t.Fatalf("piece %d: %t", p, want[p])
			}
			if want[p] {
				count++
			}
		}
		if h.n != count {
			t.Fatalf("%d pieces, counted %d", count, h.n)
		}
	})
}
