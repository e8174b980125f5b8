package fetcher

import (
	"context"
	"slices"
	"sync"
)

// maxEvents is how many events wait for a reader, and how many past events a new reader gets.
const maxEvents = 256

// feed passes events on to any number of readers. A reader loses what it does not take in time,
// except for the last event of all.
type feed[E any] struct {
	mu      sync.Mutex
	before  []E // the last maxEvents
	readers []*eventReader[E]
	over    bool
}

type eventReader[E any] struct {
	events chan E
	stop   func() bool // stops waiting for the end of its context
}

// read adds a reader, until ctx or the feed ends. It begins with the past events.
func (f *feed[E]) read(ctx context.Context) <-chan E {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &eventReader[E]{events: make(chan E, maxEvents)}
	for _, e := range f.before {
		r.events <- e
	}
	if f.over {
		close(r.events)
		return r.events
	}
	f.readers = append(f.readers, r)
	r.stop = context.AfterFunc(ctx, func() { f.leave(r) })
	return r.events
}

// leave ends a reader whose context has ended.
func (f *feed[E]) leave(r *eventReader[E]) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := slices.Index(f.readers, r); i >= 0 {
		f.readers = slices.Delete(f.readers, i, i+1)
		close(r.events)
	}
}

// say passes an event on. It never blocks.
func (f *feed[E]) say(e E) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.over {
		f.pass(e, false)
	}
}

// end passes the last events on, which no reader loses, and ends the feed.
func (f *feed[E]) end(last ...E) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return
	}
	for _, e := range last {
		f.pass(e, true)
	}
	f.over = true
	for _, r := range f.readers {
		r.stop()
		close(r.events)
	}
	f.readers = nil
}

// pass gives an event to all readers; if they must have it, a full reader loses its oldest
// for it. mu is held, so that nobody else gives them any.
func (f *feed[E]) pass(e E, must bool) {
	if len(f.before) == maxEvents {
		f.before = slices.Delete(f.before, 0, 1)
	}
	f.before = append(f.before, e)
	for _, r := range f.readers {
		if must && len(r.events) == maxEvents {
			select {
			case <-r.events:
			default: // it has just taken one itself
			}
		}
		select {
		case r.events <- e:
		default:
		}
	}
}
