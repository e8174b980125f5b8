package p2p

import (
	"context"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// headroom is the space before a buffer's payload where a reply's header is
// put, so that both are sent in one write. It holds the proof of a piece of 1 MiB.
const headroom = 1 << 10

// classes are the sizes of buffers: a small file, a block, and a run.
var classes = [...]int{smallBuffer, share.BlockSize, wire.MaxRun}

const smallBuffer = 4 << 10

// maxIdle is how many bytes of unused buffers of each class are kept. Buffers
// beyond that are left to the garbage collector after use.
const maxIdle = 8 << 20

// freeList hands out buffers and takes them back. It bounds what it keeps; what
// is out is bounded by the budget each buffer is taken from.
type freeList struct {
	mu   sync.Mutex
	idle [len(classes)][]*buffer // last in, first out: the warm ones first

	made atomic.Int64 // buffers made, for tests
}

// budget bounds the bytes of buffers in use for one purpose. Waiters are
// served in order.
type budget struct{ *semaphore.Weighted }

func newBudget(n int) budget { return budget{semaphore.NewWeighted(int64(n))} }

// buffer is memory for one run. It has one owner at a time, who frees it once.
type buffer struct {
	mem   []byte // headroom, then the payload
	class int
	list  *freeList
	from  budget // where its size goes back to
	inUse atomic.Bool
	free  func() // bound once, so that handing it out allocates nothing
}

// get waits until b has room for n bytes, at most wire.MaxRun, and returns a buffer
// for them. The error is ctx's.
func (f *freeList) get(ctx context.Context, b budget, n int) (*buffer, error) {
	if buf := f.tryGet(b, n); buf != nil {
		return buf, nil
	}
	class := classOf(n)
	if err := b.Acquire(ctx, int64(classes[class])); err != nil {
		return nil, err
	}
	return f.takeFrom(b, class), nil
}

// tryGet is get without waiting: nil if there is no room.
func (f *freeList) tryGet(b budget, n int) *buffer {
	class := classOf(n)
	if !b.TryAcquire(int64(classes[class])) {
		return nil
	}
	return f.takeFrom(b, class)
}

// takeFrom returns a buffer whose size was taken from b.
func (f *freeList) takeFrom(b budget, class int) *buffer {
	buf := f.take(class)
	buf.from = b
	buf.inUse.Store(true)
	return buf
}

// classOf is the smallest class of n bytes.
func classOf(n int) (class int) {
	for class < len(classes)-1 && n > classes[class] {
		class++
	}
	return class
}

// take returns a buffer that counts against no budget.
func (f *freeList) take(class int) *buffer {
	f.mu.Lock()
	if idle := f.idle[class]; len(idle) > 0 {
		buf := idle[len(idle)-1]
		f.idle[class] = idle[:len(idle)-1]
		f.mu.Unlock()
		return buf
	}
	f.mu.Unlock()
	f.made.Add(1)
	buf := &buffer{mem: make([]byte, headroom+classes[class]), class: class, list: f}
	buf.free = buf.release
	return buf
}

// put returns a buffer of take.
func (f *freeList) put(b *buffer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.idle[b.class]) < maxIdle/classes[b.class] {
		f.idle[b.class] = append(f.idle[b.class], b)
	}
}

// release returns a buffer of get.
func (b *buffer) release() {
	if !b.inUse.CompareAndSwap(true, false) {
		panic("p2p: a run was released twice")
	}
	from := b.from
	b.list.put(b)
	from.Release(int64(classes[b.class]))
}

// payload is the first n bytes behind the headroom.
func (b *buffer) payload(n int) []byte { return b.mem[headroom : headroom+n : headroom+n] }
