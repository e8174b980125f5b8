package leasemgr

import (
	"math/bits"
	"slices"

	"github.com/piecelease/fetcher/share"
)

const (
	chunkWords  = 64
	chunkPieces = chunkWords * 64
)

// space is the geometry of all bit sets over the pieces of one share: words of
// 64 pieces, chunks of 64 words.
type space struct {
	n      int      // pieces
	words  int      // (n+63)/64
	chunks int      // (words+63)/64
	ones   []uint64 // a chunk that holds all its pieces, shared by all sets
	tail   []uint64 // the same for the last chunk
}

func newSpace(n int) *space {
	sp := &space{n: n, words: (n + 63) / 64}
	sp.chunks = (sp.words + chunkWords - 1) / chunkWords
	sp.ones = make([]uint64, chunkWords)
	for i := range sp.ones {
		sp.ones[i] = ^uint64(0)
	}
	if n > 0 {
		sp.tail = slices.Clone(sp.ones[:sp.words-(sp.chunks-1)*chunkWords])
		if n%64 != 0 {
			sp.tail[len(sp.tail)-1] = 1<<(n%64) - 1
		}
	}
	return sp
}

// full is the shared chunk c with all its pieces. Nobody may change it.
func (sp *space) full(c int) []uint64 {
	if c == sp.chunks-1 {
		return sp.tail
	}
	return sp.ones
}

func (sp *space) isFull(c int, chunk []uint64) bool {
	return len(chunk) > 0 && &chunk[0] == &sp.full(c)[0]
}

// haves is the have-set of one source. An empty chunk is nil, a full one is shared,
// and a set that is whole has no chunks at all, so a thousand sources that have
// everything take no room.
type haves struct {
	n      int // pieces in it
	chunks [][]uint64

	near []uint64 // the chunk asked for last, so that a walk finds it in one step
	at   int      // its index plus one
}

// chunk is chunk c of a set that is neither whole nor empty.
func (h *haves) chunk(c int) []uint64 {
	if h.at != c+1 {
		h.near, h.at = h.chunks[c], c+1
	}
	return h.near
}

// has says whether p is in the set of a share of total pieces.
func (h *haves) has(p uint32, total int) bool {
	if h.n == total {
		return true
	}
	if h.n == 0 {
		return false
	}
	c := h.chunks[p/chunkPieces]
	return c != nil && c[p/64%chunkWords]>>(p%64)&1 != 0
}

// word is word w of the set.
func (h *haves) word(w int, sp *space) uint64 {
	if h.n == sp.n {
		return sp.full(w / chunkWords)[w%chunkWords]
	}
	if h.n == 0 || h.chunks[w/chunkWords] == nil {
		return 0
	}
	return h.chunks[w/chunkWords][w%chunkWords]
}

// parse makes a have-set of a caller's set, which is not kept.
func (sp *space) parse(s *share.Set) haves {
	if s == nil || sp.n == 0 {
		return haves{}
	}
	words := s.Words()
	words = words[:min(len(words), sp.words)]
	h := haves{chunks: make([][]uint64, sp.chunks)}
	own := 0 // words that cannot be shared
	for c := range h.chunks {
		from := min(c*chunkWords, len(words))
		src := words[from:min(from+chunkWords, len(words))]
		all := sp.full(c)
		n, whole := 0, len(src) == len(all)
		for i, x := range src {
			x &= all[i]
			n += bits.OnesCount64(x)
			whole = whole && x == all[i]
		}
		h.n += n
		switch {
		case whole:
			h.chunks[c] = all
		case n > 0:
			h.chunks[c] = src // borrowed until copied below
			own += len(all)
		}
	}
	if h.n == sp.n || h.n == 0 {
		h.chunks = nil
		return h
	}
	slab := make([]uint64, own)
	for c, src := range h.chunks {
		if src == nil || sp.isFull(c, src) {
			continue
		}
		all := sp.full(c)
		chunk := slab[:len(all):len(all)]
		slab = slab[len(all):]
		for i, x := range src {
			chunk[i] = x & all[i]
		}
		h.chunks[c] = chunk
	}
	return h
}

// set puts p in or takes it out and reports whether that changed anything.
func (h *haves) set(p uint32, in bool, sp *space) bool {
	if h.has(p, sp.n) == in {
		return false
	}
	h.near, h.at = nil, 0
	if h.chunks == nil {
		h.chunks = make([][]uint64, sp.chunks)
		if h.n == sp.n {
			for c := range h.chunks {
				h.chunks[c] = sp.full(c)
			}
		}
	}
	c := int(p / chunkPieces)
	chunk, all := h.chunks[c], sp.full(c)
	switch {
	case chunk == nil:
		chunk = make([]uint64, len(all))
	case sp.isFull(c, chunk):
		chunk = slices.Clone(all)
	}
	chunk[p/64%chunkWords] ^= 1 << (p % 64)
	h.chunks[c] = chunk
	if in {
		h.n++
		if slices.Equal(chunk, all) {
			h.chunks[c] = all
		}
	} else {
		h.n--
	}
	if h.n == 0 || h.n == sp.n {
		h.chunks = nil
	}
	return true
}
