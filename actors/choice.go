package actors

import (
	"errors"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/share"
)

// What is to be fetched of a share, and in what order. The transfer knows the
// priority of each entry; the LeaseManager that of each piece.

// ErrFinishing is why a choice came too late to be changed.
var ErrFinishing = errors.New("the transfer is finishing, or has ended")

// ErrOpening is why a choice came too early to be changed.
var ErrOpening = errors.New("the transfer has no list of files yet")

// choice is the priority of each entry of a share; nil: Normal for all.
type choice []leasemgr.Priority

func (c choice) of(entry int) leasemgr.Priority {
	if c == nil {
		return leasemgr.Normal
	}
	return c[entry]
}

func (c choice) wants(entry int) bool { return c.of(entry) != leasemgr.Skip }

// wanted says of each entry whether it is to be fetched; nil: all are.
func (c choice) wanted() []bool {
	if !slices.Contains(c, leasemgr.Skip) {
		return nil
	}
	out := make([]bool, len(c))
	for i, p := range c {
		out[i] = p != leasemgr.Skip
	}
	return out
}

// pieces is the set of pieces to be fetched; nil: all.
func (c choice) pieces(l *share.Layout) *share.Set {
	if !slices.Contains(c, leasemgr.Skip) {
		return nil
	}
	set := share.NewSet(l.Pieces())
	for i := range c {
		if first, n := l.PiecesOf(i); c.wants(i) {
			for p := first; p < first+share.Piece(n); p++ {
				set.Add(p)
			}
		}
	}
	return set
}

// runs are the pieces of some entries with their priorities, neighbours together.
func (c choice) runs(l *share.Layout, which func(entry int) bool) (out []leasemgr.Run) {
	for i := range c {
		first, n := l.PiecesOf(i)
		if n == 0 || !which(i) {
			continue
		}
		if k := len(out) - 1; k >= 0 && out[k].Priority == c[i] && out[k].First+share.Piece(out[k].N) == first {
			out[k].N += n
			continue
		}
		out = append(out, leasemgr.Run{First: first, N: n, Priority: c[i]})
	}
	return out
}

// begun is what is here of a piece that is not complete.
type begun struct {
	blocks blockSet
	bytes  int
}

// blockSet is a set of blocks of one piece.
type blockSet [share.MaxPiece / share.BlockSize / 64]uint64

func (s *blockSet) has(b share.Block) bool { return s[b/64]>>(b%64)&1 != 0 }

func (s *blockSet) add(first share.Block, n int) {
	for b := first; b < first+share.Block(n); b++ {
		s[b/64] |= 1 << (b % 64)
	}
}

func (s *blockSet) union(o blockSet) {
	for i := range s {
		s[i] |= o[i]
	}
}

// recount makes the counters right that depend on the choice. In between they are
// kept up to date with each block and piece.
func (t *transfer) recount() {
	l := t.manifest.Layout()
	c := &t.count
	c.Bytes, c.Pieces, c.Done, c.Verified = l.Bytes(), l.Pieces(), 0, 0
	c.Files, c.Dirs, c.Links = t.manifest.Count()
	for i := range t.chosen {
		if t.chosen.wants(i) {
			continue
		}
		e := &t.manifest.Entries[i]
		_, n := l.PiecesOf(i)
		c.Bytes -= e.Size
		c.Pieces -= n
		switch e.Kind {
		case share.File:
			c.Files--
		case share.Dir:
			c.Dirs--
		case share.Symlink:
			c.Links--
		}
	}
	for p := range t.have.All() {
		if t.wants(p) {
			c.Done++
			c.Verified += int64(l.PieceLen(p))
		}
	}
	for p, b := range t.begun {
		if t.wants(p) {
			c.Verified += int64(b.bytes)
		}
	}
	t.changed = true
}

// wants says whether a piece is to be fetched.
func (t *transfer) wants(p share.Piece) bool {
	return t.chosen == nil || t.chosen.wants(t.manifest.Layout().PieceSpan(p).Entry)
}

// allHere says whether everything that was chosen is verified.
func (t *transfer) allHere() bool { return t.count.Done == t.count.Pieces }

// setPriority changes the choice while the transfer runs.
func (t *transfer) setPriority(ctx actor.Context, m SetPriority) {
	if err := t.choose(ctx, m); err != nil {
		ctx.Respond(PrioritySet{err})
		return
	}
	ctx.Respond(PrioritySet{})
}

func (t *transfer) choose(ctx actor.Context, m SetPriority) error {
	switch {
	case t.ending != nil || t.state >= Finishing:
		return ErrFinishing
	case t.target == nil:
		return ErrOpening
	}
	if t.chosen == nil {
		t.chosen = make(choice, len(t.manifest.Entries))
	}
	now := make(map[int]bool, len(m.Entries))
	for _, i := range m.Entries {
		now[i] = true
		t.chosen[i] = m.Priority
	}
	t.target.Select(t.chosen.wanted())
	t.recount()
	t.moved = t.s.Now() // what is new has not kept anybody waiting yet
	t.dropSkipped(ctx)
	t.toLeases(ctx, SetPriorities{t.chosen.runs(t.manifest.Layout(), func(entry int) bool { return now[entry] })})
	return nil
}

// planDone is told by the LeaseManager that nothing it knows of is left to fetch.
func (t *transfer) planDone(ctx actor.Context) {
	if t.allHere() && t.ending == nil && t.state < Finishing {
		t.finish(ctx)
	}
}
