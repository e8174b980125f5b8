package p2p

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
)

// slowReader gives some bytes each time, after a while.
type slowReader struct {
	r     io.Reader
	bytes int
	wait  time.Duration
}

func (s slowReader) Read(b []byte) (int, error) {
	time.Sleep(s.wait)
	return s.r.Read(b[:min(len(b), s.bytes)])
}

// While a list of files comes it is told now and then how much of it has, and what ends before its size is an error.
func TestHowMuchOfAListHasComeIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := bytes.Repeat([]byte("list"), 1<<18)
		var told []int
		got, err := readList(slowReader{bytes.NewReader(list), 10_000, 100 * time.Millisecond}, len(list), new(lists).begin(nil), func(n, size int) {
			if size != len(list) {
				t.Errorf("of %d bytes", size)
			}
			told = append(told, n)
		})
		if err != nil || !bytes.Equal(got, list) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		if len(told) < 30 || len(told) > 40 || told[0] != 30_000 || told[1] != 60_000 {
			t.Errorf("told %v", told)
		}
		if got, err := readList(bytes.NewReader(list), len(list)+1, new(lists).begin(nil), nil); err != io.EOF || got != nil {
			t.Errorf("of one that is cut: %d bytes, %v", len(got), err)
		}
	})
}

// Sources that stop before the end of large lists do not fill the memory, and do not keep one from coming that comes slowly.
func TestListsThatDoNotComeToTheEndAreGivenUpForOthers(t *testing.T) {
	rig.Slow(t)
	synctest.Test(t, func(t *testing.T) {
		const size = 4 << 20
		all := &lists{most: 3 * size}
		read := func(r io.Reader, stop func()) (list []byte, givenUp bool) {
			x := all.begin(stop)
			list, _ = readList(r, size, x, nil)
			givenUp = x.end()
			if x.inTurn {
				t.Error("one that stood still is said to have come")
			}
			return list, givenUp
		}
		full := bytes.Repeat([]byte("list"), size/4)
		var honest []byte
		var kept bool
		var stopped atomic.Int32
		var ends sync.WaitGroup
		ends.Go(func() {
			var out bool
			honest, out = read(slowReader{bytes.NewReader(full), listStep, 4 * time.Second}, func() {})
			kept = !out
		})
		for n := range 6 {
			time.Sleep(time.Minute)
			rest, w := io.Pipe()
			ends.Go(func() {
				if list, out := read(io.MultiReader(bytes.NewReader(full[:size-1<<20+n]), rest), func() { w.Close() }); list == nil && out {
					stopped.Add(1)
				}
			})
			ends.Go(func() { // a byte now and then is not enough
				for range 100 {
					if _, err := w.Write([]byte{0}); err != nil {
						break
					}
					time.Sleep(3 * time.Second)
				}
				w.Close()
			})
			synctest.Wait()
			all.mu.Lock()
			if all.held > all.most {
				t.Errorf("%d bytes are held", all.held)
			}
			all.mu.Unlock()
		}
		ends.Wait()
		if !kept || !bytes.Equal(honest, full) {
			t.Error("the list that came slowly did not come")
		}
		if stopped.Load() < 3 || all.held != 0 || len(all.coming) > 0 {
			t.Errorf("%d were given up; then %d bytes of %d are held", stopped.Load(), all.held, len(all.coming))
		}
	})
}

// stoppable is a reader that can be made to fail.
type stoppable struct {
	io.Reader
	stopped atomic.Bool
}

func (s *stoppable) Read(b []byte) (int, error) {
	n, err := s.Reader.Read(b)
	if s.stopped.Load() {
		return 0, io.ErrClosedPipe
	}
	return n, err
}

// More large lists than there is room for come one after the other, as fast as each other: they do not keep throwing out those that are
// nearly there. Small ones come meanwhile, at once.
func TestMoreListsThanThereIsRoomForComeOneAfterTheOther(t *testing.T) {
	rig.Slow(t)
	synctest.Test(t, func(t *testing.T) {
		const size, large, alone = 16 << 20, 12, 64 * 4 * time.Second
		all := &lists{most: 4 * size}
		full := bytes.Repeat([]byte("list"), size/4)
		var tries atomic.Int32
		came := func(size int) bool {
			r := &stoppable{Reader: slowReader{bytes.NewReader(full), listStep, time.Second}}
			x := all.begin(func() { r.stopped.Store(true) })
			_, err := readList(r, size, x, nil)
			if x.end(); err != nil && !x.inTurn {
				t.Error("one that came is said to have come too slowly")
			}
			return err == nil
		}
		began := time.Now()
		var ends sync.WaitGroup
		for range large {
			ends.Go(func() {
				for n := 0; !came(size); n++ {
					tries.Add(1)
					time.Sleep(time.Second << min(n, 5))
				}
			})
		}
		for range 20 {
			time.Sleep(30 * time.Second)
			if !came(listStep * 4) {
				t.Error("a small list did not come")
			}
		}
		ends.Wait()
		if took := time.Since(began); took > 5*alone || tries.Load() > 10*large {
			t.Errorf("it took %v and %d more attempts", took, tries.Load())
		}
	})
}
