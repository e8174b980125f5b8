package verifier

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// content is a share with its bytes.
type content struct {
	m     *share.Manifest
	files [][]byte
}

// contentOf makes files of random bytes.
func contentOf(sizes ...int) *content {
	c := &content{}
	var entries []share.Entry
	rng := rand.NewChaCha8([32]byte{1})
	for i, size := range sizes {
		data := make([]byte, size)
		rng.Read(data)
		e := share.Entry{Path: fmt.Sprintf("f%03d", i), Size: int64(size), Root: share.EmptyRoot}
		var values []share.Hash
		for at := 0; at < size; at += share.MinPiece {
			_, v := share.HashPiece(nil, data[at:min(at+share.MinPiece, size)], int64(at), size <= share.MinPiece)
			values = append(values, v)
		}
		if size > 0 {
			e.Root = share.FileRoot(values)
		}
		if len(values) > 1 {
			e.Pieces = values
		}
		entries = append(entries, e)
		c.files = append(c.files, data)
	}
	m, err := share.NewManifest("c", entries)
	if err != nil {
		panic(err)
	}
	c.m = m
	return c
}

// data returns a copy of the bytes of n blocks of p.
func (c *content) data(p share.Piece, first share.Block, n int) []byte {
	s := c.m.Layout().RunSpan(p, first, n)
	return slices.Clone(c.files[s.Entry][s.Offset : s.Offset+int64(s.Len)])
}

func (c *content) proof(p share.Piece) []share.Hash {
	s := c.m.Layout().PieceSpan(p)
	whole := int(s.Len) == len(c.files[s.Entry])
	values, _ := share.HashPiece(nil, c.files[s.Entry][s.Offset:s.Offset+int64(s.Len)], s.Offset, whole)
	return values
}

// accept writes what a verdict admits.
func accept(v *Verifier, p share.Piece, verdict Verdict, source peers.ID, token share.Token) (done *Completion) {
	for _, run := range verdict.Write {
		if c := v.Wrote(p, run.First, run.Blocks(), source, token); c != nil {
			done = c
		}
	}
	return done
}

var small = contentOf(1, 64<<10, 64<<10+1, 1<<20, 1<<20+5, 3<<20-70000, 0, 300<<10)

func TestPieceOfOneBlockNeedsNoProof(t *testing.T) {
	for p := share.Piece(0); p < 2; p++ {
		v := New(small.m)
		if _, proven := v.State(p); !proven {
			t.Errorf("piece %d: not proven by itself", p)
		}
		verdict := v.Check(p, 0, "a", small.data(p, 0, 1))
		if verdict.Err != nil || len(verdict.Write) != 1 || len(verdict.Bad) > 0 {
			t.Fatalf("piece %d: %+v", p, verdict)
		}
		done := accept(v, p, verdict, "a", 7)
		if done == nil || done.Piece != p || !slices.Equal(done.Values, small.m.OnlyBlock(p)) {
			t.Fatalf("piece %d: %+v", p, done)
		}
		if len(v.pieces) != 0 {
			t.Errorf("piece %d: a state is left", p)
		}
	}
}

func TestBlockWithoutProofIsNotLookedAtAndNobodyBlamed(t *testing.T) {
	v := New(small.m)
	verdict := v.Check(2, 0, "a", small.data(2, 0, 1))
	if !errors.Is(verdict.Err, ErrNoProof) || len(verdict.Bad) > 0 || len(verdict.Write) > 0 {
		t.Errorf("%+v", verdict)
	}
	if len(v.pieces) != 0 {
		t.Error("it made a state")
	}
}

