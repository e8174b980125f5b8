package leasemgr

import (
	"iter"
	"math/bits"
)

// bitmap is a plain bit set.
type bitmap []uint64

func (b bitmap) has(p uint32) bool { return b[p/64]>>(p%64)&1 != 0 }
func (b bitmap) set(p uint32)      { b[p/64] |= 1 << (p % 64) }
func (b bitmap) clear(p uint32)    { b[p/64] &^= 1 << (p % 64) }

func (b bitmap) count() (n int) {
	for _, x := range b {
		n += bits.OnesCount64(x)
	}
	return n
}

// all yields the members in rising order.
func (b bitmap) all() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for w, x := range b {
			for ; x != 0; x &= x - 1 {
				if !yield(uint32(w*64 + bits.TrailingZeros64(x))) {
					return
				}
			}
		}
	}
}
