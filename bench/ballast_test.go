//go:build linux

package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ballast is memory that a benchmark keeps for the page cache of the files it
// is about to have written. Free memory that is idle for two seconds may go
// back to the host of a virtual machine; freed just ahead of the writer, it is
// still there.
//
// It is touched in small pages: the allocator uses up its small fragments
// before it splits what is large, so those must be warm too.
type ballast struct {
	mem  []byte
	held int // mem[:held] is touched
}

// How much is kept free before the writer: what it wrote in the last second.
// With less, part of what it gets is cold; with more, it goes cold meanwhile.
const (
	minAhead = 256 << 20
	maxAhead = 1 << 30
)

const releaseStep = 2 << 20

// newBallast is for files of size bytes. Without enough memory, or if it is
// not wanted, it is empty and does nothing.
func newBallast(tb testing.TB, size int64) *ballast {
	b := &ballast{}
	if !cfg.hot {
		return b
	}
	if need, have := 2*size+2*maxAhead, memAvailable(); need > have {
		fmt.Printf("not keeping memory warm: that needs %d MiB of %d available\n", need>>20, have>>20)
		return b
	}
	b.take(tb, int(size)+maxAhead)
	return b
}

// take maps and touches n bytes.
func (b *ballast) take(tb testing.TB, n int) {
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		tb.Fatalf("keep memory warm (asked for with BENCH_HOT=1): %v", err)
	}
	tb.Cleanup(func() { unix.Munmap(mem) })
	unix.Madvise(mem, unix.MADV_NOHUGEPAGE) // a hint
	b.mem = mem
	b.fill()
}

// fill takes back everything that was released. Call it right after the written files were removed.
func (b *ballast) fill() {
	for ; b.held < len(b.mem); b.held += os.Getpagesize() {
		b.mem[b.held] = 1
	}
}

// release lets go until total bytes are free since fill.
func (b *ballast) release(total int64) {
	to := max(len(b.mem)-int(total)&^(releaseStep-1), 0)
	if to < b.held {
		unix.Madvise(b.mem[to:b.held], unix.MADV_DONTNEED)
		b.held = to
	}
}

// feed keeps the writer p supplied until stop is called.
func (b *ballast) feed(p *proc) (stop func()) {
	quit := make(chan struct{})
	var g sync.WaitGroup
	b.release(2 * minAhead)
	g.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		var second [50]int64 // what was written by each tick of the last second
		for i := 0; ; i++ {
			select {
			case <-quit:
				return
			case <-tick.C:
				now, then := p.dirtied(), &second[i%len(second)]
				b.release(now + min(max(now-*then, minAhead), maxAhead))
				*then = now
			}
		}
	})
	return func() {
		close(quit)
		g.Wait()
	}
}

// memAvailable is how much memory the system could give without swapping, in bytes.
func memAvailable() int64 {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(b), "MemAvailable:")
	f := strings.Fields(rest)
	if len(f) == 0 {
		return 0
	}
	kib, _ := strconv.ParseInt(f[0], 10, 64)
	return kib << 10
}
