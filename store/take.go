package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// taking is the search for missing pieces in files on this machine: in those
// that are to be repaired, and in older versions of the share. A piece is taken when
// its hash is right, whatever file it is found in. Places where no missing piece can be
// are not read: only a piece of the same size at the same offset can be equal.
//
// It needs 16 bytes for each missing piece, and a buffer for each worker.
type taking struct {
	p     *Partial
	ctx   context.Context
	index []missingPiece // by key
	spots []uint64       // where missing pieces are in their files; sorted, each once
	left  atomic.Int64   // pieces of the index that are not taken
	read  atomic.Int64   // bytes
	noted atomic.Int64   // bytes taken since the last sync
	plain atomic.Bool    // no two files here can share bytes

	mu  sync.Mutex // guards err, while workers run
	err error
}

// missingPiece is a piece, and the beginning of its value.
type missingPiece struct {
	key   uint64
	piece share.Piece
}

func keyOf(value share.Hash) uint64 { return binary.LittleEndian.Uint64(value[:]) }

// spot is the offset of a piece in its file, and its length.
func spot(off int64, n int) uint64 { return uint64(off/share.MinPiece)<<spotLen | uint64(n) }

const spotLen = 25 // bits for a length

// syncTaken is the number of bytes after which what was taken is made durable.
const syncTaken = 1 << 30

// take takes the missing wanted pieces from the files where they may lie. What is found
// is durable when it returns.
func (p *Partial) take(ctx context.Context) error {
	if len(p.opt.Like) == 0 && len(p.sel.wrong) == 0 {
		return nil
	}
	t := &taking{p: p, ctx: ctx}
	t.look()
	if err := t.targets(); err != nil {
		return err
	}
	for _, like := range p.opt.Like {
		if err := t.older(like); err != nil {
			return fmt.Errorf("look for equal pieces in %s: %w", like, err)
		}
	}
	_, err := p.sync(ctx, 0)
	return err
}

// look finds out what is missing.
func (t *taking) look() {
	p, l := t.p, t.p.m.Layout()
	for i := range p.m.Len() {
		if p.m.Entry(i).Kind != share.File || !p.wants(i) || p.isPlaced(i) {
			continue
		}
		for piece := range l.EachOf(i) {
			if !p.have.Has(piece) {
				s := l.PieceSpan(piece)
				t.index = append(t.index, missingPiece{keyOf(p.m.PieceValue(piece)), piece})
				t.spots = append(t.spots, spot(s.Offset, s.Len))
			}
		}
	}
	slices.SortFunc(t.index, func(a, b missingPiece) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.piece, b.piece)) })
	slices.Sort(t.spots)
	t.spots = slices.Clip(slices.Compact(t.spots))
	t.left.Store(int64(len(t.index)))
}

// targets searches the files that are to be repaired.
func (t *taking) targets() error {
	p := t.p
	for _, at := range p.Replaces() {
		if !p.m.Single() {
			at = path.Join(p.m.Name, at)
		}
		if err := t.file(p.dir, at, at); err != nil {
			return err
		}
	}
	return nil
}

// older searches a file, or a folder and all below it.
func (t *taking) older(at string) error {
	d, name, err := t.open(at)
	if err != nil {
		return err
	}
	defer d.Close()
	if name != "" {
		return t.file(d, name, at)
	}
	return t.folder(d, at)
}

// open opens the folder at a path; or the one that a file is in, with the file's name.
func (t *taking) open(at string) (d vfs.FS, name string, err error) {
	if top := t.p.opt.FS; top != nil {
		at = path.Clean(at)
		info, err := top.Lstat(at)
		if err != nil {
			return nil, "", err
		}
		if !info.Type.IsDir() {
			at, name = path.Split(at)
		}
		d, err = top.Sub(path.Clean(at))
		return d, name, err
	}
	place, err := locateHere(at)
	return place.dir, place.base, err
}

