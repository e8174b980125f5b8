package share

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestPieceSizeDoublesToKeepAFileBelowItsLimit(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		size int64
		exp  uint8
	}{
		{0, 20}, {1, 20}, {MinPiece + 1, 20}, {128 * gib, 20},
		{128*gib + 1, 21}, {256 * gib, 21}, {256*gib + 1, 22}, {512 * gib, 22},
		{512*gib + 1, 23}, {1024 * gib, 23}, {1024*gib + 1, 24}, {MaxFileSize, 24},
	} {
		if got := PieceExp(c.size); got != c.exp {
			t.Errorf("%d bytes: exponent %d, want %d", c.size, got, c.exp)
		}
		if n := piecesIn(c.size, PieceExp(c.size)); n > MaxFilePieces {
			t.Errorf("%d bytes: %d pieces", c.size, n)
		}
	}
}

// drawLayout draws files of every permitted size, empty ones, directories
// and links among them.
func drawLayout(t *rapid.T) ([]Entry, *Layout) {
	size := rapid.OneOf(
		rapid.Int64Range(0, 3),
		rapid.Int64Range(BlockSize-1, BlockSize+1),
		rapid.Int64Range(0, 5*MinPiece),
		rapid.Int64Range(MaxFilePieces*MinPiece-2, MaxFilePieces*MinPiece+2),
		rapid.Int64Range(MaxFileSize-2*MaxPiece, MaxFileSize),
	)
	entries := make([]Entry, rapid.IntRange(1, 5).Draw(t, "entries"))
	for i := range entries {
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			entries[i].Kind = Dir
		case 1:
			entries[i].Kind = Symlink
		default:
			entries[i].Size = size.Draw(t, "size")
			entries[i].PieceExp = PieceExp(entries[i].Size)
		}
	}
	l, err := newLayout(slices.All(entries))
	if err != nil {
		t.Fatal(err)
	}
	return entries, l
}

func TestPiecesTileEveryFileExactly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries, l := drawLayout(t)
		var pieces int
		var bytes int64
		for i, e := range entries {
			first, n := l.PiecesOf(i)
			if e.Size == 0 {
				if n != 0 {
					t.Fatalf("entry %d without bytes has %d pieces", i, n)
				}
				continue
			}
			if int(first) != pieces {
				t.Fatalf("entry %d begins at piece %d, want %d", i, first, pieces)
			}
			if size := int64(1) << e.PieceExp; int64(n-1)*size >= e.Size || int64(n)*size < e.Size {
				t.Fatalf("%d pieces of %d for %d bytes", n, size, e.Size)
			}
			pieces += n
			bytes += e.Size
			// A file may have 131,072 pieces: the ends, and some between.
			for _, k := range []int{0, 1, n / 3, n - 2, n - 1} {
				if k < 0 || k >= n {
					continue
				}
				p := first + Piece(k)
				want := Span{i, int64(k) << e.PieceExp, 1 << e.PieceExp}
				if k == n-1 {
					want.Len = int(e.Size - want.Offset)
				}
				if got := l.PieceSpan(p); got != want || l.PieceLen(p) != want.Len {
					t.Fatalf("piece %d: got %v, want %v", p, got, want)
				}
				blocksTile(t, l, p)
			}
		}
		if l.Pieces() != pieces || l.Bytes() != bytes {
			t.Fatalf("%d pieces and %d bytes, want %d and %d", l.Pieces(), l.Bytes(), pieces, bytes)
		}
		if l.Valid(Piece(pieces)) || pieces > 0 && !l.Valid(Piece(pieces-1)) {
			t.Fatal("the last piece is not the last valid one")
		}
	})
}

