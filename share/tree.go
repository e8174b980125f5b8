package share

import (
	"encoding/binary"
	"fmt"

	"github.com/zeebo/blake3"
	"lukechampine.com/blake3/guts"
)

// The hash tree is BLAKE3's own. A piece is an aligned subtree of its file and
// a block an aligned subtree of its piece, so a file's root is what b3sum
// prints, and a list of block values can be folded into the piece's value and
// a list of piece values into the root.

// HashWidth is how many bytes the hash function processes at once: 16 chunks, as many as
// its vectors have lanes. Less data costs least if its slice has room for as many: they are
// read, and do not matter.
const HashWidth = guts.MaxSIMD * chunkSize

// node is the subtree over data, whose first byte lies at chunk first of its
// file. It works in the caller's goroutine and allocates nothing, which is why it
// is not guts.CompressEigentree.
func node(data []byte, first uint64) guts.Node {
	switch n := len(data); {
	case wide && (n == HashWidth || n == 2*HashWidth || n == 4*HashWidth):
		return wideNode(data, first)
	case n <= HashWidth:
		return leaf(data, first)
	}
	left := chunkSize << log2floor((len(data)-1)/chunkSize) // the largest full subtree that leaves something
	l := node(data[:left], first)
	r := node(data[left:], first+uint64(left/chunkSize))
	return guts.ParentNode(guts.ChainingValue(l), guts.ChainingValue(r), &guts.IV, 0)
}

// leaf is the node over at most HashWidth bytes.
func leaf(data []byte, first uint64) guts.Node {
	switch {
	case len(data) <= chunkSize:
		return guts.CompressChunk(data, &guts.IV, first, 0)
	case cap(data) >= HashWidth:
		return guts.CompressBuffer((*[HashWidth]byte)(data[:HashWidth]), len(data), &guts.IV, first, 0)
	}
	return short(data, first)
}

// short is leaf with a buffer, which would make the stack of every caller large.
//
//go:noinline
func short(data []byte, first uint64) guts.Node {
	var buf [HashWidth]byte
	n := copy(buf[:], data)
	return guts.CompressBuffer(&buf, n, &guts.IV, first, 0)
}

// fold is the node over two or more consecutive subtrees of equal size (except the last).
func fold(values []Hash) guts.Node {
	left := 1 << log2floor(len(values)-1)
	return guts.ParentNode(foldValue(values[:left]), foldValue(values[left:]), &guts.IV, 0)
}

func foldValue(values []Hash) [8]uint32 {
	if len(values) == 1 {
		return values[0].words()
	}
	return guts.ChainingValue(fold(values))
}

// value finishes a node: as the root of a file, or as a value inside one.
func value(n guts.Node, root bool) Hash {
	if !root {
		return fromWords(guts.ChainingValue(n))
	}
	n.Flags |= guts.FlagRoot
	w := guts.CompressNode(n)
	return fromWords([8]uint32(w[:8]))
}

func (h Hash) words() (w [8]uint32) {
	for i := range w {
		w[i] = binary.LittleEndian.Uint32(h[4*i:])
	}
	return w
}

func fromWords(w [8]uint32) (h Hash) {
	for i, x := range w {
		binary.LittleEndian.PutUint32(h[4*i:], x)
	}
	return h
}

// narrow is the most bytes, 8 chunks, that take less time at half of HashWidth at once.
const narrow = HashWidth / 2

// valueOf is the value over data, whose first byte lies at chunk first of its file, or the
// root of the file that data is.
func valueOf(data []byte, first uint64, root bool) Hash {
	if root && len(data) <= narrow {
		return blake3.Sum256(data)
	}
	return value(node(data, first), root)
}

// HashPiece returns the values of the blocks of one piece, and its own value. data
// is the whole piece, off its offset in its file in bytes, and whole says that
// the piece is all of its file, so that its value is the file's root. values is
// appended to, and may be nil.
func HashPiece(values []Hash, data []byte, off int64, whole bool) ([]Hash, Hash) {
	if len(data) <= BlockSize {
		v := valueOf(data, uint64(off)/chunkSize, whole)
		return append(values, v), v
	}
	start := len(values)
	for at := 0; at < len(data); at += BlockSize {
		b := data[at:min(at+BlockSize, len(data))]
		values = append(values, value(node(b, uint64(off+int64(at))/chunkSize), false))
	}
	return values, value(fold(values[start:]), whole)
}

// FileRoot folds the values of all pieces of a file into its root. A file of
// one piece has that piece's value as its root; one without bytes, EmptyRoot.
func FileRoot(pieces []Hash) Hash {
	switch len(pieces) {
	case 0:
		return EmptyRoot
	case 1:
		return pieces[0]
	}
	return value(fold(pieces), true)
}

// EmptyRoot is the root of a file without bytes.
var EmptyRoot = value(node(nil, 0), true)

// PieceValue is what the blocks of p must fold to. p must be valid.
func (m *Manifest) PieceValue(p Piece) Hash {
	f := m.layout.file(p)
	e := m.Entry(f.entry())
	if len(e.Pieces) == 0 {
		return e.Root
	}
	return e.Pieces[p-f.first]
}

// OnlyBlock returns the proof of a piece of one block, which needs none from a peer;
// nil for longer pieces.
func (m *Manifest) OnlyBlock(p Piece) []Hash {
	if m.layout.Blocks(p) > 1 {
		return nil
	}
	return []Hash{m.PieceValue(p)}
}

// CheckProof checks that values, one for each block of p, are those of the blocks of p. The error wraps ErrProof.
func (m *Manifest) CheckProof(p Piece, values []Hash) error {
	if n := m.layout.Blocks(p); len(values) != n {
		return fmt.Errorf("piece %d: block hashes: %d, blocks: %d: %w", p, len(values), n, ErrProof)
	}
	got := values[0]
	if len(values) > 1 {
		got = value(fold(values), m.layout.file(p).pieces() == 1)
	}
	if got != m.PieceValue(p) {
		return fmt.Errorf("piece %d: %w", p, ErrProof)
	}
	return nil
}

// BlockValue returns the value of data as block b of p, to be compared with a checked
// proof. data must be as long as the block.
func (m *Manifest) BlockValue(p Piece, b Block, data []byte) Hash {
	f := m.layout.file(p)
	off := int64(p-f.first)<<f.exp + int64(b)*BlockSize
	return valueOf(data, uint64(off)/chunkSize, f.size <= BlockSize)
}
