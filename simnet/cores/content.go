package cores

import (
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/piecelease/fetcher/share"
)

// Content is a share with its bytes, which all peers have in common.
type Content struct {
	m      *share.Manifest
	files  [][]byte
	proofs [][]share.Hash // of each piece
	wrong  []byte         // what liars send
}

// NewContent is a folder of files of these sizes, in bytes: each of them a piece, so
// at most share.MinPiece.
func NewContent(sizes ...int) *Content {
	c := &Content{}
	rng := rand.NewChaCha8([32]byte{})
	entries := make([]share.Entry, len(sizes))
	longest := 0
	for i, size := range sizes {
		data := make([]byte, size)
		rng.Read(data)
		proof, root := share.HashPiece(nil, data, 0, true)
		entries[i] = share.Entry{Path: fmt.Sprintf("f%04d", i), Size: int64(size), Root: root}
		c.files, c.proofs = append(c.files, data), append(c.proofs, proof)
		longest = max(longest, size)
	}
	m, err := share.NewManifest("c", entries)
	if err != nil {
		panic(err)
	}
	c.m, c.wrong = m, make([]byte, longest)
	return c
}

// DefaultContent is 584 KiB in ten pieces of one block and two of two.
var DefaultContent = sync.OnceValue(func() *Content {
	sizes := []int{92 << 10, 92 << 10}
	for range 10 {
		sizes = append(sizes, 40<<10)
	}
	return NewContent(sizes...)
})

func (c *Content) pieces() int  { return c.m.Layout().Pieces() }
func (c *Content) bytes() int64 { return c.m.Layout().Bytes() }

// run is the bytes of n blocks of a piece.
func (c *Content) run(p share.Piece, first share.Block, n int) []byte {
	s := c.m.Layout().RunSpan(p, first, n)
	return c.files[s.Entry][s.Offset : s.Offset+int64(s.Len)]
}
