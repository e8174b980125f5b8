package actors

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/share"
)

// Files may be read while they are fetched. Nobody waits with a goroutine of ours:
// a reader says where it is, and is answered when the byte there is verified. The
// bytes themselves it reads from the store.
//
//	reader ──OpenReader──► Transfer ──SetReader──► LeaseManager
//	       ◄─ReaderOpened─    │
//	       ──MoveReader──►    │   where it is, and how far it will read
//	       ◄─ReaderReady──    │   when a block there is verified, or never will be
//	       ──CloseReader─►    │

// ErrSkipped is why a file cannot be read that was not chosen.
var ErrSkipped = errors.New("the file is not selected to be fetched")

const (
	maxReady = 64 << 20 // bytes looked over for one answer to a reader
	maxAhead = 256      // pieces; more than a LeaseManager looks at
)

// reader is one who reads a file.
type reader struct {
	id    leasemgr.Reader
	from  *actor.PID // who opened it
	entry int
	at    int64      // offset of the byte it is at
	ahead int64      // bytes it will read soon
	waits *actor.PID // to be told of the byte at at; nil: nobody

	piece share.Piece // what the LeaseManager was told last
	n     int
}

// opening is an OpenReader that came before the share was open.
type opening struct {
	OpenReader
	from *actor.PID
}

func (t *transfer) openReader(ctx actor.Context, m OpenReader) {
	switch {
	case t.ending != nil:
		ctx.Respond(ReaderOpened{Err: ErrFinishing})
	case t.target == nil:
		t.openings = append(t.openings, opening{m, ctx.Sender()})
	default:
		t.admitReader(ctx, opening{m, ctx.Sender()})
	}
}

// admitReaders answers those who came before the share was open, and those who
// have been waiting since before it was opened anew.
func (t *transfer) admitReaders(ctx actor.Context) {
	for _, r := range t.readers {
		t.serve(ctx, r)
	}
	for _, o := range t.openings {
		t.admitReader(ctx, o)
	}
	t.openings = nil
}

func (t *transfer) admitReader(ctx actor.Context, o opening) {
	entry, err := t.readable(o.Path)
	if err != nil {
		ctx.Send(o.from, ReaderOpened{Err: err})
		return
	}
	t.lastReader++
	r := &reader{id: t.lastReader, from: o.from, entry: entry, ahead: o.Ahead}
	t.readers = append(t.readers, r)
	t.steer(ctx, r)
	ctx.Request(o.from, ReaderOpened{Reader: r.id, Entry: entry})
}

// unheard closes a reader whose opener has not waited for it.
func (t *transfer) unheard(ctx actor.Context, who *actor.PID) {
	for _, r := range t.readers {
		if sameActor(r.from, who) {
			t.closeReader(ctx, r.id)
			return
		}
	}
}

// readable is the entry of a file that can be read.
func (t *transfer) readable(path string) (int, error) {
	i, ok := slices.BinarySearchFunc(t.manifest.Entries, path, func(e share.Entry, path string) int { return strings.Compare(e.Path, path) })
	switch {
	case !ok:
		return 0, fmt.Errorf("%q: %w in the share", path, fs.ErrNotExist)
	case t.manifest.Entries[i].Kind == share.Symlink:
		return 0, fmt.Errorf("%q is a link to %q: %w", path, t.manifest.Entries[i].Target, fs.ErrInvalid)
	case t.manifest.Entries[i].Kind != share.File:
		return 0, fmt.Errorf("%q is a folder: %w", path, fs.ErrInvalid)
	case !t.chosen.wants(i):
		return 0, fmt.Errorf("%q: %w", path, ErrSkipped)
	}
	return i, nil
}

func (t *transfer) reader(id leasemgr.Reader) *reader {
	for _, r := range t.readers {
		if r.id == id {
			return r
		}
	}
	return nil
}

