package verifier

import (
	"errors"
	"fmt"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Why a run was not checked. Neither is a lie of its source.
var (
	ErrNoProof = errors.New("no proof of the piece")             // it was never sent, or was forgotten: ask for it again
	ErrRun     = errors.New("these blocks do not fit the piece") // wrong length, or outside the share
)

// Config bounds a Verifier. The zero value is the default.
type Config struct {
	// MaxBlocks bounds the blocks, missing ones included, of all pieces in
	// progress. Default 131,072: 8,192 pieces of 1 MiB, 4 MiB of hashes. One
	// piece may always be in progress.
	MaxBlocks int
}

func (c Config) withDefaults() Config {
	if c.MaxBlocks <= 0 {
		c.MaxBlocks = 128 << 10
	}
	return c
}

// Verifier knows the pieces in progress of one share, or of a part of its pieces.
type Verifier struct {
	cfg    Config
	m      *share.Manifest
	l      *share.Layout
	pieces map[share.Piece]*piece
	ends   piece // of the list of pieces in progress: next is the one touched last, prev the one to forget first
	blocks int   // of all pieces in progress
	done   *share.Set
	free   *piece // states to reuse, linked by next
	runs   []Run  // Verdict.Write of the last Check
	bad    []share.Block
	room   [share.HashWidth]byte // what is shorter than that is hashed here
}

// piece is a piece in progress. passed and had are disjoint.
type piece struct {
	prev, next *piece
	id         share.Piece
	values     []share.Hash // the proof
	passed     share.Blocks // checked and not yet reported as written
	had        share.Blocks
	left       int // blocks not had
	credits    []Credit
}

// Credit is what one source contributed to a piece under one lease.
type Credit struct {
	Source peers.ID
	Token  share.Token
	Bytes  int
}

// Completion is a piece that is whole and written. The receiver owns it.
type Completion struct {
	Piece   share.Piece
	Values  []share.Hash // of its blocks, in order: the proof we can give to others
	Credits []Credit     // by first contribution; their bytes add up to the piece
}

// Run is a run of good blocks that lie side by side.
type Run struct {
	First share.Block
	Data  []byte // a part of what Check was given
}

// Blocks is the number of blocks of the run.
func (r Run) Blocks() int { return (len(r.Data) + share.BlockSize - 1) / share.BlockSize }

// Verdict is what Check found in a run. Its slices are good until the next Check.
type Verdict struct {
	Write     []Run         // good and new: to be written, then passed to Wrote
	Duplicate int           // bytes of blocks that were had already; not checked
	Bad       []share.Block // lies of the source
	Err       error         // ErrNoProof or ErrRun: nothing was checked, nobody is blamed
}

// New returns a Verifier of m with the default Config.
func New(m *share.Manifest) *Verifier { return Config{}.New(m) }

// New returns a Verifier of m, with nothing in progress and nothing complete.
func (c Config) New(m *share.Manifest) *Verifier {
	v := &Verifier{
		cfg:    c.withDefaults(),
		m:      m,
		l:      m.Layout(),
		pieces: map[share.Piece]*piece{},
		done:   share.NewSet(m.Layout().Pieces()),
	}
	v.ends.prev, v.ends.next = &v.ends, &v.ends
	return v
}

// State returns which blocks of p are written, one bool per block, and whether its proof
// is known. have is nil when nothing is written; the caller owns it. It does not
// count as touching the piece.
func (v *Verifier) State(p share.Piece) (have []bool, proven bool) {
	if !v.l.Valid(p) {
		return nil, false
	}
	n := v.l.Blocks(p)
	if v.done.Has(p) {
		have = make([]bool, n)
		for b := range have {
			have[b] = true
		}
		return have, true
	}
	s := v.pieces[p]
	if s == nil {
		return nil, n == 1
	}
	if s.left == n {
		return nil, true
	}
	have = make([]bool, n)
	for b := range have {
		have[b] = s.had.Has(share.Block(b))
	}
	return have, true
}

// Complete reports whether p is complete.
func (v *Verifier) Complete(p share.Piece) bool { return v.done.Has(p) }

// Proof takes the values of the blocks of p as source sent them. A bad proof is an
// error that wraps share.ErrProof and names p and source; it changes nothing.
// A proof for a piece that is proven or complete is checked as well and then dropped:
// a lie is a lie. The caller keeps values.
func (v *Verifier) Proof(p share.Piece, source peers.ID, values []share.Hash) error {
	if !v.l.Valid(p) {
		return fmt.Errorf("proof of piece %d from %s: the share has no such piece", p, source.Short())
	}
	if err := v.m.CheckProof(p, values); err != nil {
		return fmt.Errorf("proof from %s: %w", source.Short(), err)
	}
	if v.done.Has(p) {
		return nil
	}
	if s := v.pieces[p]; s != nil {
		v.touch(s)
		return nil
	}
	v.begin(p, values)
	return nil
}

// Check judges data, the blocks of p from first on as source sent them: whole
// blocks, the piece's last one may be short. It marks nothing as had; see Wrote.
//
// A block that is had is not hashed, only counted. So a run costs one hash for each
// new block, and allocates nothing.
func (v *Verifier) Check(p share.Piece, first share.Block, source peers.ID, data []byte) Verdict {
	n := (len(data) + share.BlockSize - 1) / share.BlockSize
	if n == 0 || !v.l.ValidRun(p, first, n) || v.l.RunSpan(p, first, n).Len != len(data) {
		return Verdict{Err: fmt.Errorf("%d bytes at block %d of piece %d from %s: %w", len(data), first, p, source.Short(), ErrRun)}
	}
	if v.done.Has(p) {
		return Verdict{Duplicate: len(data)}
	}
	s := v.pieces[p]
	if s == nil && v.l.Blocks(p) == 1 {
		value := [1]share.Hash{v.m.PieceValue(p)}
		s = v.begin(p, value[:])
	}
	if s == nil {
		return Verdict{Err: fmt.Errorf("block %d of piece %d from %s: %w", first, p, source.Short(), ErrNoProof)}
	}
	v.touch(s)

	v.runs, v.bad = v.runs[:0], v.bad[:0]
	var out Verdict
	start := -1 // offset in data of the run of good blocks that is being gathered
	for at := 0; at < len(data); at += share.BlockSize {
		b := first + share.Block(at/share.BlockSize)
		block := data[at:min(at+share.BlockSize, len(data))]
		good := false
		switch {
		case s.had.Has(b):
			out.Duplicate += len(block)
		case v.m.BlockValue(p, b, v.roomy(block)) == s.values[b]:
			s.passed.Add(b, 1)
			good = true
		default:
			s.passed.Remove(b, 1)
			v.bad = append(v.bad, b)
		}
		if good && start < 0 {
			start = at
		}
		if !good && start >= 0 {
			v.gather(first, data, start, at)
			start = -1
		}
	}
	if start >= 0 {
		v.gather(first, data, start, len(data))
	}
	out.Write, out.Bad = v.runs, v.bad
	return out
}

// roomy returns data with room for as much as is hashed at once.
func (v *Verifier) roomy(data []byte) []byte {
	if cap(data) >= share.HashWidth {
		return data
	}
	return append(v.room[:0], data...)
}

// gather adds data[from:to], whole blocks of a run that begins at first, to what may be written.
func (v *Verifier) gather(first share.Block, data []byte, from, to int) {
	v.runs = append(v.runs, Run{first + share.Block(from/share.BlockSize), data[from:to:to]})
}

// Wrote says that the n blocks of p from first on, which Check let through, are
// written, and that source sent them under token. What Check did not let through,
// or what is had already, is left out: a block is credited once, to the source it was
// first written for. With the last block the piece is complete: done is not nil,
// once in a piece's life.
func (v *Verifier) Wrote(p share.Piece, first share.Block, n int, source peers.ID, token share.Token) (done *Completion) {
	s := v.pieces[p]
	if s == nil || !v.l.ValidRun(p, first, n) {
		return nil
	}
	bytes := 0
	for b := first; b < first+share.Block(n); b++ {
		if s.passed.Has(b) {
			s.passed.Remove(b, 1)
			s.had.Add(b, 1)
			s.left--
			bytes += v.l.BlockLen(p, b)
		}
	}
	if bytes == 0 {
		return nil
	}
	s.credit(source, token, bytes)
	if s.left > 0 {
		v.touch(s)
		return nil
	}
	done = &Completion{Piece: p, Values: s.values, Credits: s.credits}
	s.values, s.credits = nil, nil // the receiver's now
	v.done.Add(p)
	v.drop(s)
	return done
}

func (s *piece) credit(source peers.ID, token share.Token, bytes int) {
	for i := range s.credits {
		if c := &s.credits[i]; c.Source == source && c.Token == token {
			c.Bytes += bytes
			return
		}
	}
	s.credits = append(s.credits, Credit{source, token, bytes})
}

// Forget drops what is in progress of p, its proof included: all its blocks are
// missing again. A complete piece stays complete.
func (v *Verifier) Forget(p share.Piece) {
	if s := v.pieces[p]; s != nil {
		v.drop(s)
	}
}

// begin makes the state of a piece whose proof is good.
func (v *Verifier) begin(p share.Piece, values []share.Hash) *piece {
	for v.blocks > 0 && v.blocks+len(values) > v.cfg.MaxBlocks {
		v.drop(v.ends.prev)
	}
	s := v.free
	if s == nil {
		s = &piece{}
	} else {
		v.free = s.next
	}
	s.id, s.left = p, len(values)
	s.values = append(s.values, values...)
	v.pieces[p] = s
	v.blocks += len(values)
	v.insert(s)
	return s
}

// drop ends the state of a piece and keeps its memory for the next.
func (v *Verifier) drop(s *piece) {
	v.remove(s)
	delete(v.pieces, s.id)
	v.blocks -= v.l.Blocks(s.id)
	*s = piece{values: s.values[:0], credits: s.credits[:0], next: v.free}
	v.free = s
}

func (v *Verifier) touch(s *piece) {
	if v.ends.next != s {
		v.remove(s)
		v.insert(s)
	}
}

func (v *Verifier) insert(s *piece) {
	s.prev, s.next = &v.ends, v.ends.next
	s.prev.next, s.next.prev = s, s
}

func (v *Verifier) remove(s *piece) {
	s.prev.next, s.next.prev = s.next, s.prev
}
