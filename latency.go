package fetcher

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/piecelease/fetcher/store"
)

// Latency says how long something took, each time that it was done.
type Latency struct {
	Count  uint64
	Total  time.Duration
	Within map[time.Duration]uint64 // how often it took at most so long
}

// bounds of Latency.Within, in milliseconds.
var latencyBounds = [...]time.Duration{1, 5, 20, 50, 100, 250, 500, 1000, 2500, 10_000}

// stopwatch counts for a Latency.
type stopwatch struct {
	count, total atomic.Int64
	slots        [len(latencyBounds)]atomic.Uint64 // by the first bound that it kept to
}

func (w *stopwatch) took(d time.Duration) {
	w.count.Add(1)
	w.total.Add(int64(d))
	for i, most := range latencyBounds {
		if d <= most*time.Millisecond {
			w.slots[i].Add(1)
			return
		}
	}
}

func (w *stopwatch) latency() Latency {
	l := Latency{Within: map[time.Duration]uint64{}}
	sum := uint64(0)
	for i, most := range latencyBounds {
		sum += w.slots[i].Load()
		l.Within[most*time.Millisecond] = sum
	}
	l.Count, l.Total = max(sum, uint64(w.count.Load())), time.Duration(w.total.Load())
	return l
}

// timed is a place on disk. What makes something durable there is timed.
type timed struct {
	*store.Partial
	*stopwatch
}

func (t timed) Sync() (durable int, err error) {
	began := time.Now()
	defer func() { t.took(time.Since(began)) }()
	return t.Partial.Sync()
}

func (t timed) Finish(ctx context.Context) (path string, err error) {
	began := time.Now()
	defer func() { t.took(time.Since(began)) }()
	return t.Partial.Finish(ctx)
}