func TestBadProofNamesItsSourceAndChangesNothing(t *testing.T) {
	v := New(small.m)
	bad := small.proof(3)
	bad[2][0] ^= 1
	for name, values := range map[string][]share.Hash{"wrong": bad, "short": bad[:3], "none": nil, "of another piece": small.proof(5)} {
		err := v.Proof(3, "12D3KooWLiar0001", values)
		if !errors.Is(err, share.ErrProof) || !strings.Contains(err.Error(), "Liar0001") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, proven := v.State(3); proven {
		t.Error("proven")
	}
	if err := v.Proof(3, "a", small.proof(3)); err != nil {
		t.Fatal(err)
	}
	if err := v.Proof(3, "b", small.proof(3)); err != nil {
		t.Errorf("a second good one: %v", err)
	}
	if err := v.Proof(3, "c", bad); !errors.Is(err, share.ErrProof) {
		t.Errorf("a bad one after a good one: %v", err)
	}
	if err := v.Proof(99, "c", bad); err == nil || errors.Is(err, share.ErrProof) || !strings.Contains(err.Error(), "no such piece") {
		t.Errorf("of no piece: %v", err)
	}
}

func TestProofIsCopied(t *testing.T) {
	v := New(small.m)
	values := small.proof(3)
	if err := v.Proof(3, "a", values); err != nil {
		t.Fatal(err)
	}
	clear(values)
	if verdict := v.Check(3, 0, "a", small.data(3, 0, 16)); len(verdict.Bad) > 0 {
		t.Error("the caller's slice was kept")
	}
}

func TestRunIsSplitAroundBadAndDuplicateBlocks(t *testing.T) {
	v := New(small.m)
	if err := v.Proof(3, "a", small.proof(3)); err != nil {
		t.Fatal(err)
	}
	accept(v, 3, v.Check(3, 5, "a", small.data(3, 5, 1)), "a", 1)
	data := small.data(3, 0, 8)
	data[2*share.BlockSize+17] ^= 4
	verdict := v.Check(3, 0, "b", data)
	var got []string
	for _, r := range verdict.Write {
		got = append(got, fmt.Sprint(r.First, "+", r.Blocks()))
		if !bytes.Equal(r.Data, small.data(3, r.First, r.Blocks())) {
			t.Errorf("run at %d has other bytes", r.First)
		}
	}
	if fmt.Sprint(got, verdict.Bad, verdict.Duplicate) != "[0+2 3+2 6+2] [2] 65536" {
		t.Errorf("wrote %v, bad %v, %d duplicate", got, verdict.Bad, verdict.Duplicate)
	}
}

// Invariant 26 says that all blocks of a bad piece are missing again. DESIGN
// overrides it: a block is proven by itself, so a bad one costs only itself, and
// only its sender is blamed.
func TestInvariant26BadBlockCostsItselfAndBlamesItsSender(t *testing.T) {
	v := New(small.m)
	if err := v.Proof(3, "honest", small.proof(3)); err != nil {
		t.Fatal(err)
	}
	accept(v, 3, v.Check(3, 0, "honest", small.data(3, 0, 10)), "honest", 1)
	bad := small.data(3, 10, 1)
	bad[0]++
	if verdict := v.Check(3, 10, "liar", bad); !slices.Equal(verdict.Bad, []share.Block{10}) || len(verdict.Write) > 0 {
		t.Fatalf("%+v", verdict)
	}
	have, _ := v.State(3)
	for b, h := range have {
		if h != (b < 10) {
			t.Errorf("block %d: had %v", b, h)
		}
	}
	done := accept(v, 3, v.Check(3, 10, "honest", small.data(3, 10, 6)), "honest", 1)
	if done == nil || len(done.Credits) != 1 || done.Credits[0].Source != "honest" {
		t.Errorf("%+v", done)
	}
}

func TestRightBlockInTheWrongPlaceIsBad(t *testing.T) {
	v := New(small.m)
	if err := v.Proof(3, "a", small.proof(3)); err != nil {
		t.Fatal(err)
	}
	if verdict := v.Check(3, 4, "liar", small.data(3, 7, 1)); !slices.Equal(verdict.Bad, []share.Block{4}) {
		t.Errorf("%+v", verdict)
	}
}

func TestInvariant29BlockOfAnotherLengthIsNeverWritten(t *testing.T) {
	v := New(small.m)
	last := share.Piece(small.m.Layout().Pieces() - 1)
	for p := share.Piece(0); p <= last; p++ {
		if n := small.m.Layout().Blocks(p); n > 1 {
			if err := v.Proof(p, "a", small.proof(p)); err != nil {
				t.Fatal(err)
			}
		}
	}
	tail := small.m.Layout().Blocks(last) - 1
	for _, c := range []struct {
		p     share.Piece
		first int
		n     int
	}{
		{3, 0, 0}, {3, 0, 1}, {3, 0, share.BlockSize - 1}, {3, 0, share.BlockSize + 1}, {3, 15, 2 * share.BlockSize}, {3, 16, share.BlockSize}, {3, 65535, share.BlockSize},
		{0, 0, 2}, {0, 1, 1}, {last, tail, share.BlockSize}, {last, tail, 1}, {last + 1, 0, 1}, {1 << 31, 0, share.BlockSize}, {3, 0, 17 * share.BlockSize},
	} {
		verdict := v.Check(c.p, share.Block(c.first), "a", make([]byte, c.n))
		if !errors.Is(verdict.Err, ErrRun) || len(verdict.Write)+len(verdict.Bad) > 0 {
			t.Errorf("%+v: %+v", c, verdict)
		}
	}
}

func TestInvariant23PieceIsCompleteOnce(t *testing.T) {
	v := New(small.m)
	if err := v.Proof(3, "a", small.proof(3)); err != nil {
		t.Fatal(err)
	}
	done := 0
	for range 3 {
		if accept(v, 3, v.Check(3, 0, "a", small.data(3, 0, 16)), "a", 1) != nil {
			done++
		}
		if v.Wrote(3, 0, 16, "a", 1) != nil {
			done++
		}
		v.Proof(3, "a", small.proof(3))
	}
	if done != 1 || len(v.pieces) != 0 {
		t.Errorf("complete %d times, %d states left", done, len(v.pieces))
	}
	verdict := v.Check(3, 2, "late", small.data(3, 2, 3))
	if verdict.Duplicate != 3*share.BlockSize || verdict.Err != nil || len(verdict.Write)+len(verdict.Bad) > 0 {
		t.Errorf("late blocks: %+v", verdict)
	}
	if have, proven := v.State(3); !proven || slices.Contains(have, false) || len(have) != 16 {
		t.Errorf("state %v, %v", have, proven)
	}
}

func TestInvariant24VerdictDoesNotDependOnOrderOrDuplication(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := share.Piece(rapid.IntRange(0, small.m.Layout().Pieces()-1).Draw(t, "piece"))
		n := small.m.Layout().Blocks(p)
		order := rapid.Permutation(seq(n)).Draw(t, "order")
		again := rapid.SliceOfN(rapid.IntRange(0, n-1), 0, 10).Draw(t, "again")
		at := rapid.SliceOfN(rapid.IntRange(0, n), len(again), len(again)).Draw(t, "at")
		for i, b := range again {
			order = slices.Insert(order, min(at[i], len(order)), b)
		}
		v := New(small.m)
		if n > 1 {
			if err := v.Proof(p, "a", small.proof(p)); err != nil {
				t.Fatal(err)
			}
		}
		seen := map[int]bool{}
		for i, b := range order {
			verdict := v.Check(p, share.Block(b), "a", small.data(p, share.Block(b), 1))
			if len(verdict.Bad) > 0 || (len(verdict.Write) == 0) != seen[b] {
				t.Fatalf("block %d, seen %v: %+v", b, seen[b], verdict)
			}
			done := accept(v, p, verdict, "a", 1)
			complete := !seen[b] && len(seen) == n-1
			if seen[b] = true; (done != nil) != complete {
				t.Fatalf("complete %v after %v", done != nil, order[:i+1])
			}
		}
	})
}

