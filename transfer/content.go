package transfer

import (
	"github.com/piecelease/fetcher/share"
)

// content is what is wanted of a share, and what of it is here.
type content struct {
	*core
	manifest *share.Manifest // nil: not here yet
	chosen   Choice
	have     *share.Set // complete pieces
	begun    map[share.Piece]*begun
	count    Progress // its counters; the rest is filled in by Progress
	rate     meter
	newest   share.Piece // the piece whose block was verified last; none if rate has none
}

// begun is what is here of a piece that is not complete.
type begun struct {
	blocks share.Blocks
	bytes  int
}

// wants says whether a piece is to be fetched.
func (c *content) wants(p share.Piece) bool {
	return c.chosen == nil || c.chosen.wants(c.manifest.Layout().PieceSpan(p).Entry)
}

// allHere says whether everything that was chosen is verified.
func (c *content) allHere() bool { return c.count.Done == c.count.Pieces }

// recount recomputes the counters that depend on the choice. Otherwise they are
// updated with each block and piece.
func (c *content) recount() {
	l := c.manifest.Layout()
	n := &c.count
	n.Bytes, n.Pieces, n.Done, n.Verified = l.Bytes(), l.Pieces(), 0, 0
	n.Files, n.Dirs, n.Links = c.manifest.Count()
	for i := range c.chosen {
		if c.chosen.wants(i) {
			continue
		}
		e := c.manifest.Entry(i)
		_, pieces := l.PiecesOf(i)
		n.Bytes -= e.Size
		n.Pieces -= pieces
		switch e.Kind {
		case share.File:
			n.Files--
		case share.Dir:
			n.Dirs--
		case share.Symlink:
			n.Links--
		}
	}
	for p := range c.have.All() {
		if c.wants(p) {
			n.Done++
			n.Verified += int64(l.PieceLen(p))
		}
	}
	for p, b := range c.begun {
		if c.wants(p) {
			n.Verified += int64(b.bytes)
		}
	}
	c.changed = true
}

// blocksVerified records which blocks of a piece are here, until the piece is complete.
func (c *content) blocksVerified(m BlocksVerified) {
	c.rate.add(m.Bytes, c.now)
	c.newest, c.changed = m.Piece, true
	if c.have.Has(m.Piece) {
		return
	}
	if c.wants(m.Piece) {
		c.count.Verified += int64(m.Bytes)
	}
	b := c.begun[m.Piece]
	if b == nil {
		b = &begun{}
		c.begun[m.Piece] = b
	}
	b.blocks.Union(m.Blocks)
	b.bytes += m.Bytes
}

func (c *content) pieceDone(p share.Piece) {
	delete(c.begun, p)
	if c.have.Add(p) && c.wants(p) {
		c.count.Done++
	}
}

// maxReady bounds the bytes scanned for one answer to a reader.
const maxReady = 64 << 20

// verifiedTo is the end of the verified bytes of a file from off on, as far as one
// answer scans; off itself if there are none.
func (c *content) verifiedTo(entry int, off int64) int64 {
	if c.again || !c.placed {
		return off // some of it may be lost; Opened will tell
	}
	l, at := c.manifest.Layout(), off
	for at < min(off+maxReady, c.manifest.Entry(entry).Size) {
		p, block := l.At(entry, at)
		s := l.RunSpan(p, block, 1)
		if c.have.Has(p) {
			s = l.PieceSpan(p)
		} else if b := c.begun[p]; b == nil || !b.blocks.Has(block) {
			break
		}
		at = s.Offset + int64(s.Len)
	}
	return at
}

// lastFile is the path of the file that the last block belongs to.
func (c *content) lastFile() string {
	if c.rate.first.IsZero() {
		return ""
	}
	return c.manifest.Entry(c.manifest.Layout().PieceSpan(c.newest).Entry).Path
}
