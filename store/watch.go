package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// Others may change a file of data while it is fetched. So it is checked before
// each write, at each Sync and before it gets its name: if it is not what it was
// after our last write, somebody else has touched it. What is verified of it is
// hashed again by the next Sync, and what is in progress when it is complete. What
// is read of it until then is compared with its block hashes.

// watch is what a Partial knows about its files. Where a system has no change times,
// the times of an open file say nothing either, and nothing is checked.
type watch struct {
	locks  [64]sync.Mutex // by entry: held while we change a file and see what it looks like then
	hashed atomic.Int64   // bytes hashed because somebody might have changed them

	// Guarded by Partial.mu.
	was     []vfs.Stamp          // by entry: after our last write; zero: not known
	doubts  map[int]doubt        // files that somebody else has touched, or may have
	times   uint64               // how often somebody has touched a file
	pending map[share.Piece]bool // pieces in progress; true: somebody has touched their file
}

// doubt is about a file that somebody else may have touched.
type doubt struct {
	time uint64        // the value of times when it was
	left []share.Piece // what was verified by then, and is to be hashed
}

// hashAtOnce is how much is hashed in one Sync of what others may have touched.
const hashAtOnce = 256 << 20

// hold keeps our other goroutines from an entry's file until release is called.
func (p *Partial) hold(entry int) (release func()) {
	l := &p.watch.locks[entry%len(p.watch.locks)]
	l.Lock()
	return l.Unlock
}

// inspect finds out whether somebody else has touched an entry's file. If it is
// a different file now, or gone, the error is a *SyncError. hold is held, or nobody
// writes.
func (p *Partial) inspect(entry int) error {
	p.mu.Lock()
	made, was := p.made[entry], p.watch.was[entry]
	p.mu.Unlock()
	if !made {
		return nil
	}
	info, err := p.handles.Lstat(p.file(entry))
	now := info.Stamp()
	switch {
	case err != nil && !gone(err):
		return err
	case err == nil && was.Still(now):
		return nil
	case err == nil && info.Type == 0 && was != vfs.Stamp{} && was.CTime == 0:
		p.mu.Lock()
		p.watch.was[entry] = now
		p.mu.Unlock()
		return nil
	case err == nil && info.Type == 0 && now.Size <= p.m.Entry(entry).Size && (was == vfs.Stamp{} || was.Inode == now.Inode):
		p.doubt(entry, now)
		return nil
	case err == nil && was.Renumbered(info):
		p.handles.Files.Drop(entry) // if it is another file, that is the one to hash
		p.doubt(entry, now)
		return nil
	}
	return p.loseFile(entry)
}

// doubt notes that somebody else has touched an entry's file; now is its new stamp. Its
// mark differs from that, and stays until the doubt is settled.
func (p *Partial) doubt(entry int, now vfs.Stamp) {
	w := &p.watch
	p.mu.Lock()
	defer p.mu.Unlock()
	w.times++
	w.was[entry], w.doubts[entry] = now, doubt{w.times, p.piecesIn(p.have, entry)}
	for piece := range w.pending {
		if p.m.Layout().PieceSpan(piece).Entry == entry {
			w.pending[piece] = true
		}
	}
}

// taken is the error for a file that exists where one of ours is to be created.
// Another entry may have made it, if this file system takes two names for one.
func (p *Partial) taken(entry int) error {
	info, err := p.handles.Lstat(p.file(entry))
	if err != nil {
		return err
	}
	p.mu.Lock()
	for i, was := range p.watch.was {
		if p.made[i] && was.Inode == info.Inode {
			p.mu.Unlock()
			return fmt.Errorf("%w: this file system does not tell the names %q and %q apart", share.ErrPath, p.m.Entry(entry).Path, p.m.Entry(i).Path)
		}
	}
	p.mu.Unlock()
	if err := p.handles.Exactly(p.file(entry)); err != nil { // an earlier run may have made it
		return err
	}
	return p.loseFile(entry)
}

// loseFile marks all of an entry as lost: its file is not ours any more. The next
// opening finds out what to do about it.
func (p *Partial) loseFile(entry int) error {
	err := fmt.Errorf("%s was made, replaced or removed by another program: %w", p.m.Entry(entry).Path, share.ErrChanged)
	p.mu.Lock()
	defer p.mu.Unlock()
	var lost []share.Piece
	for piece := range p.m.Layout().EachOf(entry) {
		if _, begun := p.watch.pending[piece]; begun || p.have.Has(piece) {
			p.lose(piece)
			lost = append(lost, piece)
		}
	}
	if len(lost) == 0 {
		return err
	}
	return &SyncError{lost, err}
}

// writing is called before an entry's file is written to, and wrote after it. hold is
// held.
func (p *Partial) writing(entry int) error {
	m, ok := p.known(entry)
	if m.writing = true; !ok {
		return nil
	}
	return p.marks.put(entry, m)
}

// known is the mark of a file that nobody else has touched.
func (p *Partial) known(entry int) (mark, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, doubt := p.watch.doubts[entry]
	return mark{Stamp: p.watch.was[entry]}, !doubt
}

// wrote notes what an entry's file, open as f, looks like now. With once it is whole, and its
// mark may be written later.
func (p *Partial) wrote(entry int, f vfs.File, once bool) {
	info, _ := f.Stat() // where that fails, nothing is known
	p.mu.Lock()
	p.watch.was[entry] = info.Stamp()
	p.mu.Unlock()
	switch m, ok := p.known(entry); {
	case ok && once:
		p.marks.putLater(entry, m)
	case ok:
		p.marks.put(entry, m)
	}
}

