package share

import "math/bits"

// Blocks is a set of blocks of one piece.
type Blocks [MaxPiece / BlockSize / 64]uint64

// Has says whether b is in the set.
func (s *Blocks) Has(b Block) bool { return s[b/64]>>(b%64)&1 != 0 }

// Add puts n blocks in, from first on.
func (s *Blocks) Add(first Block, n int) {
	for b := first; b < first+Block(n); b++ {
		s[b/64] |= 1 << (b % 64)
	}
}

// Remove takes n blocks out, from first on.
func (s *Blocks) Remove(first Block, n int) {
	for b := first; b < first+Block(n); b++ {
		s[b/64] &^= 1 << (b % 64)
	}
}

// Union adds all blocks of o.
func (s *Blocks) Union(o Blocks) {
	for i := range s {
		s[i] |= o[i]
	}
}

// Empty says whether no block is in the set.
func (s *Blocks) Empty() bool { return *s == Blocks{} }

// First is the lowest block of a set that is not empty.
func (s *Blocks) First() Block {
	i := 0
	for s[i] == 0 {
		i++
	}
	return Block(i*64 + bits.TrailingZeros64(s[i]))
}

// Last is the highest block of a set that is not empty.
func (s *Blocks) Last() Block {
	i := len(s) - 1
	for s[i] == 0 {
		i--
	}
	return Block(i*64 + 63 - bits.LeadingZeros64(s[i]))
}