func (t *taking) folder(d vfs.FS, at string) error {
	if err := t.ctx.Err(); err != nil || t.left.Load() == 0 {
		return context.Cause(t.ctx)
	}
	list, err := d.ReadDir(".")
	if err != nil {
		t.unread(at, err)
		return nil
	}
	slices.SortFunc(list, func(a, b vfs.DirEntry) int { return cmp.Compare(a.Name, b.Name) })
	for _, e := range list {
		var err error
		switch below := filepath.Join(at, e.Name); {
		case e.Type == 0:
			err = t.file(d, e.Name, below)
		case e.Type.IsDir():
			sub, e := d.Sub(e.Name)
			if e != nil {
				t.unread(below, e)
				continue
			}
			err = t.folder(sub, below)
			sub.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unread tells of a file or folder that cannot be read: nothing is taken from there.
func (t *taking) unread(at string, err error) {
	if t.p.opt.Unread != nil && !errors.Is(err, fs.ErrNotExist) {
		t.p.opt.Unread(at, err)
	}
}

// file searches one file. What cannot be read has nothing for us; an error is one of
// the disk that is written to, or the context's.
func (t *taking) file(d vfs.FS, name, shown string) error {
	if t.left.Load() == 0 {
		return context.Cause(t.ctx)
	}
	info, err := d.Lstat(name)
	if err != nil || info.Type != 0 || info.Size == 0 {
		return context.Cause(t.ctx)
	}
	spans := t.promising(info.Size)
	if len(spans) == 0 {
		return context.Cause(t.ctx)
	}
	f, err := d.Open(name)
	if err != nil {
		t.unread(shown, err)
		return nil
	}
	defer f.Close()
	t.each(spans, func(s share.Span, buf *[]byte) {
		if t.p.opt.Taking != nil {
			t.p.opt.Taking(shown, t.read.Load())
		}
		t.piece(f, s, int64(s.Len) == info.Size, buf)
	})
	if t.err == nil && t.noted.Load() >= syncTaken {
		t.noted.Store(0)
		_, t.err = t.p.sync(t.ctx, 0)
	}
	if t.err == nil {
		t.err = context.Cause(t.ctx)
	}
	return t.err
}

// promising returns the pieces of a file of some size that may be equal to a missing one.
func (t *taking) promising(size int64) (out []share.Span) {
	piece := int64(1) << share.PieceExp(size)
	end := min(size, int64(t.spots[len(t.spots)-1]>>spotLen+1)*share.MinPiece) // a file may claim any size
	for off := int64(0); off < end; off += piece {
		n := int(min(piece, size-off))
		if _, ok := slices.BinarySearch(t.spots, spot(off, n)); ok {
			out = append(out, share.Span{Offset: off, Len: n})
		}
	}
	return out
}

// each calls do for each span, with as many workers as there is memory for.
func (t *taking) each(spans []share.Span, do func(share.Span, *[]byte)) {
	var next atomic.Int64
	work := func() {
		var buf []byte
		for {
			i := int(next.Add(1)) - 1
			if i >= len(spans) || t.ctx.Err() != nil || t.left.Load() == 0 || t.failed() != nil {
				return
			}
			do(spans[i], &buf)
		}
	}
	onCores(min(workersOr(t.p.opt.Workers), len(spans), maxHashBuffers/largestPiece), work)
}

func (t *taking) failed() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

func (t *taking) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err = cmp.Or(t.err, err)
}

// piece reads a piece of a file, and takes it for each missing piece that is equal. The
// value of a first piece also says whether the file ends with it, which may differ between
// the two files.
func (t *taking) piece(f vfs.File, s share.Span, whole bool, buf *[]byte) {
	if cap(*buf) < s.Len {
		*buf = make([]byte, s.Len)
	}
	data := (*buf)[:s.Len]
	n, _ := f.ReadAt(data, s.Offset)
	t.read.Add(int64(n))
	if n < s.Len {
		return
	}
	if !t.equal(f, s, data, whole) && s.Offset == 0 && s.Len >= share.MinPiece {
		t.equal(f, s, data, !whole)
	}
}

// equal takes a piece for each missing one with the same value, and says whether there was any.
func (t *taking) equal(f vfs.File, s share.Span, data []byte, whole bool) (any bool) {
	blocks, value := share.HashPiece(nil, data, s.Offset, whole)
	i, _ := slices.BinarySearchFunc(t.index, keyOf(value), func(m missingPiece, key uint64) int { return cmp.Compare(m.key, key) })
	for ; i < len(t.index) && t.index[i].key == keyOf(value); i++ {
		piece := t.index[i].piece
		if t.p.m.PieceValue(piece) != value {
			continue
		}
		if any = true; t.p.has(piece) {
			continue
		}
		err := t.p.write(piece, 0, data, func(to share.Span) error { return t.copy(f, s.Offset, to, data) })
		if err != nil {
			t.fail(err)
			return true
		}
		t.p.Complete(piece, blocks)
		t.left.Add(-1)
		t.noted.Add(int64(s.Len))
	}
	return any
}

// copy puts a piece in its place: without copying bytes where the file system can do that,
// and the file it is taken from has not changed since it was read.
func (t *taking) copy(from vfs.File, off int64, to share.Span, data []byte) error {
	return t.p.change(to.Entry, false, func(f vfs.File) error {
		if to.Len%share.BlockSize == 0 && !t.plain.Load() {
			switch err := vfs.Clone(f, to.Offset, from, off, int64(to.Len)); {
			case err == nil && sameBytes(f, to.Offset, data):
				return nil
			case errors.Is(err, errors.ErrUnsupported):
				t.plain.Store(true)
			case err != nil:
				return err
			}
		}
		_, err := f.WriteAt(data, to.Offset)
		return err
	})
}

// sameBytes says whether a file has these bytes.
func sameBytes(f vfs.File, off int64, data []byte) bool {
	buf := make([]byte, min(len(data), 1<<20))
	for len(data) > 0 {
		part := buf[:min(len(buf), len(data))]
		if n, _ := f.ReadAt(part, off); n < len(part) || !bytes.Equal(part, data[:n]) {
			return false
		}
		off, data = off+int64(len(part)), data[len(part):]
	}
	return true
}
