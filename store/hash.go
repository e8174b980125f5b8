package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// hashing is the hashing of many files by several workers, each file by pieces,
// so that one big file keeps all of them busy as well as many small ones do.
// Each byte is read once.
type hashing struct {
	handles  *vfs.Handles
	workers  int
	slots    *slotFile                    // gets the block hashes
	progress func(bytes int64, files int) // told what was done; called by workers
	trouble  atomic.Pointer[error]        // the block hashes cannot be kept; they are made again when needed
}

// hashed is one file being hashed, and then its result.
type hashed struct {
	name string // where it lies below the folder
	slot int64  // where its block hashes go
	room int64  // how many of them fit there
	keep bool   // whether they do: a file that grew meanwhile has to do without

	stamp  vfs.Stamp // as it was before the first byte was read
	exec   bool
	pieces []share.Hash
	err    error // it could not be read, or changed meanwhile (share.ErrChanged)

	exp  uint8
	open sync.Once
	f    vfs.File
	left atomic.Int64 // pieces not yet hashed
	bad  atomic.Bool
	mu   sync.Mutex // guards err while workers run
}

type hashJob struct {
	file  *hashed
	piece int
}

// maxHashBuffers bounds the memory of all workers, which read whole pieces.
const maxHashBuffers = 256 << 20

// run hashes files whose stamp.size is set. The error is the context's; what went
// wrong with a file is said in its err.
func (h *hashing) run(ctx context.Context, files []*hashed) error {
	largest := 0
	for _, f := range files {
		largest = max(largest, f.prepare())
	}
	if largest == 0 {
		largest = 1
	}
	workers := min(h.workers, max(1, maxHashBuffers/largest))
	defer func() {
		for _, f := range files {
			f.abandon()
		}
	}()
	if workers == 1 {
		var buf []byte
		return eachPiece(ctx, files, func(j hashJob) error { h.piece(j, &buf); return nil })
	}
	jobs := make(chan hashJob, 4*workers)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			var buf []byte
			for j := range jobs {
				h.piece(j, &buf)
			}
		})
	}
	err := eachPiece(ctx, files, func(j hashJob) error {
		select {
		case jobs <- j:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	close(jobs)
	wg.Wait()
	return err
}

func eachPiece(ctx context.Context, files []*hashed, do func(hashJob) error) error {
	for _, f := range files {
		for i := range max(1, len(f.pieces)) {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			if err := do(hashJob{f, i}); err != nil {
				return err
			}
		}
	}
	return nil
}

// prepare sets a file up for one hashing; it returns the size of its pieces.
func (f *hashed) prepare() int {
	f.exp = share.PieceExp(f.stamp.Size)
	n := (f.stamp.Size + 1<<f.exp - 1) >> f.exp
	f.pieces = make([]share.Hash, n)
	f.open = sync.Once{}
	f.f, f.err = nil, nil
	f.bad.Store(false)
	f.left.Store(max(1, n))
	f.keep = slotsOf(f.stamp.Size) == f.room
	return int(min(1<<f.exp, f.stamp.Size))
}

func (f *hashed) fail(err error) {
	f.bad.Store(true)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

// abandon closes a file that was left in the middle.
func (f *hashed) abandon() {
	if f.f != nil && f.left.Load() > 0 {
		f.f.Close()
	}
}

// piece hashes one piece; the first opens the file, the last looks whether it changed.
func (h *hashing) piece(j hashJob, buf *[]byte) {
	f := j.file
	f.open.Do(func() {
		file, err := h.handles.Open(f.name)
		if err != nil {
			f.fail(err)
			return
		}
		f.f = file
		if err := vfs.Flush(file); err != nil {
			f.fail(err)
			return
		}
		info, err := file.Stat()
		switch {
		case err != nil:
			f.fail(err)
		case info.Type != 0 || info.Size != f.stamp.Size || info.Stamp() != f.stamp && info.Stamp().SettlesIn(time.Now()) > 0:
			f.fail(errChanging)
		default:
			f.stamp, f.exec = info.Stamp(), info.Exec
		}
	})
	h.hash(j, buf)
	if f.left.Add(-1) == 0 && f.f != nil {
		if info, err := f.f.Stat(); err != nil {
			f.fail(err)
		} else if info.Stamp() != f.stamp {
			f.fail(errChanging)
		}
		f.f.Close()
		h.progress(0, 1)
	}
}

var errChanging = fmt.Errorf("%w while it was read", share.ErrChanged)

func (h *hashing) hash(j hashJob, buf *[]byte) {
	f := j.file
	if f.bad.Load() || len(f.pieces) == 0 {
		return
	}
	off := int64(j.piece) << f.exp
	n := int(min(1<<f.exp, f.stamp.Size-off))
	if cap(*buf) < n {
		*buf = make([]byte, max(n, share.MinPiece))
	}
	data := (*buf)[:n]
	if got, err := f.f.ReadAt(data, off); got < n {
		if err == io.EOF || err == nil {
			err = errChanging
		}
		f.fail(err)
		return
	}
	values, value := share.HashPiece(nil, data, off, len(f.pieces) == 1)
	f.pieces[j.piece] = value
	h.progress(int64(n), 0)
	if f.room > 0 && f.keep && h.trouble.Load() == nil {
		h.slots.put(f.slot+off/share.BlockSize, values)
		if h.slots.waiting() >= maxRunBytes {
			h.flush()
		}
	}
}

func (h *hashing) flush() {
	if err := h.slots.flush(); err != nil {
		h.trouble.Store(&err)
	}
}

// all hashes files, and those that changed meanwhile once more. A file that
// grew or shrank has no place for its block hashes then.
func (h *hashing) all(ctx context.Context, files []*hashed) error {
	if err := waitQuiet(ctx, stampsOf(files)); err != nil {
		return err
	}
	if err := h.run(ctx, files); err != nil {
		return err
	}
	var again []*hashed
	for _, f := range files {
		if !errors.Is(f.err, share.ErrChanged) {
			continue
		}
		info, err := h.handles.Lstat(f.name)
		if err != nil || info.Type != 0 {
			continue // it is gone: what was said of it stands
		}
		f.stamp = info.Stamp()
		again = append(again, f)
	}
	if len(again) > 0 {
		if err := waitQuiet(ctx, stampsOf(again)); err != nil {
			return err
		}
		if err := h.run(ctx, again); err != nil {
			return err
		}
	}
	h.flush()
	return nil
}

func stampsOf(files []*hashed) []vfs.Stamp {
	out := make([]vfs.Stamp, len(files))
	for i, f := range files {
		out[i] = f.stamp
	}
	return out
}

// waitQuiet waits until files that were just written have settled. It waits at most
// one grain.
func waitQuiet(ctx context.Context, files []vfs.Stamp) error {
	now := time.Now()
	var wait time.Duration
	for _, f := range files {
		wait = max(wait, f.SettlesIn(now))
	}
	if wait == 0 {
		return nil
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func workersOr(n int) int {
	if n > 0 {
		return n
	}
	return runtime.GOMAXPROCS(0)
}
