package share

import (
	"bytes"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/zeebo/blake3"
	"pgregory.net/rapid"
)

// pattern is the input of the official BLAKE3 test vectors: 0 to 250, again and again.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i % 251)
	}
	return b
}

// vectors are the lengths and hashes of the official test vectors
// (BLAKE3-team/BLAKE3, test_vectors.json), of the extended output the first 32 bytes.
//
//go:embed testdata/blake3.json
var vectors []byte

func TestRootIsOfficialBLAKE3(t *testing.T) {
	var cases []struct {
		Len  int
		Hash string
	}
	if err := json.Unmarshal(vectors, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) == 0 || cases[0].Hash != "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262" {
		t.Fatal("the vectors do not begin with the empty input")
	}
	for _, c := range cases {
		_, got := HashPiece(nil, pattern(c.Len), 0, true)
		if hex.EncodeToString(got[:]) != c.Hash {
			t.Errorf("%d bytes: got %x, want %s", c.Len, got[:], c.Hash)
		}
	}
	_, abc := HashPiece(nil, []byte("abc"), 0, true)
	if got, want := hex.EncodeToString(abc[:]), "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"; got != want {
		t.Errorf("abc: got %s, want %s", got, want)
	}
}

// Short files are hashed by another implementation than longer ones. Both give the same, at each length.
func TestShortFilesHaveTheSameRootEitherWay(t *testing.T) {
	data := pattern(narrow + 1)
	for n := range len(data) + 1 {
		if got, want := valueOf(data[:n], 0, true), value(node(data[:n], 0), true); got != want {
			t.Fatalf("%d bytes: %x and %x", n, got[:], want[:])
		}
	}
	if got := valueOf(data[:100], 0, false); got != value(node(data[:100], 0), false) {
		t.Errorf("the value of a part is %x", got[:])
	}
}

// hashed is a file with everything that can be computed from it.
type hashed struct {
	data   []byte
	entry  Entry
	proofs [][]Hash // by piece of the file
}

// hashFile hashes data as a file called path, in pieces of 1<<exp bytes.
func hashFile(path string, data []byte, exp uint8) hashed {
	h := hashed{data: data, entry: Entry{Path: path, Size: int64(len(data)), PieceExp: exp}}
	var values []Hash
	for off := 0; off < len(data); off += 1 << exp {
		proof, v := HashPiece(nil, data[off:min(off+1<<exp, len(data))], int64(off), len(data) <= 1<<exp)
		h.proofs = append(h.proofs, proof)
		values = append(values, v)
	}
	h.entry.Root = FileRoot(values)
	if len(values) > 1 {
		h.entry.Pieces = values
	}
	return h
}

// laid is a manifest of files whose exponents need not be the rule's, so that
// large piece sizes can be tested with small files.
func laid(t testing.TB, files ...hashed) *Manifest {
	m := &Manifest{Name: "test"}
	for _, f := range files {
		m.starts = append(m.starts, uint32(len(m.raw)))
		m.raw = f.entry.append(m.raw)
	}
	var err error
	if m.layout, err = newLayout(m.Entries()); err != nil {
		t.Fatal(err)
	}
	return m
}

// boundaries returns the lengths around every boundary of the tree for pieces of 1<<exp bytes.
func boundaries(exp uint8) []int {
	piece := 1 << exp
	at := []int{
		0, 1, 2 * chunkSize, 3 * chunkSize, chunkSize, HashWidth, HashWidth + chunkSize, 2 * HashWidth, 3 * HashWidth,
		BlockSize, 2 * BlockSize, 3 * BlockSize, 5*BlockSize + chunkSize,
		piece / 2, piece, piece + chunkSize, piece + BlockSize, 2 * piece, 2*piece + BlockSize, 3 * piece,
	}
	var out []int
	for _, n := range at {
		out = append(out, n-1, n, n+1)
	}
	out = slices.DeleteFunc(out, func(n int) bool { return n < 0 })
	slices.Sort(out)
	return slices.Compact(out)
}