func (t *transfer) moveReader(ctx actor.Context, m MoveReader) {
	r := t.reader(m.Reader)
	if r == nil {
		if m.Wait {
			ctx.Respond(ReaderReady{Err: ErrFinishing})
		}
		return
	}
	r.at, r.ahead, r.waits = m.Offset, m.Ahead, nil
	if m.Wait {
		r.waits = ctx.Sender()
	}
	t.steer(ctx, r)
	t.serve(ctx, r)
}

func (t *transfer) closeReader(ctx actor.Context, id leasemgr.Reader) {
	n := len(t.readers)
	t.readers = slices.DeleteFunc(t.readers, func(r *reader) bool { return r.id == id })
	if len(t.readers) < n {
		t.toLeases(ctx, CloseReader{id})
	}
}

// steer tells the LeaseManager what a reader needs next, if that is news.
func (t *transfer) steer(ctx actor.Context, r *reader) {
	size := t.manifest.Entries[r.entry].Size
	if r.at < 0 || r.at >= size {
		t.steerTo(ctx, r, 0, 0)
		return
	}
	l := t.manifest.Layout()
	p, _ := l.At(r.entry, r.at)
	last, _ := l.At(r.entry, r.at+min(max(r.ahead, 1), size-r.at)-1)
	t.steerTo(ctx, r, p, min(int(last-p)+1, maxAhead))
}

func (t *transfer) steerTo(ctx actor.Context, r *reader, p share.Piece, n int) {
	if r.piece != p || r.n != n {
		r.piece, r.n = p, n
		t.toLeases(ctx, SetReader{r.id, p, n})
	}
}

// steerAll tells a new LeaseManager of all readers.
func (t *transfer) steerAll(ctx actor.Context) {
	for _, r := range t.readers {
		r.n = 0
		t.steer(ctx, r)
	}
}

// serve answers a reader that waits if the block it waits for is verified.
func (t *transfer) serve(ctx actor.Context, r *reader) {
	if r.waits == nil {
		return
	}
	if end := t.verifiedTo(r.entry, r.at); end > r.at || r.at >= t.manifest.Entries[r.entry].Size {
		ctx.Send(r.waits, ReaderReady{End: end})
		r.waits = nil
	}
}

// serveReaders serves those who wait for a piece of which something came.
func (t *transfer) serveReaders(ctx actor.Context, p share.Piece) {
	for _, r := range t.readers {
		if r.waits != nil && r.piece == p {
			t.serve(ctx, r)
		}
	}
}

// verifiedTo is the end of the verified bytes of a file from off on, as far as one
// answer looks; off itself if there are none.
func (t *transfer) verifiedTo(entry int, off int64) int64 {
	if t.restarting || t.target == nil {
		return off // some of it may be lost; opened says
	}
	l, at := t.manifest.Layout(), off
	for at < min(off+maxReady, t.manifest.Entries[entry].Size) {
		p, block := l.At(entry, at)
		s := l.RunSpan(p, block, 1)
		if t.have.Has(p) {
			s = l.PieceSpan(p)
		} else if b := t.begun[p]; b == nil || !b.blocks.has(block) {
			break
		}
		at = s.Offset + int64(s.Len)
	}
	return at
}

// dropSkipped ends the readers of files that are no longer chosen.
func (t *transfer) dropSkipped(ctx actor.Context) {
	for _, r := range slices.Clone(t.readers) {
		if !t.chosen.wants(r.entry) {
			t.refuse(ctx, r, fmt.Errorf("%q: %w", t.manifest.Entries[r.entry].Path, ErrSkipped))
			t.closeReader(ctx, r.id)
		}
	}
}

// dropReaders ends all readers: what they wait for will not come from here.
func (t *transfer) dropReaders(ctx actor.Context) {
	for _, o := range t.openings {
		ctx.Send(o.from, ReaderOpened{Err: ErrFinishing})
	}
	for _, r := range t.readers {
		t.refuse(ctx, r, ErrFinishing)
	}
	t.openings, t.readers = nil, nil
}

func (t *transfer) refuse(ctx actor.Context, r *reader, err error) {
	if r.waits != nil {
		ctx.Send(r.waits, ReaderReady{Err: err})
		r.waits = nil
	}
}