func seq(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

func TestInvariant25CompleteMeansExactlyAllBlocks(t *testing.T) {
	var sizes []int
	for n := 1; n <= 16; n++ {
		sizes = append(sizes, n*share.BlockSize, n*share.BlockSize-1, (n-1)*share.BlockSize+1)
	}
	c := contentOf(sizes...)
	for p := range share.Piece(len(sizes)) {
		n := c.m.Layout().Blocks(p)
		for hole := range n { // all but one, and then the last
			v := New(c.m)
			if n > 1 {
				if err := v.Proof(p, "a", c.proof(p)); err != nil {
					t.Fatal(err)
				}
			}
			for b := range n {
				if b != hole && accept(v, p, v.Check(p, share.Block(b), "a", c.data(p, share.Block(b), 1)), "a", 1) != nil {
					t.Fatalf("%d blocks: complete without block %d", n, hole)
				}
			}
			if accept(v, p, v.Check(p, share.Block(hole), "a", c.data(p, share.Block(hole), 1)), "a", 1) == nil {
				t.Fatalf("%d blocks: not complete with block %d", n, hole)
			}
			if n > 6 && hole == 1 {
				break // the last ones are the tail's; the first two have shown the rest
			}
		}
	}
}

func TestPieceOf256BlocksIsCompleteWithItsLast(t *testing.T) {
	// Only a file over 128 GiB has pieces of more than 16 blocks, so the state is made by hand.
	v := New(small.m)
	s := v.begin(3, make([]share.Hash, 16))
	for b := range 64 * len(s.passed) {
		s.passed.Add(share.Block(b), 1)
		if !s.passed.Has(share.Block(b)) {
			t.Fatal(b)
		}
	}
	for b := range 64 * len(s.passed) {
		s.passed.Remove(share.Block(b), 1)
		if s.passed.Has(share.Block(b)) {
			t.Fatal(b)
		}
	}
	if !s.passed.Empty() {
		t.Error("something is left")
	}
}

// Invariant 27: the have-map may include a piece once it is complete, which is not
// before its last byte is written. (Its bits become durable later: see the store.)
func TestInvariant27NothingIsHadThatIsNotWritten(t *testing.T) {
	v := New(small.m)
	if err := v.Proof(3, "a", small.proof(3)); err != nil {
		t.Fatal(err)
	}
	verdict := v.Check(3, 0, "a", small.data(3, 0, 16))
	if have, _ := v.State(3); have != nil {
		t.Errorf("had before it is written: %v", have)
	}
	// The disk accepted four blocks and was then full.
	if v.Wrote(3, verdict.Write[0].First, 4, "a", 1) != nil {
		t.Fatal("complete")
	}
	have, _ := v.State(3)
	if !slices.Equal(have[:5], []bool{true, true, true, true, false}) {
		t.Errorf("had: %v", have)
	}
	verdict = v.Check(3, 0, "b", small.data(3, 0, 16))
	if verdict.Duplicate != 4*share.BlockSize || len(verdict.Write) != 1 || verdict.Write[0].First != 4 {
		t.Fatalf("%+v", verdict)
	}
	done := accept(v, 3, verdict, "b", 2)
	if done == nil || fmt.Sprint(done.Credits) != "[{a 1 262144} {b 2 786432}]" {
		t.Errorf("%+v", done)
	}
}

func TestWroteWithoutCheckMarksNothing(t *testing.T) {
	v := New(small.m)
	if err := v.Proof(3, "a", small.proof(3)); err != nil {
		t.Fatal(err)
	}
	if v.Wrote(3, 0, 16, "a", 1) != nil || v.Wrote(3, 0, 17, "a", 1) != nil || v.Wrote(99, 0, 1, "a", 1) != nil || v.Wrote(5, 0, 1, "a", 1) != nil {
		t.Fatal("complete without a check")
	}
	if have, _ := v.State(3); have != nil {
		t.Errorf("had: %v", have)
	}
	// A block that was admitted, and arrives again with wrong bytes before it is written, is no longer admitted.
	v.Check(3, 0, "a", small.data(3, 0, 1))
	v.Check(3, 0, "b", make([]byte, share.BlockSize))
	v.Wrote(3, 0, 1, "b", 1)
	if have, _ := v.State(3); have != nil {
		t.Errorf("had: %v", have)
	}
	done := accept(v, 3, v.Check(3, 0, "c", small.data(3, 0, 16)), "c", 2)
	if done == nil || len(done.Credits) != 1 || done.Credits[0].Source != "c" {
		t.Errorf("credits for nothing: %+v", done)
	}
}

func TestCreditsStandInOrderOfFirstContribution(t *testing.T) {
	v := New(small.m)
	if err := v.Proof(3, "a", small.proof(3)); err != nil {
		t.Fatal(err)
	}
	give := func(first, n int, source peers.ID, token share.Token) *Completion {
		return accept(v, 3, v.Check(3, share.Block(first), source, small.data(3, share.Block(first), n)), source, token)
	}
	give(8, 1, "b", 2)
	give(0, 2, "a", 1)
	give(9, 1, "b", 2)
	give(2, 1, "a", 5) // the same peer under another lease
	give(9, 1, "c", 9) // a duplicate earns nothing
	done := give(0, 16, "d", 4)
	want := fmt.Sprint([]Credit{{"b", 2, 2 << 16}, {"a", 1, 2 << 16}, {"a", 5, 1 << 16}, {"d", 4, 11 << 16}})
	if done == nil || fmt.Sprint(done.Credits) != want {
		t.Errorf("%+v, want %s", done, want)
	}
}

func TestForgetMakesAPieceMissingAgain(t *testing.T) {
	v := New(small.m)
	v.Forget(3)
	if err := v.Proof(3, "a", small.proof(3)); err != nil {
		t.Fatal(err)
	}
	accept(v, 3, v.Check(3, 0, "a", small.data(3, 0, 10)), "a", 1)
	v.Forget(3)
	if have, proven := v.State(3); have != nil || proven || len(v.pieces) != 0 {
		t.Errorf("state %v, %v", have, proven)
	}
	if verdict := v.Check(3, 10, "a", small.data(3, 10, 6)); !errors.Is(verdict.Err, ErrNoProof) {
		t.Errorf("%+v", verdict)
	}
	v.Proof(3, "a", small.proof(3))
	done := accept(v, 3, v.Check(3, 0, "b", small.data(3, 0, 16)), "b", 2)
	if done == nil || len(done.Credits) != 1 {
		t.Errorf("%+v", done)
	}
	v.Forget(3)
	if !v.Complete(3) {
		t.Error("a complete piece was forgotten")
	}
}

func TestStateOfNoPiece(t *testing.T) {
	empty, err := share.NewManifest("empty", []share.Entry{{Path: "empty", Root: share.EmptyRoot, PieceExp: share.PieceExp(0)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*share.Manifest{small.m, empty} {
		for _, p := range []share.Piece{share.Piece(m.Layout().Pieces()), 1 << 30} {
			if have, proven := New(m).State(p); have != nil || proven {
				t.Error(have, proven)
			}
		}
	}
}

func TestOldestPiecesAreForgottenWhenThereAreTooMany(t *testing.T) {
	sizes := make([]int, 10)
	for i := range sizes {
		sizes[i] = 256 << 10 // four blocks each
	}
	c := contentOf(sizes...)
	v := Config{MaxBlocks: 16}.New(c.m)
	for p := range share.Piece(4) {
		v.Proof(p, "a", c.proof(p))
	}
	accept(v, 0, v.Check(0, 0, "a", c.data(0, 0, 1)), "a", 1) // touched
	for p := share.Piece(4); p < 7; p++ {
		v.Proof(p, "a", c.proof(p))
		if len(v.pieces) > 4 {
			t.Fatalf("%d pieces in progress", len(v.pieces))
		}
	}
	if have, _ := v.State(0); have == nil {
		t.Error("the piece touched last was forgotten")
	}
	for p := share.Piece(1); p < 4; p++ {
		if _, proven := v.State(p); proven {
			t.Errorf("piece %d is remembered", p)
		}
	}
	if v := (Config{MaxBlocks: 1}).New(c.m); v.Proof(0, "a", c.proof(0)) != nil || len(v.pieces) != 1 {
		t.Error("one piece must always fit")
	}
}

// Invariant 28, the verifier's part: whatever liars, failing disks and forgotten
// states do, the pieces in a completion are on the disk as the manifest says, every
// byte is credited once to its sender, and only liars are blamed.
func TestInvariant28CompletePiecesAreTrueOnDisk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := Config{MaxBlocks: rapid.IntRange(1, 60).Draw(t, "max")}.New(small.m)
		l := small.m.Layout()
		disk := make([][]byte, len(small.files))
		for i := range disk {
			disk[i] = make([]byte, len(small.files[i]))
		}
		complete := map[share.Piece]bool{}
		source := func() peers.ID { return rapid.SampledFrom([]peers.ID{"a", "b", "c"}).Draw(t, "source") }
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			p := share.Piece(rapid.IntRange(0, l.Pieces()-1).Draw(t, "piece"))
			n := l.Blocks(p)
			switch rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				v.Forget(p)
			case 1:
				if values := small.proof(p); n > 1 {
					values[rapid.IntRange(0, n-1).Draw(t, "value")][3] ^= 1
					if err := v.Proof(p, source(), values); !errors.Is(err, share.ErrProof) {
						t.Fatalf("a wrong proof: %v", err)
					}
				}
			case 2:
				if err := v.Proof(p, source(), small.proof(p)); err != nil {
					t.Fatalf("a right proof: %v", err)
				}
			default:
				first := rapid.IntRange(0, n-1).Draw(t, "first")
				count := rapid.IntRange(1, n-first).Draw(t, "count")
				data := small.data(p, share.Block(first), count)
				liar := rapid.IntRange(0, 3).Draw(t, "lies") == 0
				if liar {
					data[rapid.IntRange(0, len(data)-1).Draw(t, "byte")] ^= 1
				}
				from, token := source(), share.Token(rapid.IntRange(1, 3).Draw(t, "token"))
				before, _ := v.State(p)
				verdict := v.Check(p, share.Block(first), from, data)
				if len(verdict.Bad) > 0 && !liar {
					t.Fatalf("an honest source is blamed for %v", verdict.Bad)
				}
				good := 0
				for _, run := range verdict.Write {
					if rapid.IntRange(0, 5).Draw(t, "disk") == 0 {
						break // full
					}
					for b := run.First; int(b) < int(run.First)+run.Blocks(); b++ {
						if before != nil && before[b] {
							t.Fatalf("block %d is written again", b)
						}
					}
					s := l.RunSpan(p, run.First, run.Blocks())
					good += copy(disk[s.Entry][s.Offset:], run.Data)
					done := v.Wrote(p, run.First, run.Blocks(), from, token)
					if done == nil {
						continue
					}
					if complete[p] {
						t.Fatalf("piece %d is complete again", p)
					}
					complete[p] = true
					sum := 0
					for _, c := range done.Credits {
						sum += c.Bytes
					}
					if sum != l.PieceLen(p) {
						t.Fatalf("credits of %d bytes for %d", sum, l.PieceLen(p))
					}
					if small.m.CheckProof(p, done.Values) != nil {
						t.Fatal("the proof of the completion is wrong")
					}
				}
				if verdict.Err == nil && !liar && good+verdict.Duplicate > len(data) {
					t.Fatalf("%d written and %d duplicate of %d", good, verdict.Duplicate, len(data))
				}
			}
			for p := range complete {
				s := l.PieceSpan(p)
				if !bytes.Equal(disk[s.Entry][s.Offset:s.Offset+int64(s.Len)], small.data(p, 0, l.Blocks(p))) {
					t.Fatalf("piece %d is wrong on disk", p)
				}
			}
			blocks := 0
			for _, s := range v.pieces {
				blocks += len(s.values)
			}
			if blocks != v.blocks || v.blocks > max(v.cfg.MaxBlocks, 16) {
				t.Fatalf("%d blocks in progress, counted %d", blocks, v.blocks)
			}
		}
	})
}