// blocksTile fails unless the blocks of p tile it, one by one and in runs.
func blocksTile(t *rapid.T, l *Layout, p Piece) {
	s := l.PieceSpan(p)
	at, n := s.Offset, l.Blocks(p)
	for b := range Block(n) {
		if got := (Span{s.Entry, at, l.BlockLen(p, b)}); l.RunSpan(p, b, 1) != got {
			t.Fatalf("block %d of piece %d: %v, want %v", b, p, l.RunSpan(p, b, 1), got)
		}
		if size := l.BlockLen(p, b); size < 1 || size > BlockSize || int(b) < n-1 && size != BlockSize {
			t.Fatalf("block %d of %d has %d bytes", b, n, size)
		}
		at += int64(l.BlockLen(p, b))
	}
	if at != s.Offset+int64(s.Len) {
		t.Fatalf("the blocks of piece %d end at %d, and it at %d", p, at, s.Offset+int64(s.Len))
	}
	first := Block(rapid.IntRange(0, n-1).Draw(t, "first"))
	count := rapid.IntRange(1, n).Draw(t, "count")
	if got, want := l.ValidRun(p, first, count), int(first)+count <= n; got != want {
		t.Fatalf("%d blocks from %d of %d: valid %v", count, first, n, got)
	}
	if l.ValidRun(p, first, count) {
		run := l.RunSpan(p, first, count)
		want := 0
		for b := range Block(count) {
			want += l.BlockLen(p, first+b)
		}
		if run.Offset != l.RunSpan(p, first, 1).Offset || run.Len != want {
			t.Fatalf("run of %d blocks from %d: %v, want %d bytes", count, first, run, want)
		}
	}
}

func TestRunsThatAreNotThereAreInvalid(t *testing.T) {
	l, err := newLayout(slices.All([]Entry{{Size: MinPiece + 1, PieceExp: minPieceExp}}))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		p     Piece
		first Block
		n     int
		valid bool
	}{
		{0, 0, 16, true}, {0, 0, 17, false}, {0, 15, 1, true}, {0, 16, 1, false}, {0, 16, 0, false},
		{0, 0, 0, false}, {0, 0, -1, false}, {0, 65535, 1, false}, {0, 0, 1 << 31, false},
		{1, 0, 1, true}, {1, 1, 1, false}, {2, 0, 1, false}, {1<<32 - 1, 0, 1, false},
	} {
		if got := l.ValidRun(c.p, c.first, c.n); got != c.valid {
			t.Errorf("piece %d, %d blocks from %d: %v", c.p, c.n, c.first, got)
		}
	}
}

func TestShareHasAtMostMaxPieces(t *testing.T) {
	full := Entry{Size: MaxFileSize, PieceExp: maxPieceExp}
	var entries []Entry
	for range MaxPieces / MaxFilePieces {
		entries = append(entries, full)
	}
	rest := Entry{Size: int64(MaxPieces%MaxFilePieces) * MinPiece, PieceExp: minPieceExp}
	l, err := newLayout(slices.All(append(entries, rest)))
	if err != nil || l.Pieces() != MaxPieces {
		t.Fatalf("%v, %v", l, err)
	}
	rest.Size++
	if _, err := newLayout(slices.All(append(entries, rest))); !errors.Is(err, ErrLimit) {
		t.Errorf("one piece more: %v", err)
	}
}

func BenchmarkRunSpan(b *testing.B) {
	for _, files := range []int{1, 100_000} {
		b.Run(fmt.Sprint(files, "files"), func(b *testing.B) {
			entries := make([]Entry, files)
			for i := range entries {
				entries[i] = Entry{Size: 100_000, PieceExp: minPieceExp}
			}
			l, err := newLayout(slices.All(entries))
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				l.RunSpan(Piece(i*7919%files), 0, 1)
			}
		})
	}
}

func TestAtFindsTheBlockOfEachByte(t *testing.T) {
	m, err := NewManifest("x/", []Entry{
		{Path: "a", Size: 3<<20 + 5, Root: FileRoot(make([]Hash, 4)), Pieces: make([]Hash, 4)},
		{Path: "b", Size: 0, Root: EmptyRoot},
		{Path: "c", Size: 70_000},
	})
	if err != nil {
		t.Fatal(err)
	}
	l := m.Layout()
	for entry, e := range m.Entries() {
		for _, off := range []int64{0, 1, BlockSize - 1, BlockSize, MinPiece - 1, MinPiece, 2*MinPiece + 3*BlockSize + 7, e.Size - 1} {
			if off < 0 || off >= e.Size {
				continue
			}
			p, b := l.At(entry, off)
			if !l.ValidRun(p, b, 1) {
				t.Fatalf("%s at %d: block %d of piece %d", e.Path, off, b, p)
			}
			if s := l.RunSpan(p, b, 1); s.Entry != entry || off < s.Offset || off >= s.Offset+int64(s.Len) {
				t.Errorf("%s at %d: block %d of piece %d is %+v", e.Path, off, b, p, s)
			}
		}
	}
}
