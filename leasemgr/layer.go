package leasemgr

import "math/bits"

// Ranks of pieces. Within a priority the pieces already begun come first, then
// those of each class of rarity.
const (
	levels   = 3           // priorities a wanted piece can have: High, Normal, Low
	perLevel = 1 + classes // ranks of one priority
	ranks    = levels * perLevel
)

// layer holds the wanted pieces of one rank. Its summaries let a search skip what
// is empty: a bit of sum stands for a word, a bit of top for a word of sum.
type layer struct {
	count int
	words []uint64
	sum   []uint64
	top   []uint64
}

func newLayer(sp *space) *layer {
	return &layer{
		words: make([]uint64, sp.words),
		sum:   make([]uint64, sp.chunks),
		top:   make([]uint64, (sp.chunks+63)/64),
	}
}

// put adds pieces, which are not in yet, to word w.
func (l *layer) put(w int, pieces uint64) {
	l.words[w] |= pieces
	l.sum[w/64] |= 1 << (w % 64)
	l.top[w/4096] |= 1 << (w / 64 % 64)
	l.count += bits.OnesCount64(pieces)
}

func (l *layer) remove(p uint32) {
	w := p / 64
	l.words[w] &^= 1 << (p % 64)
	l.count--
	if l.words[w] == 0 {
		l.sum[w/64] &^= 1 << (w % 64)
		if l.sum[w/64] == 0 {
			l.top[w/4096] &^= 1 << (w / 64 % 64)
		}
	}
}

func (l *layer) clear() {
	for c := range l.sum {
		if l.sum[c] != 0 {
			clear(l.words[c*64 : min(c*64+64, len(l.words))])
		}
	}
	clear(l.sum)
	clear(l.top)
	l.count = 0
}

// next is the first piece in the layer and in h, at or after from and before to.
func (l *layer) next(h *haves, sp *space, from, to uint32) (uint32, bool) {
	if from >= to {
		return 0, false
	}
	full := h.n == sp.n
	w, last := int(from/64), int((to-1)/64)
	edge := ^uint64(0) << (from % 64) // cuts off what lies before from
	for c := w / 64; ; {
		var chunk []uint64
		if !full {
			chunk = h.chunk(c)
		}
		if full || chunk != nil {
			for sum := l.sum[c] >> (w % 64) << (w % 64); sum != 0; sum &= sum - 1 {
				i := bits.TrailingZeros64(sum)
				x := l.words[c*64+i]
				if !full {
					x &= chunk[i]
				}
				if c*64+i == int(from/64) {
					x &= edge
				}
				if x == 0 {
					continue
				}
				p := uint32(c*64+i)*64 + uint32(bits.TrailingZeros64(x))
				return p, p < to
			}
		}
		if c = next(l.top, c+1); c < 0 || c*64 > last {
			return 0, false
		}
		w = c * 64
	}
}

// next is the lowest bit from i on that is set, or -1.
func next(words []uint64, i int) int {
	for w := i / 64; w < len(words); w++ {
		x := words[w]
		if w == i/64 {
			x = x >> (i % 64) << (i % 64)
		}
		if x != 0 {
			return w*64 + bits.TrailingZeros64(x)
		}
	}
	return -1
}

// pool is all wanted pieces, each in the layer of its rank.
type pool struct {
	sp     *space
	wanted bitmap
	count  int
	layers [ranks]*layer
	used   [(ranks + 63) / 64]uint64 // layers that are not empty
	spare  []*layer
}

// first is the lowest rank from r on with a wanted piece, or -1.
func (q *pool) first(r int) int { return next(q.used[:], r) }

func (q *pool) put(rank, w int, pieces uint64) {
	l := q.layers[rank]
	if l == nil {
		if n := len(q.spare); n > 0 {
			l, q.spare = q.spare[n-1], q.spare[:n-1]
		} else {
			l = newLayer(q.sp)
		}
		q.layers[rank] = l
	}
	q.used[rank/64] |= 1 << (rank % 64)
	l.put(w, pieces)
}

// add makes p wanted.
func (q *pool) add(p uint32, rank int) {
	q.wanted.set(p)
	q.count++
	q.put(rank, int(p/64), 1<<(p%64))
}

// remove takes the wanted piece p out of its layer.
func (q *pool) remove(p uint32, rank int) {
	q.wanted.clear(p)
	q.count--
	l := q.layers[rank]
	l.remove(p)
	if l.count == 0 {
		q.used[rank/64] &^= 1 << (rank % 64)
	}
}

// rankOf is the rank of the wanted piece p. It tries each layer in use.
func (q *pool) rankOf(p uint32) int {
	for r := q.first(0); r >= 0; r = q.first(r + 1) {
		if q.in(p, r) {
			return r
		}
	}
	panic("leasemgr: a wanted piece without a rank")
}

// in reports whether p is wanted and has this rank.
func (q *pool) in(p uint32, rank int) bool {
	l := q.layers[rank]
	return l != nil && bitmap(l.words).has(p)
}

// empty takes all pieces out of the layers; wanted stays as it is. Layers that
// were not in use since the last time are given up.
func (q *pool) empty() {
	q.spare = q.spare[:0]
	for r, l := range q.layers {
		if l == nil {
			continue
		}
		if l.count > 0 {
			l.clear()
			q.spare = append(q.spare, l)
		}
		q.layers[r] = nil
	}
	clear(q.used[:])
}
