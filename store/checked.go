package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/piecelease/fetcher/share"
)

// Checked reads a file of a share from wherever it lies, of which nothing is known but its bytes: a
// piece at a time, which is compared with the manifest before any of it is returned. It is not
// safe for concurrent use.
type Checked struct {
	m     *share.Manifest
	entry int
	file  io.ReaderAt
	piece share.Piece // whose bytes are in data
	data  []byte      // verified; empty: none
}

// NewChecked returns a Checked for the file of an entry, whose bytes file has. It stays the caller's.
func NewChecked(m *share.Manifest, entry int, file io.ReaderAt) *Checked {
	return &Checked{m: m, entry: entry, file: file}
}

// ReadAt reads bytes of the file. An error wraps share.ErrChanged if they are not those of the share.
func (c *Checked) ReadAt(dst []byte, off int64) (int, error) {
	e := c.m.Entry(c.entry)
	if e.Kind != share.File || off < 0 {
		return 0, fmt.Errorf("read entry %d at %d: %w", c.entry, off, fs.ErrInvalid)
	}
	s, end := clip(e.Size, off, len(dst))
	for n := 0; n < s.Len; {
		p, _ := c.m.Layout().At(c.entry, off+int64(n))
		if err := c.load(p); err != nil {
			return n, err
		}
		n += copy(dst[n:s.Len], c.data[off+int64(n)-c.m.Layout().PieceSpan(p).Offset:])
	}
	return s.Len, end
}

// load reads a piece and compares it.
func (c *Checked) load(p share.Piece) error {
	if len(c.data) > 0 && c.piece == p {
		return nil
	}
	s, name := c.m.Layout().PieceSpan(p), c.m.Entry(c.entry).Path
	if cap(c.data) < s.Len {
		c.data = make([]byte, s.Len)
	}
	data := c.data[:s.Len]
	c.data = c.data[:0]
	n, err := c.file.ReadAt(data, s.Offset)
	switch {
	case n == s.Len:
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s: %w: it ends after %d of %d bytes", name, share.ErrChanged, s.Offset+int64(n), c.m.Entry(c.entry).Size)
	default:
		return fmt.Errorf("read %s: %w", name, err)
	}
	_, pieces := c.m.Layout().PiecesOf(c.entry)
	if _, value := share.HashPiece(nil, data, s.Offset, pieces == 1); value != c.m.PieceValue(p) {
		return fmt.Errorf("%s: %w", name, share.ErrChanged)
	}
	c.piece, c.data = p, data
	return nil
}
