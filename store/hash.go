package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"runtime"
	"slices"
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
	crowd    sync.RWMutex                 // read-locked by each batch, and locked by one that needs the others' open files closed
}

// toHash is n files to be hashed. They need not all be in memory.
type toHash struct {
	n    int
	file func(i int) aim
	done func(i int, f *hashed) // called once for each file, by workers
}

// aim is a file to be hashed.
type aim struct {
	name  string    // where it lies below the folder
	slot  int64     // where its block hashes go
	room  int64     // how many of them fit there
	stamp vfs.Stamp // what it looks like; of one that is hashed, before the first byte was read
}

// hashed is one file being hashed, and then its result.
type hashed struct {
	aim
	exec   bool
	pieces []share.Hash
	err    error // it could not be read, or changed meanwhile (share.ErrChanged)

	i      int  // of toHash
	sparse bool // it may have holes
	keep   bool // its block hashes: those of a file that grew meanwhile are not kept
	exp    uint8
	open   sync.Mutex // held while f is opened
	look   sync.Once  // it is written out, and stamp is what it looks like then
	f      vfs.File
	left   atomic.Int64 // pieces not yet hashed
	bad    atomic.Bool
	mu     sync.Mutex // guards err while workers run
}

type hashJob struct {
	file  *hashed
	piece int
}

// maxHashBuffers bounds the memory of all workers, which read whole pieces.
const maxHashBuffers = 256 << 20

// Small files are hashed in batches of one worker: of so many, and so many bytes.
const (
	batchFiles = 16
	batchBytes = share.MinPiece
)

