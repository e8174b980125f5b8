package leasemgr

import "math/bits"

// rarity counts, for each piece, the sources that have it. The counters are stored as
// bit planes: plane j holds bit j of 64 counters in one word, and the planes of a word
// are neighbours. Adding a have-set to a million counters is then a ripple of carries
// through some 15,625 words, and sorting them by rarity a walk over the same words.
type rarity struct {
	planes int
	bits   []uint64 // words * planes
	count  int      // have-sets in it
	stale  bool     // counters changed since the last rebuild
}

// reserve makes room for one more have-set.
func (r *rarity) reserve(words int) {
	need := bits.Len(uint(r.count + 1))
	if need <= r.planes {
		return
	}
	need = max(need, 4, r.planes+2)
	wide := make([]uint64, words*need)
	for w := range words {
		copy(wide[w*need:], r.bits[w*r.planes:(w+1)*r.planes])
	}
	r.planes, r.bits = need, wide
}

// add counts the pieces x of word w once more.
func (r *rarity) add(w int, x uint64) {
	for i := w * r.planes; x != 0; i++ {
		r.bits[i], x = r.bits[i]^x, r.bits[i]&x
	}
}

// sub counts the pieces x of word w once less.
func (r *rarity) sub(w int, x uint64) {
	for i := w * r.planes; x != 0; i++ {
		r.bits[i], x = r.bits[i]^x, x&^r.bits[i]
	}
}

// addSet counts a source that has part of the share.
func (r *rarity) addSet(h *haves, sp *space) {
	r.reserve(sp.words)
	r.count++
	r.stale = true
	for c, chunk := range h.chunks {
		for i, x := range chunk {
			r.add(c*chunkWords+i, x)
		}
	}
}

func (r *rarity) subSet(h *haves, sp *space) {
	r.count--
	r.stale = true
	for c, chunk := range h.chunks {
		for i, x := range chunk {
			r.sub(c*chunkWords+i, x)
		}
	}
}

// of is the count of one piece.
func (r *rarity) of(p uint32) int {
	n := 0
	for j := range r.planes {
		n |= int(r.bits[int(p/64)*r.planes+j]>>(p%64)&1) << j
	}
	return n
}

// Classes of rarity: a count below 16 is its own class; above, eight classes
// share each power of two. 128 classes reach past 260,000 sources.
const (
	classes   = 128
	topDigits = 3 // bits of a count that matter below its highest
)

func classOf(count int) int {
	if count < 1<<topDigits {
		return count
	}
	exp := bits.Len(uint(count)) - 1
	class := (exp-topDigits+1)<<topDigits + count>>(exp-topDigits)&(1<<topDigits-1)
	return min(class, classes-1)
}

// split calls put for each class among the pieces x of word w, with the pieces
// of x that are in it.
func (r *rarity) split(w int, x uint64, put func(class int, pieces uint64)) {
	planes := r.bits[w*r.planes : (w+1)*r.planes]
	for exp := len(planes) - 1; exp >= 0 && x != 0; exp-- {
		here := x & planes[exp]
		if here == 0 {
			continue
		}
		x &^= here
		digits := min(exp, topDigits)
		r.splitDigits(planes[exp-digits:exp], here, 1<<digits, exp, put)
	}
	if x != 0 {
		put(0, x)
	}
}

// splitDigits tells pieces apart by the digits below their highest bit.
// count collects the digits seen, highest first.
func (r *rarity) splitDigits(planes []uint64, x uint64, lead, exp int, put func(int, uint64)) {
	var groups [1 << topDigits]uint64
	groups[0] = x
	for d := len(planes) - 1; d >= 0; d-- {
		n := 1 << (len(planes) - 1 - d) // groups told apart so far
		for g := n - 1; g >= 0; g-- {
			groups[2*g+1] = groups[g] & planes[d]
			groups[2*g] = groups[g] &^ planes[d]
		}
	}
	for g, pieces := range groups[:1<<len(planes)] {
		if pieces == 0 {
			continue
		}
		if exp < topDigits {
			put(lead+g, pieces)
		} else {
			put(min((exp-topDigits+1)<<topDigits+g, classes-1), pieces)
		}
	}
}
