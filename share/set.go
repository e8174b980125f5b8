package share

import (
	"encoding/binary"
	"fmt"
	"iter"

	"github.com/bits-and-blooms/bitset"
)

// Set is a set of pieces of one share. It has a fixed size and one owner;
// Clone it before handing it on.
type Set struct {
	n    int
	bits *bitset.BitSet
}

// NewSet returns an empty set for a share of n pieces.
func NewSet(n int) *Set { return &Set{n, bitset.New(uint(n))} }

// FullSet returns a set that holds all n pieces.
func FullSet(n int) *Set {
	s := NewSet(n)
	s.bits.FlipRange(0, uint(n))
	return s
}

// Len is the number of pieces of the share, in the set or not.
func (s *Set) Len() int { return s.n }

// Count is the number of pieces in the set.
func (s *Set) Count() int { return int(s.bits.Count()) }

// Full says whether every piece is in the set.
func (s *Set) Full() bool { return s.Count() == s.n }

// Has says whether p is in the set; never for a piece outside the share.
func (s *Set) Has(p Piece) bool { return s.bits.Test(uint(p)) }

// Add puts p in and says whether it was new. A piece outside the share is left out.
func (s *Set) Add(p Piece) bool {
	if uint(p) >= uint(s.n) || s.bits.Test(uint(p)) {
		return false
	}
	s.bits.Set(uint(p))
	return true
}

// Remove takes p out.
func (s *Set) Remove(p Piece) {
	s.bits.Clear(uint(p))
}

// Union adds all pieces of o, which must be of the same share.
func (s *Set) Union(o *Set) {
	s.mustMatch(o)
	s.bits.InPlaceUnion(o.bits)
}

// Minus returns the set of pieces in s and not in o, which must be of the same share.
func (s *Set) Minus(o *Set) *Set {
	s.mustMatch(o)
	return &Set{s.n, s.bits.Difference(o.bits)}
}

// Equal says whether both hold the same pieces of a share of the same size.
func (s *Set) Equal(o *Set) bool { return s.n == o.n && s.bits.Equal(o.bits) }

func (s *Set) mustMatch(o *Set) {
	if s.n != o.n {
		panic(fmt.Sprintf("share: sets of different sizes: %d and %d pieces", s.n, o.n))
	}
}

// Clone returns an independent copy.
func (s *Set) Clone() *Set { return &Set{s.n, s.bits.Clone()} }

// Words returns the bits, 64 pieces a word, lowest first. The caller must not change them.
func (s *Set) Words() []uint64 { return s.bits.Words() }

// All yields the pieces in rising order.
func (s *Set) All() iter.Seq[Piece] {
	return func(yield func(Piece) bool) {
		for i, ok := s.bits.NextSet(0); ok; i, ok = s.bits.NextSet(i + 1) {
			if !yield(Piece(i)) {
				return
			}
		}
	}
}

// Bytes is the have-map: bit i of byte i/8 (lowest bit first) is piece i;
// (n+7)/8 bytes, spare bits zero.
func (s *Set) Bytes() []byte {
	out := make([]byte, 0, (s.n+7)/8+7)
	for _, w := range s.bits.Words() {
		out = binary.LittleEndian.AppendUint64(out, w)
	}
	for len(out) < (s.n+7)/8 {
		out = append(out, 0)
	}
	return out[:(s.n+7)/8]
}

// ParseSet reads a have-map of a share of n pieces. Its length must be exact
// and its spare bits zero.
func ParseSet(n int, b []byte) (*Set, error) {
	if len(b) != (n+7)/8 {
		return nil, fmt.Errorf("have-map of %d bytes for %d pieces", len(b), n)
	}
	if n%8 != 0 && b[len(b)-1]>>(n%8) != 0 {
		return nil, fmt.Errorf("have-map names pieces past the %d of the share", n)
	}
	words := make([]uint64, (n+63)/64)
	for i := range words {
		var w [8]byte
		copy(w[:], b[8*i:])
		words[i] = binary.LittleEndian.Uint64(w[:])
	}
	return &Set{n, bitset.FromWithLength(uint(n), words)}, nil
}