// run hashes files. The error is the context's; what went wrong with a file is in
// its err.
func (h *hashing) run(ctx context.Context, files toHash) error {
	var largest int64 = 1
	for i := range files.n {
		size := files.file(i).stamp.Size
		largest = max(largest, min(1<<share.PieceExp(size), size))
	}
	workers := min(h.workers, max(1, maxHashBuffers/int(largest)))
	if workers == 1 {
		var buf []byte
		return eachBatch(ctx, files, func() {}, func(b []hashJob) error { h.batch(b, &buf, files.done); return nil })
	}
	jobs := make(chan []hashJob, 4*workers)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			var buf []byte
			for b := range jobs {
				h.batch(b, &buf, files.done)
			}
		})
	}
	finish := func() {
		close(jobs)
		wg.Wait()
	}
	return eachBatch(ctx, files, finish, func(b []hashJob) error {
		select {
		case jobs <- b:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}

// eachBatch hands out the pieces of files in batches, and calls finish to wait for them.
func eachBatch(ctx context.Context, files toHash, finish func(), do func([]hashJob) error) error {
	var f *hashed
	err := func() error {
		var batch []hashJob
		var bytes int64
		for i := range files.n {
			next := files.file(i)
			f = newHashed(i, next) // workers may write to it once it has been handed out
			for piece := range max(1, len(f.pieces)) {
				if err := context.Cause(ctx); err != nil {
					return err
				}
				batch, bytes = append(batch, hashJob{f, piece}), bytes+min(1<<f.exp, next.stamp.Size)
				if len(batch) < batchFiles && bytes < batchBytes && i+1 < files.n {
					continue
				}
				if err := do(batch); err != nil {
					return err
				}
				batch, bytes = nil, 0
			}
		}
		return nil
	}()
	finish()
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil && f != nil && f.f != nil && f.left.Load() > 0 {
		f.f.Close() // it was not hashed to the end
	}
	return err
}

// newHashed returns a file that is not hashed yet.
func newHashed(i int, a aim) *hashed {
	f := &hashed{aim: a, i: i, exp: share.PieceExp(a.stamp.Size), keep: slotsOf(a.stamp.Size) == a.room}
	n := (a.stamp.Size + 1<<f.exp - 1) >> f.exp
	f.pieces = make([]share.Hash, n)
	f.left.Store(max(1, n))
	return f
}

func (f *hashed) fail(err error) {
	f.bad.Store(true)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

// batch hashes pieces. Its files are all opened, and their write-out begun, before it waits for the
// first; or as many as the process may have open. Where that is none, it waits for the other workers.
func (h *hashing) batch(b []hashJob, buf *[]byte, done func(int, *hashed)) {
	h.crowd.RLock()
	leave, alone := h.crowd.RUnlock, false
	defer func() { leave() }()
	if len(b) > 1 {
		for _, j := range b {
			ok, err := h.opened(j.file)
			if ok {
				vfs.BeginFlush(j.file.f)
			} else if vfs.TooManyOpen(err) {
				break // until those before it are closed
			}
		}
	}
	for _, j := range b {
		f := j.file
		ok, err := h.opened(f)
		if vfs.TooManyOpen(err) && !alone { // none that this batch opened is open now
			leave()
			h.crowd.Lock()
			leave, alone = h.crowd.Unlock, true
			ok, err = h.opened(f)
		}
		if err != nil {
			f.fail(err)
		}
		if ok {
			f.look.Do(f.before)
			h.hash(j, buf)
		}
		if f.left.Add(-1) == 0 {
			if f.f != nil {
				f.after()
				h.progress(0, 1)
			}
			done(f.i, f)
		}
	}
}

// opened opens a file unless it is open already, and says whether it is.
func (h *hashing) opened(f *hashed) (ok bool, err error) {
	f.open.Lock()
	defer f.open.Unlock()
	if f.f != nil || f.bad.Load() {
		return f.f != nil, nil
	}
	file, err := h.handles.OpenSeen(f.name)
	if err != nil {
		return false, err
	}
	f.f = file
	return true, nil
}

// before checks, before the first byte is read, that the file is what it was.
func (f *hashed) before() {
	if err := vfs.Flush(f.f); err != nil {
		f.fail(err)
		return
	}
	info, err := f.f.Stat()
	switch {
	case err != nil:
		f.fail(err)
	case info.Type != 0 || info.Size != f.stamp.Size || !f.stamp.Still(info.Stamp()) && info.Stamp().SettlesIn(time.Now()) > 0:
		f.fail(errChanging)
	default:
		f.stamp, f.exec, f.sparse = info.Stamp(), info.Exec, info.Room < info.Size
	}
}

// after checks, after the last byte was read, that the file still is.
func (f *hashed) after() {
	if info, err := f.f.Stat(); err != nil {
		f.fail(err)
	} else if info.Stamp() != f.stamp {
		f.fail(errChanging)
	}
	f.f.Close()
}

var errChanging = fmt.Errorf("%w while it was read", share.ErrChanged)

func (h *hashing) hash(j hashJob, buf *[]byte) {
	f := j.file
	if f.bad.Load() || len(f.pieces) == 0 {
		return
	}
	off := int64(j.piece) << f.exp
	n := int(min(1<<f.exp, f.stamp.Size-off))
	data, err := f.read(off, n, buf)
	if err != nil {
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

// read returns n bytes of the file, in buf unless they are a hole.
func (f *hashed) read(off int64, n int, buf *[]byte) ([]byte, error) {
	if f.sparse && vfs.Hole(f.f, off, int64(n)) {
		return zeros()[:n], nil
	}
	if cap(*buf) < n {
		*buf = make([]byte, max(n, share.MinPiece))
	}
	data := (*buf)[:n]
	if got, err := f.f.ReadAt(data, off); got == n {
		return data, nil
	} else if err != nil && err != io.EOF {
		return nil, err
	}
	return nil, errChanging
}

// zeros is what a hole reads as. Nobody writes to it, so it takes no memory.
var zeros = sync.OnceValue(func() []byte { return make([]byte, largestPiece) })

func (h *hashing) flush() {
	if err := h.slots.flush(); err != nil {
		h.trouble.Store(&err)
	}
}

// all hashes files, and those that changed meanwhile once more. The block hashes of a
// file that grew or shrank have no place then.
func (h *hashing) all(ctx context.Context, files toHash) error {
	if err := waitQuiet(ctx, files.stamps()); err != nil {
		return err
	}
	var mu sync.Mutex // guards changed
	changed := map[int]*hashed{}
	first := files
	first.done = func(i int, f *hashed) {
		if !errors.Is(f.err, share.ErrChanged) {
			files.done(i, f)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		changed[i] = f
	}
	if err := h.run(ctx, first); err != nil {
		return err
	}
	var again []int
	for _, i := range slices.Sorted(maps.Keys(changed)) {
		f := changed[i]
		if info, err := h.handles.Lstat(f.name); err == nil && info.Type == 0 {
			f.stamp = info.Stamp()
			again = append(again, i)
		} else { // it is gone: the first result stands
			files.done(i, f)
		}
	}
	if len(again) > 0 {
		second := toHash{len(again), func(k int) aim { return changed[again[k]].aim }, func(k int, f *hashed) { files.done(again[k], f) }}
		if err := waitQuiet(ctx, second.stamps()); err != nil {
			return err
		}
		if err := h.run(ctx, second); err != nil {
			return err
		}
	}
	h.flush()
	return nil
}

// stamps is what the files look like.
func (t toHash) stamps() iter.Seq[vfs.Stamp] {
	return func(yield func(vfs.Stamp) bool) {
		for i := range t.n {
			if !yield(t.file(i).stamp) {
				return
			}
		}
	}
}

// waitQuiet waits until files that were just written have settled. It waits at most
// one grain.
func waitQuiet(ctx context.Context, files iter.Seq[vfs.Stamp]) error {
	now := time.Now()
	var wait time.Duration
	for f := range files {
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
	return min(runtime.GOMAXPROCS(0), runtime.NumCPU())
}
