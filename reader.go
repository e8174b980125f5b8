package fetcher

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// How far ahead of a reader pieces are fetched before others, and how far on demand.
const (
	readAhead     = 64 << 20
	onDemandAhead = 4 << 20
)

// Reader reads a file of a share while it is fetched: an io.ReadSeekCloser whose
// bytes are all verified. What it will read next is fetched before other pieces of
// the same priority. It is not safe for concurrent use, except Close.
type Reader struct {
	t     *Transfer
	life  context.Context
	end   context.CancelCauseFunc
	id    leasemgr.Reader
	entry int
	size  int64
	ahead int64

	off      int64
	from, to int64       // bytes that can be read now
	told     share.Piece // where the transfer believes the reader to be

	mu     sync.Mutex // guards the fields below
	file   finished   // the finished file, once the transfer has ended
	closed bool
}

// Open opens a file of the share for reading, by its path in the share. It waits
// until the list of files is here, and Read until the bytes are, for as long as
// ctx lasts. Any number of readers may be open. The caller must Close it.
//
// Errors wrap fs.ErrNotExist for a path that the share does not have,
// fs.ErrInvalid for a path that is not a file, ErrSkipped for a file that is not selected;
// or they are the transfer's. Once the transfer is complete, the file is read
// from where it lies, a piece at a time, and verified again; if what is read was changed by then, Read ends
// with share.ErrChanged.
func (t *Transfer) Open(ctx context.Context, path string) (*Reader, error) {
	r := &Reader{t: t, ahead: readAhead}
	if t.opt.OnDemand {
		r.ahead = onDemandAhead
	}
	opened, err := t.node.program.OpenReader(ctx, t.handle, actors.OpenReader{Path: path})
	switch {
	case err == nil:
		r.id, r.entry = opened.Reader, opened.Entry
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrInvalid), errors.Is(err, ErrSkipped):
		return nil, err
	default:
		if err := t.Wait(ctx); err != nil {
			return nil, err
		}
		if r.entry, err = t.fileAt(path); err != nil {
			return nil, err
		}
	}
	r.size = t.Manifest().Entry(r.entry).Size
	r.life, r.end = context.WithCancelCause(ctx)
	r.told, _ = t.Manifest().Layout().PiecesOf(r.entry)
	return r, nil
}

// fileAt returns the index of the entry of a file of the share, once the transfer has ended.
func (t *Transfer) fileAt(path string) (int, error) {
	m := t.Manifest()
	i, ok := m.Find(path)
	switch {
	case !ok:
		return 0, fmt.Errorf("%q: %w in the share", path, fs.ErrNotExist)
	case m.Entry(i).Kind != share.File:
		return 0, fmt.Errorf("%q is not a file: %w", path, fs.ErrInvalid)
	case !t.place().Lies(i):
		return 0, fmt.Errorf("%q: %w", path, ErrSkipped)
	}
	return i, nil
}

// Size is the file's size in bytes.
func (r *Reader) Size() int64 { return r.size }

// SetReadAhead says how many bytes ahead of the reader will soon be read; the
// default is 64 MiB, and 4 MiB with FetchOptions.OnDemand. At most 256 pieces are used.
func (r *Reader) SetReadAhead(bytes int64) {
	r.ahead = max(bytes, 1)
	r.tell()
}

// Seek sets where the next Read begins. As Open does, it fetches nothing: a Read does.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.off
	case io.SeekEnd:
		offset += r.size
	case io.SeekStart:
	default:
		return r.off, fmt.Errorf("seek: whence %d: %w", whence, fs.ErrInvalid)
	}
	if offset < 0 {
		return r.off, fmt.Errorf("seek to %d: %w", offset, fs.ErrInvalid)
	}
	r.off = offset
	return offset, nil
}

// Read reads the next bytes, and waits until the first of them is verified. It
// ends with the transfer's error, or with that of the context given to Open.
func (r *Reader) Read(p []byte) (int, error) {
	for {
		if r.life.Err() != nil {
			return 0, context.Cause(r.life)
		}
		switch {
		case len(p) == 0:
			return 0, nil
		case r.off >= r.size:
			return 0, io.EOF
		case r.finished() != nil:
			n, err := r.finished().ReadAt(p[:min(int64(len(p)), r.size-r.off)], r.off)
			r.off += int64(n)
			return n, err
		case r.off < r.from || r.off >= r.to:
			if err := r.await(); err != nil {
				return 0, err
			}
			continue
		}
		n, err := r.t.place().ReadAt(r.entry, p[:min(int64(len(p)), r.to-r.off)], r.off)
		if n > 0 {
			r.advance(n)
			return n, nil
		}
		r.from, r.to = 0, 0
		if !errors.Is(err, fs.ErrClosed) { // which means that the transfer ends, or begins again
			return 0, err
		}
	}
}

// advance moves on, and tells the transfer of each new piece.
func (r *Reader) advance(n int) {
	r.off += int64(n)
	if r.off < r.size {
		if p, _ := r.t.Manifest().Layout().At(r.entry, r.off); p != r.told {
			r.told = p
			r.tell()
		}
	}
}

func (r *Reader) tell() {
	if r.id != 0 {
		r.t.node.program.MoveReader(r.t.handle, r.where())
	}
}

func (r *Reader) where() actors.MoveReader {
	return actors.MoveReader{Reader: r.id, Offset: r.off, Ahead: r.ahead}
}

// await waits until there is something to read.
func (r *Reader) await() error {
	if r.id != 0 {
		end, err := r.t.node.program.AwaitByte(r.life, r.t.handle, r.where())
		switch {
		case err == nil:
			r.from, r.to = r.off, end
			r.told, _ = r.t.Manifest().Layout().At(r.entry, r.off)
			return nil
		case r.life.Err() != nil:
			return context.Cause(r.life)
		case errors.Is(err, ErrSkipped):
			return err
		}
	}
	// Nothing knows this reader any more: the transfer is over, or will be in a moment.
	if err := r.t.Wait(r.life); err != nil {
		if r.life.Err() != nil {
			err = context.Cause(r.life)
		}
		return err
	}
	return r.openFinished()
}

// openFinished opens the file where it lies now that the transfer has ended.
func (r *Reader) openFinished() error {
	m, at := r.t.Manifest(), r.t.Path()
	if _, err := r.t.fileAt(m.Entry(r.entry).Path); err != nil {
		return err
	}
	inside := ""
	if !m.Single() {
		inside = m.Entry(r.entry).Path
	}
	f, err := r.t.node.cfg.Simulation.open(at, inside)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		f.Close()
		return fs.ErrClosed
	}
	r.file = verified{store.NewChecked(m, r.entry, f), f}
	return nil
}

// verified is a finished file of which nothing is read that is not the share's.
type verified struct {
	*store.Checked
	io.Closer
}

func (r *Reader) finished() finished {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file
}

// Close ends the reader; a Read that waits ends with fs.ErrClosed. It may be
// called at any time.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	r.end(fs.ErrClosed)
	if r.id != 0 {
		r.t.node.program.CloseReader(r.t.handle, r.id)
	}
	if r.file != nil {
		return r.file.Close()
	}
	return nil
}

// place is where the bytes of the transfer lie.
func (t *Transfer) place() *store.Partial {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.partial
}
