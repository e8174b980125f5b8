package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	actorsystem "github.com/piecelease/fetcher/actors/system"
)

// tune bounds the memory of the process: the blocks in flight are a fixed budget, so a
// collector that waits for the heap to double would use twice that. The percentage follows
// what is in use: a small heap is not collected again and again for a few MB of messages, and
// a large one, such as the list of a million files, needs no room of half its size.
func tune() {
	actorsystem.Lean()
	if os.Getenv("GOGC") == "" {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		percent := 0
		afterEach(func() {
			metrics.Read(live)
			if p := collectAt(live[0].Value.Uint64()); p != percent {
				percent = p
				debug.SetGCPercent(p)
			}
		})
	}
}

// What may be allocated between two collections is half of what is in use, within these
// bounds, in bytes.
const (
	leastRoom = 12 << 20
	mostRoom  = 48 << 20
)

// collectAt is the percentage at which the collector leaves that room, in steps of a twelfth or
// less, since setting it stops the program for a moment.
func collectAt(live uint64) int {
	live = max(live, 4<<20)
	percent := int(min(max(live/2, leastRoom), mostRoom) * 100 / live)
	step := max(percent/12, 1)
	return percent / step * step
}

// afterEach calls f now, and after each collection.
func afterEach(f func()) {
	type beat struct{ f func() }
	var again func(*beat)
	again = func(b *beat) {
		b.f()
		runtime.SetFinalizer(b, again)
	}
	again(&beat{f})
}
