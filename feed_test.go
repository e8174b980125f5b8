package fetcher

import (
	"context"
	"testing"
	"testing/synctest"
)

// taken returns how many events a reader has, and the last of them, once the channel is closed.
func taken(c <-chan int) (n, last int) {
	for e := range c {
		n, last = n+1, e
	}
	return n, last
}

func TestEachReaderHearsOfEachEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f feed[int]
		f.say(1)
		early := f.read(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		left := f.read(ctx)
		f.say(2)
		cancel()
		synctest.Wait()
		slow := f.read(t.Context())
		for i := 3; i <= maxEvents+10; i++ {
			f.say(i)
			if e := <-early; e != i-2 {
				t.Fatalf("%d came for %d", e, i-2)
			}
		}
		f.end(-1)
		f.say(5)
		f.end(6)
		if n, last := taken(early); n != 3 || last != -1 {
			t.Errorf("the one that reads has %d more, the last %d", n, last)
		}
		if n, last := taken(left); n != 2 || last != 2 {
			t.Errorf("the one that left has %d, the last %d", n, last)
		}
		if n, last := taken(slow); n != maxEvents || last != -1 {
			t.Errorf("the one that was slow has %d, the last %d", n, last)
		}
		if n, last := taken(f.read(t.Context())); n != maxEvents || last != -1 {
			t.Errorf("the one that came late has %d, the last %d", n, last)
		}
	})
}
