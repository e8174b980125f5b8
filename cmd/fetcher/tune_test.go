package main

import (
	"runtime"
	"testing"
	"time"
)

// A small heap is collected after 12 MiB of new memory, a large one after 48 MiB, and one in between
// when it has grown by half.
func TestTheCollectorLeavesRoom(t *testing.T) {
	for _, x := range []struct{ live, least, most uint64 }{
		{1 << 20, 2 << 20, 12 << 20}, {8 << 20, 11 << 20, 12 << 20}, {40 << 20, 18 << 20, 20 << 20}, {64 << 20, 29 << 20, 32 << 20},
		{200 << 20, 44 << 20, 48 << 20}, {2 << 30, 40 << 20, 48 << 20},
	} {
		if room := x.live * uint64(collectAt(x.live)) / 100; room < x.least || room > x.most {
			t.Errorf("%d bytes in use: room for %d more, want %d to %d", x.live, room, x.least, x.most)
		}
	}
}

func TestAfterEachCollection(t *testing.T) {
	beats := make(chan struct{}, 100)
	afterEach(func() { beats <- struct{}{} })
	for range 4 { // now, and after three collections
		select {
		case <-beats:
		case <-time.After(30 * time.Second):
			t.Fatal("no call after a collection")
		}
		runtime.GC()
	}
}
