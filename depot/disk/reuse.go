package disk

import (
	"context"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// Reuse writes into p what it lacks and another share on this disk has: pieces of the same value, which are the same bytes at
// the same place of a file, whatever that is called. What cannot be read is left out.
func (r *Root) Reuse(ctx context.Context, p *store.Partial, from share.ID) error {
	dir, err := r.there()
	if err != nil {
		return err
	}
	old, err := r.Manifest(from)
	if err != nil {
		return err
	}
	l, lacks := p.Manifest().Layout(), map[share.Hash][]share.Piece{}
	have := p.Verified()
	for i := range l.Pieces() {
		if i := share.Piece(i); !have.Has(i) {
			v := p.Manifest().PieceValue(i)
			lacks[v] = append(lacks[v], i)
		}
	}
	was, at, n := old.Layout(), content(from), 0
	var buf []byte
	for i := range was.Pieces() {
		if err := ctx.Err(); err != nil {
			return err
		}
		i := share.Piece(i)
		s, to := was.PieceSpan(i), lacks[old.PieceValue(i)]
		if len(to) == 0 {
			continue
		}
		if cap(buf) < s.Len {
			buf = make([]byte, s.Len)
		}
		values, err := pieceOf(dir, fileOf(at, old, old.Entry(s.Entry)), old, i, s, buf[:s.Len])
		if err != nil {
			if err := r.lost(err); err != nil {
				return err
			}
		}
		if values == nil { // another piece of the same value may be whole
			continue
		}
		delete(lacks, old.PieceValue(i))
		for _, x := range to {
			if l.PieceLen(x) != s.Len {
				continue
			}
			if err := p.Write(x, 0, buf[:s.Len]); err != nil {
				return err
			}
			p.Complete(x, values)
			if n++; n%syncedPieces == 0 {
				if _, err := p.Sync(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