// inspectFiles inspects the files of pieces. What is lost is to be reported. A file of one piece
// that is here is not written to any more: it is inspected when it is read, and at the end.
func (p *Partial) inspectFiles(pieces map[share.Piece]struct{}) {
	entries := map[int]struct{}{}
	p.mu.Lock()
	for piece := range pieces {
		entry := p.m.Layout().PieceSpan(piece).Entry
		if _, n := p.m.Layout().PiecesOf(entry); n > 1 || !p.have.Has(piece) {
			entries[entry] = struct{}{}
		}
	}
	p.mu.Unlock()
	for _, entry := range slices.Sorted(maps.Keys(entries)) {
		if !p.isPlaced(entry) {
			release := p.hold(entry)
			p.inspect(entry)
			release()
		}
	}
}

// note records what a file looks like that nobody else has touched.
func (p *Partial) note(entry int) {
	defer p.hold(entry)()
	if p.inspect(entry) != nil {
		return // what is lost is to be reported, or the next check finds the same
	}
	if m, ok := p.known(entry); ok {
		p.marks.put(entry, m)
	}
}

// noteLate records what files look like where that is known only when they are
// closed.
func (p *Partial) noteLate() {
	for entry, was := range p.watch.was {
		if p.made[entry] && was.CTime == 0 && !p.isPlaced(entry) {
			p.note(entry)
		}
	}
}

// hashDoubts hashes what is verified of the files that somebody may have touched: at
// most limit bytes. Pieces that are wrong are lost. Each file is synced first: what
// somebody else wrote must be as durable as what we wrote.
func (p *Partial) hashDoubts(ctx context.Context, limit int64) error {
	for _, entry := range p.doubted() {
		p.mu.Lock()
		d := p.watch.doubts[entry]
		n := 0
		for ; n < len(d.left) && limit > 0; n++ {
			limit -= int64(p.m.Layout().PieceLen(d.left[n]))
		}
		p.mu.Unlock()
		if n == 0 {
			continue
		}
		if err := p.syncFile(entry); err != nil {
			p.mu.Lock()
			p.loseFiles(map[int]struct{}{entry: {}}, nil)
			p.mu.Unlock()
			return fmt.Errorf("sync %s: %w", p.m.Entry(entry).Path, err)
		}
		bad, err := p.wrong(ctx, d.left[:n])
		if err != nil {
			return fmt.Errorf("%s, which another program may have touched, cannot be checked: %w", p.m.Entry(entry).Path, err)
		}
		p.mu.Lock()
		for _, piece := range bad {
			if p.have.Has(piece) {
				p.lose(piece)
			}
		}
		if now := p.watch.doubts[entry]; now.time == d.time {
			p.watch.doubts[entry] = doubt{d.time, d.left[n:]}
		}
		p.mu.Unlock()
	}
	return nil
}

// settleDoubts ends the doubts about files that are hashed, once what was found wrong
// is not believed after a kill.
func (p *Partial) settleDoubts() {
	for _, entry := range p.doubted() {
		p.mu.Lock()
		done := len(p.watch.doubts[entry].left) == 0
		if done {
			delete(p.watch.doubts, entry)
		}
		p.mu.Unlock()
		if done {
			p.note(entry)
		}
	}
}

// doubted returns the files that there are doubts about.
func (p *Partial) doubted() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.watch.doubts))
}

// piecesIn returns the pieces of an entry that are in a set.
func (p *Partial) piecesIn(set *share.Set, entry int) (out []share.Piece) {
	for piece := range p.m.Layout().EachOf(entry) {
		if set.Has(piece) {
			out = append(out, piece)
		}
	}
	return out
}

const largestPiece = 16 << 20 // bytes

// wrong hashes pieces and returns those that are not what they should be.
func (p *Partial) wrong(ctx context.Context, pieces []share.Piece) (bad []share.Piece, err error) {
	var mu sync.Mutex // guards bad and err
	var next atomic.Int64
	work := func() {
		var buf []byte
		for {
			i := int(next.Add(1)) - 1
			if i >= len(pieces) || ctx.Err() != nil {
				return
			}
			right, e := p.isRight(pieces[i], &buf)
			mu.Lock()
			if err = errors.Join(err, e); !right {
				bad = append(bad, pieces[i])
			}
			mu.Unlock()
			if e != nil {
				return
			}
		}
	}
	onCores(min(workersOr(p.opt.Workers), len(pieces), maxHashBuffers/largestPiece), work)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return bad, err
}

// isRight hashes a piece as it lies in data.
func (p *Partial) isRight(piece share.Piece, buf *[]byte) (bool, error) {
	s := p.m.Layout().PieceSpan(piece)
	h, err := p.handles.Files.Get(s.Entry, func() (vfs.File, error) { return p.openFile(s.Entry) })
	if err != nil {
		return false, err
	}
	defer p.handles.Files.Put(h)
	n, right, _ := p.hashPiece(h.V, piece, buf) // what is truncated, or unreadable, is not right
	p.watch.hashed.Add(int64(n))
	return right, nil
}

// hashPiece says whether a piece is right as it lies in an open file, and how many bytes were hashed for that: none of one
// that is truncated.
func (p *Partial) hashPiece(f io.ReaderAt, piece share.Piece, buf *[]byte) (n int, right bool, err error) {
	s := p.m.Layout().PieceSpan(piece)
	if cap(*buf) < s.Len {
		*buf = make([]byte, s.Len)
	}
	data := (*buf)[:s.Len]
	if n, err := f.ReadAt(data, s.Offset); n < s.Len {
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return 0, false, err
	}
	_, pieces := p.m.Layout().PiecesOf(s.Entry)
	_, value := share.HashPiece(nil, data, s.Offset, pieces == 1)
	return s.Len, value == p.m.PieceValue(piece), nil
}
