package share

import (
	"iter"
	"math/bits"
	"slices"
)

// Layout is the geometry of one share: which piece lies where, and how long each
// block is. No other code multiplies piece sizes.
//
// Pieces are counted over all files in entry order; a piece never crosses the
// end of its file, so the last piece of a file, and the last block of a piece,
// may be short. Files without bytes have no pieces.
//
// A Layout never changes and is safe for concurrent use.
type Layout struct {
	files  []extent // files with bytes, by first piece: 24 bytes for each
	pieces int
	bytes  int64
}

// extent is a file with at least one byte.
type extent struct {
	size  int64
	index uint32 // of its entry
	first Piece  // its first piece
	exp   uint8
}

func (f *extent) pieces() int { return piecesIn(f.size, f.exp) }
func (f *extent) entry() int  { return int(f.index) }

// A Span is a range of bytes in one file of a share.
type Span struct {
	Entry  int   // index of its entry in the manifest
	Offset int64 // bytes from the start of the file
	Len    int   // bytes
}

// PieceExp is the rule for the piece size of a file of size bytes, as an
// exponent of two: 1 MiB, doubled until the file has at most MaxFilePieces.
func PieceExp(size int64) uint8 {
	exp := uint8(minPieceExp)
	for exp < maxPieceExp && size > MaxFilePieces<<exp {
		exp++
	}
	return exp
}

// piecesIn is the number of pieces of 1<<exp bytes in a file of size bytes.
func piecesIn(size int64, exp uint8) int { return int((size + 1<<exp - 1) >> exp) }

func newLayout(entries iter.Seq2[int, Entry]) (*Layout, error) {
	files := 0
	for _, e := range entries {
		if e.Size > 0 {
			files++
		}
	}
	l := &Layout{files: make([]extent, 0, files)}
	for i, e := range entries {
		if e.Size == 0 {
			continue
		}
		n := piecesIn(e.Size, e.PieceExp)
		if l.pieces+n > MaxPieces {
			return nil, errPieces
		}
		l.files = append(l.files, extent{e.Size, uint32(i), Piece(l.pieces), e.PieceExp})
		l.pieces += n
		l.bytes += e.Size
	}
	return l, nil
}

// Pieces is the number of pieces of the share.
func (l *Layout) Pieces() int { return l.pieces }

// Bytes is the number of bytes of all files.
func (l *Layout) Bytes() int64 { return l.bytes }

// Valid says whether p is a piece of the share.
func (l *Layout) Valid(p Piece) bool { return int64(p) < int64(l.pieces) }

// ValidRun says whether p has the n >= 1 blocks from first on.
func (l *Layout) ValidRun(p Piece, first Block, n int) bool {
	return l.Valid(p) && n >= 1 && n <= l.Blocks(p)-int(first)
}

// file is the file that p is part of.
func (l *Layout) file(p Piece) *extent {
	if int64(p) < int64(len(l.files)) && l.files[p].first == p { // those before have one piece each
		return &l.files[p]
	}
	i, n := 0, len(l.files) // files[i].first <= p, and from n on it is larger
	for n-i > 1 {
		if mid := int(uint(i+n) >> 1); l.files[mid].first <= p {
			i = mid
		} else {
			n = mid
		}
	}
	return &l.files[i]
}

// PieceSpan returns where the bytes of p lie. p must be valid, as in every method below
// that takes one; so must a block or a run of it. Valid and ValidRun check that.
func (l *Layout) PieceSpan(p Piece) Span {
	f := l.file(p)
	off := int64(p-f.first) << f.exp
	return Span{f.entry(), off, int(min(1<<f.exp, f.size-off))}
}

// PieceLen is the number of bytes of p.
func (l *Layout) PieceLen(p Piece) int { return l.PieceSpan(p).Len }

// Blocks is the number of blocks of p, at least 1.
func (l *Layout) Blocks(p Piece) int { return blocksIn(l.PieceLen(p)) }

func blocksIn(n int) int { return (n + BlockSize - 1) / BlockSize }

// RunSpan returns where the n blocks of p from first on lie.
func (l *Layout) RunSpan(p Piece, first Block, n int) Span {
	s := l.PieceSpan(p)
	from := int(first) * BlockSize
	to := min(from+n*BlockSize, s.Len)
	return Span{s.Entry, s.Offset + int64(from), to - from}
}

// BlockLen is the number of bytes of block b of p.
func (l *Layout) BlockLen(p Piece, b Block) int { return l.RunSpan(p, b, 1).Len }

// PiecesOf returns the range of pieces of an entry; n is 0 for one without bytes.
func (l *Layout) PiecesOf(entry int) (first Piece, n int) {
	i, ok := l.fileOf(entry)
	if !ok {
		return 0, 0
	}
	return l.files[i].first, l.files[i].pieces()
}

// EachOf yields the pieces of an entry in rising order.
func (l *Layout) EachOf(entry int) iter.Seq[Piece] {
	return func(yield func(Piece) bool) {
		first, n := l.PiecesOf(entry)
		for p := first; p < first+Piece(n) && yield(p); p++ {
		}
	}
}

// At returns the piece that holds the byte at off of an entry, and its block there. The
// byte must exist.
func (l *Layout) At(entry int, off int64) (Piece, Block) {
	i, _ := l.fileOf(entry)
	f := &l.files[i]
	return f.first + Piece(off>>f.exp), Block(off & (1<<f.exp - 1) / BlockSize)
}

func (l *Layout) fileOf(entry int) (i int, ok bool) {
	if entry < len(l.files) && l.files[entry].entry() == entry { // those before all have bytes
		return entry, true
	}
	return slices.BinarySearchFunc(l.files, entry, func(f extent, entry int) int { return f.entry() - entry })
}

func log2floor(n int) int { return bits.Len(uint(n)) - 1 }