func TestRootIsPlainBLAKE3AroundEveryBoundary(t *testing.T) {
	for _, exp := range []uint8{minPieceExp, minPieceExp + 1} {
		data := pattern(3<<exp + 1)
		for _, n := range boundaries(exp) {
			f := hashFile("f", data[:n], exp)
			if want := Hash(blake3.Sum256(data[:n])); f.entry.Root != want {
				t.Errorf("%d bytes in pieces of %d: root %x, want %x", n, 1<<exp, f.entry.Root[:], want[:])
			}
			m := laid(t, f)
			for p := range Piece(m.Layout().Pieces()) {
				checkPiece(t, m, p, f, 0)
			}
		}
	}
}

func TestLargestPiecesFoldToTheRoot(t *testing.T) {
	const exp = maxPieceExp
	data := pattern(MaxPiece + BlockSize + 1)
	f := hashFile("f", data, exp)
	if want := Hash(blake3.Sum256(data)); f.entry.Root != want {
		t.Fatalf("root %x, want %x", f.entry.Root[:], want[:])
	}
	m := laid(t, f)
	if got := m.Layout().Blocks(0); got != 256 || len(f.proofs[0]) != 256 {
		t.Fatalf("%d blocks and a proof of %d, want 256", got, len(f.proofs[0]))
	}
	checkPiece(t, m, 1, f, 0)
}

// checkPiece fails unless p, whose file f begins at piece first, has the proof
// and the block values that f says.
func checkPiece(t testing.TB, m *Manifest, p Piece, f hashed, first Piece) {
	t.Helper()
	l := m.Layout()
	proof := f.proofs[p-first]
	if err := m.CheckProof(p, proof); err != nil {
		t.Fatal(err)
	}
	if only := m.OnlyBlock(p); (only != nil) != (l.Blocks(p) == 1) || only != nil && only[0] != proof[0] {
		t.Fatalf("piece %d of %d blocks: the proof it needs none for is %x", p, l.Blocks(p), only)
	}
	for b := range Block(l.Blocks(p)) {
		s := l.RunSpan(p, b, 1)
		if got := m.BlockValue(p, b, f.data[s.Offset:s.Offset+int64(s.Len)]); got != proof[b] {
			t.Fatalf("piece %d block %d: value %x, want %x", p, b, got[:], proof[b][:])
		}
	}
}

// drawn is what the files of someFiles are cut from.
var drawn = pattern(2*MinPiece + 2*BlockSize)

// someFiles draws a share of small files whose last pieces have all kinds of lengths.
func someFiles(t *rapid.T) (*Manifest, []hashed) {
	length := rapid.OneOf(
		rapid.IntRange(0, 2*BlockSize),
		rapid.IntRange(MinPiece-2*BlockSize, MinPiece+2*BlockSize),
		rapid.IntRange(2*MinPiece-2, 2*MinPiece+BlockSize+2),
	)
	files := make([]hashed, rapid.IntRange(1, 3).Draw(t, "files"))
	for i := range files {
		from := 83 * i // no two files begin with the same bytes
		data := drawn[from : from+length.Draw(t, "length")]
		files[i] = hashFile(fmt.Sprint("f", i), data, PieceExp(int64(len(data))))
	}
	var entries []Entry
	for _, f := range files {
		entries = append(entries, f.entry)
	}
	m, err := NewManifest("drawn", entries)
	if err != nil {
		t.Fatal(err)
	}
	if m.Layout().Pieces() == 0 {
		t.Skip("nothing in it")
	}
	return m, files
}

func TestProofOfAnyPieceIsAcceptedAndAnyOtherRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, files := someFiles(t)
		l := m.Layout()
		p := Piece(rapid.IntRange(0, l.Pieces()-1).Draw(t, "piece"))
		s := l.PieceSpan(p)
		first, _ := l.PiecesOf(s.Entry)
		good := files[s.Entry].proofs[p-first]
		if err := m.CheckProof(p, good); err != nil {
			t.Fatal(err)
		}
		bad := slices.Clone(good)
		i := rapid.IntRange(0, len(bad)-1).Draw(t, "value")
		switch rapid.IntRange(0, 4).Draw(t, "damage") {
		case 0:
			bad[i][rapid.IntRange(0, 31).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		case 1:
			bad = bad[:len(bad)-1]
		case 2:
			bad = append(bad, bad[i])
		case 3:
			j := rapid.IntRange(0, len(bad)-1).Draw(t, "other")
			if i == j {
				t.Skip("nothing to swap")
			}
			bad[i], bad[j] = bad[j], bad[i]
		case 4: // the proof of another piece
			q := Piece(rapid.IntRange(0, l.Pieces()-1).Draw(t, "other piece"))
			s := l.PieceSpan(q)
			first, _ := l.PiecesOf(s.Entry)
			if bad = files[s.Entry].proofs[q-first]; slices.Equal(bad, good) {
				t.Skip("the same piece")
			}
		}
		if err := m.CheckProof(p, bad); !errors.Is(err, ErrProof) {
			t.Fatalf("piece %d with a wrong proof: %v", p, err)
		}
	})
}

func TestBlockHasItsValueOnlyInItsPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, files := someFiles(t)
		l := m.Layout()
		bytesOf := func(p Piece, b Block) []byte {
			s := l.RunSpan(p, b, 1)
			return files[s.Entry].data[s.Offset : s.Offset+int64(s.Len)]
		}
		draw := func(what string) (Piece, Block) {
			p := Piece(rapid.IntRange(0, l.Pieces()-1).Draw(t, what+" piece"))
			return p, Block(rapid.IntRange(0, l.Blocks(p)-1).Draw(t, what+" block"))
		}
		p, b := draw("a")
		s := l.PieceSpan(p)
		first, _ := l.PiecesOf(s.Entry)
		want := files[s.Entry].proofs[p-first][b]
		data := bytesOf(p, b)
		if got := m.BlockValue(p, b, data); got != want {
			t.Fatalf("piece %d block %d: value %x, want %x", p, b, got[:], want[:])
		}
		wrong := bytes.Clone(data)
		wrong[rapid.IntRange(0, len(wrong)-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if m.BlockValue(p, b, wrong) == want {
			t.Fatal("a flipped bit went by")
		}
		if q, c := draw("b"); !bytes.Equal(bytesOf(q, c), data) && m.BlockValue(p, b, bytesOf(q, c)) == want {
			t.Fatalf("block %d of piece %d passed for block %d of piece %d", c, q, b, p)
		}
	})
}

func TestSameBytesAreNotTheSameBlockElsewhere(t *testing.T) {
	f := hashFile("f", make([]byte, 2*MinPiece), minPieceExp) // all blocks are zeros
	m := laid(t, f)
	zeros := make([]byte, BlockSize)
	if m.BlockValue(0, 0, zeros) == m.BlockValue(0, 1, zeros) || m.BlockValue(0, 0, zeros) == m.BlockValue(1, 0, zeros) {
		t.Error("a block of zeros has one value in two places")
	}
	swapped := slices.Clone(f.proofs[0])
	swapped[0], swapped[1] = swapped[1], swapped[0]
	if err := m.CheckProof(0, swapped); !errors.Is(err, ErrProof) {
		t.Errorf("a proof in the wrong order: %v", err)
	}
}

func TestHashingAllocatesNothing(t *testing.T) {
	f := hashFile("f", pattern(MinPiece+3*BlockSize+5), minPieceExp)
	m := laid(t, f)
	values := make([]Hash, 0, 16)
	for name, hash := range map[string]func(){
		"a block":       func() { m.BlockValue(0, 3, f.data[3*BlockSize:4*BlockSize]) },
		"a short block": func() { m.BlockValue(1, 3, f.data[MinPiece+3*BlockSize:]) },
		"a piece":       func() { HashPiece(values, f.data[:MinPiece], 0, false) },
		"a proof": func() {
			if err := m.CheckProof(0, f.proofs[0]); err != nil {
				t.Error(err)
			}
		},
	} {
		if n := testing.AllocsPerRun(10, hash); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// Data is hashed alike whether its slice has room behind it or not, and whatever is there.
func TestRoomBehindDataDoesNotMatter(t *testing.T) {
	all := pattern(2 * HashWidth)
	for _, n := range []int{1, chunkSize - 1, chunkSize, chunkSize + 1, 2500, HashWidth - 1, HashWidth, HashWidth + 1, 2*HashWidth - 1} {
		want := Hash(blake3.Sum256(all[:n]))
		for what, data := range map[string][]byte{"room": all[:n], "no room": all[:n:n], "some room": all[: n : n+1]} {
			if _, got := HashPiece(nil, data, 0, true); got != want {
				t.Errorf("%d bytes with %s: %x, want %x", n, what, got[:], want[:])
			}
		}
	}
}
