package simnet

import (
	"github.com/piecelease/fetcher/share"
)

// pages are the buffers of runs that nobody uses.
type pages map[int][][]byte

func (n *Net) buffer(size int) []byte {
	if free := n.pages[size]; len(free) > 0 {
		n.pages[size] = free[:len(free)-1]
		return free[len(free)-1]
	}
	return make([]byte, size)
}

// free takes a buffer back. A reader that still has it finds other bytes in each block.
func (n *Net) free(b []byte) {
	for at := 0; at < len(b); at += share.BlockSize {
		b[at]++
	}
	n.pages[len(b)] = append(n.pages[len(b)], b)
}

func (n *Net) wasted(x *Node, bytes int) { x.waste += int64(bytes) }