func TestRunIsCheckedWithoutAllocating(t *testing.T) {
	c := contentOf(1<<20, 64<<10)
	v := New(c.m)
	run, single := c.data(0, 4, 4), c.data(1, 0, 1)
	proof := c.proof(0)
	if err := v.Proof(0, "a", proof); err != nil {
		t.Fatal(err)
	}
	v.Check(0, 4, "a", run)
	v.Check(1, 0, "a", single)
	if n := testing.AllocsPerRun(20, func() {
		if verdict := v.Check(0, 4, "a", run); len(verdict.Write) != 1 {
			t.Fatal(verdict)
		}
		if verdict := v.Check(1, 0, "a", single); len(verdict.Write) != 1 {
			t.Fatal(verdict)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	v.Wrote(0, 4, 4, "a", 1)
	if n := testing.AllocsPerRun(20, func() {
		v.Check(0, 4, "a", run)
		v.Wrote(0, 4, 4, "a", 1)
	}); n > 0 {
		t.Errorf("%v allocations for duplicates", n)
	}
}

func BenchmarkCheckRun(b *testing.B) {
	c := contentOf(1 << 20)
	v := New(c.m)
	if err := v.Proof(0, "a", c.proof(0)); err != nil {
		b.Fatal(err)
	}
	run := c.data(0, 0, 4)
	b.SetBytes(int64(len(run)))
	b.ReportAllocs()
	for b.Loop() {
		if verdict := v.Check(0, 0, "a", run); len(verdict.Write) != 1 {
			b.Fatal(verdict)
		}
	}
}

// A whole piece of 1 MiB: proof, four runs, completion.
func BenchmarkPiece(b *testing.B) {
	c := contentOf(1 << 20)
	v := New(c.m)
	proof, data := c.proof(0), c.data(0, 0, 16)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if err := v.Proof(0, "a", proof); err != nil {
			b.Fatal(err)
		}
		for at := 0; at < 16; at += 4 {
			v.Check(0, share.Block(at), "a", data[at<<16:(at+4)<<16])
			v.Wrote(0, share.Block(at), 4, "a", 1)
		}
		if !v.Complete(0) {
			b.Fatal("not complete")
		}
		v.done.Remove(0)
	}
}

// A file of 10 KiB: the state is taken from the free list.
func BenchmarkSmallPiece(b *testing.B) {
	c := contentOf(10 << 10)
	v := New(c.m)
	data := c.data(0, 0, 1)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		v.Check(0, 0, "a", data)
		if v.Wrote(0, 0, 1, "a", 1) == nil {
			b.Fatal("not complete")
		}
		v.done.Remove(0)
	}
}
