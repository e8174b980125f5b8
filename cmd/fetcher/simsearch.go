package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/piecelease/fetcher/simnet"
)

// search runs a scenario with one seed after another, a world on each core at a
// time, until one does not hold or all are tried. The worlds share nothing.
type search struct {
	scenario *simnet.Scenario
	first    uint64
	seeds    int
	nodes    int
	record   bool
	tell     func(now time.Duration) // the progress of a run; only with one seed; may be nil
	told     func(seen)              // called with each run that ended, one call at a time

	mu      sync.Mutex                 // guards the fields below
	next    int                        // of the seeds
	lowest  int                        // of the seeds that failed, by number; so many as there are: none did
	failed  *seen                      // its run
	broken  error                      // ... or its panic
	running map[int]context.CancelFunc // by number of the seed
}

// seen is one run, and how long it took in real time.
type seen struct {
	*simnet.Result
	wall time.Duration
}

// run ends with the run of the lowest seed that does not hold, or with its panic, or with none, or
// with the context. It waits for all that it started.
func (s *search) run(ctx context.Context) (failed *seen, err error) {
	s.running, s.lowest = map[int]context.CancelFunc{}, s.seeds
	var all sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), s.seeds) {
		all.Go(func() {
			for s.one(ctx) {
			}
		})
	}
	all.Wait()
	if s.broken != nil {
		return nil, s.broken
	}
	return s.failed, ctx.Err()
}

// one runs the next seed. It returns false if there is none, or no need.
func (s *search) one(ctx context.Context) bool {
	s.mu.Lock()
	if s.lowest < s.seeds || s.next == s.seeds || ctx.Err() != nil {
		s.mu.Unlock()
		return false
	}
	i := s.next
	s.next++
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.running[i] = cancel
	s.mu.Unlock()

	began := time.Now()
	r, err := s.world(ctx, s.first+uint64(i))

	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, i)
	if err != nil && ctx.Err() != nil {
		return false
	}
	x := seen{r, time.Since(began)}
	if err == nil {
		s.told(x)
	}
	if err == nil && r.OK() {
		return true
	}
	if i < s.lowest {
		s.lowest, s.failed, s.broken = i, &x, err
	}
	for k, stop := range s.running {
		if k > i {
			stop() // a lower seed that fails is still wanted
		}
	}
	return false
}

// world is one run. A panic in it is an error with its seed, so that it can be
// reproduced.
func (s *search) world(ctx context.Context, seed uint64) (r *simnet.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s with seed %d panics: %v\n%s", s.scenario.Name, seed, p, debug.Stack())
		}
	}()
	return s.scenario.RunWith(ctx, simnet.RunOptions{Seed: seed, Nodes: s.nodes, Record: s.record, Tell: s.tell})
}
