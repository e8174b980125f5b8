package api

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Event says that something has changed.
type Event struct {
	ID    string    `json:"id" doc:"give the last one back to go on from there"`
	At    time.Time `json:"t"`
	Type  string    `json:"type" enum:"entry,removed,limits,holds,reset" doc:"reset: what came before is lost; read everything again"`
	Entry *Entry    `json:"entry,omitempty" doc:"entry, removed: as it is, or was"`
}

// feedLength is how many events are kept for readers that come back or are slow.
const feedLength = 2048

// Feed has the latest events, numbered. A slow reader costs nothing and delays nobody: it
// loses the events that it misses, and is told so.
type Feed struct {
	run string // tells the numbers of one run from those of another

	mu     sync.Mutex
	ring   [feedLength]Event
	next   uint64        // number of the next event; the first is 1, so that what was before it has a number too
	more   chan struct{} // closed when the next event comes
	closed bool
}

// NewFeed returns a feed without events. run must differ in each run of the program.
func NewFeed(run string) *Feed { return &Feed{run: run, next: 1, more: make(chan struct{})} }

// Publish adds an event, whose ID it sets.
func (f *Feed) Publish(e Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	e.ID = fmt.Sprintf("%s-%d", f.run, f.next)
	f.ring[f.next%feedLength] = e
	f.next++
	close(f.more)
	f.more = make(chan struct{})
}

// Close ends the feed, and wakes the readers that wait.
func (f *Feed) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.closed = true
		close(f.more)
	}
}

// Cursor is the position of a reader in a feed.
type Cursor struct {
	feed *Feed
	at   uint64
	lost bool
}

// From returns a cursor after the event with that ID; empty: after the latest. If that event
// is no longer known, the first event read is a reset.
func (f *Feed) From(id string) *Cursor {
	f.mu.Lock()
	defer f.mu.Unlock()
	if id == "" {
		return &Cursor{feed: f, at: f.next}
	}
	run, number, _ := strings.Cut(id, "-")
	n, err := strconv.ParseUint(number, 10, 64)
	if run != f.run || err != nil || n >= f.next {
		return &Cursor{feed: f, at: f.next, lost: true}
	}
	return &Cursor{feed: f, at: n + 1}
}

// Next returns the next event, if there is one; if not, more is closed when there may be one,
// and ended says that there will be none.
func (c *Cursor) Next() (e Event, ok bool, more <-chan struct{}, ended bool) {
	f := c.feed
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.at+feedLength < f.next {
		c.at, c.lost = f.next, true
	}
	switch {
	case c.lost:
		c.lost = false
		return Event{ID: fmt.Sprintf("%s-%d", f.run, c.at-1), At: time.Now(), Type: "reset"}, true, nil, false
	case c.at < f.next:
		e = f.ring[c.at%feedLength]
		c.at++
		return e, true, nil, false
	}
	return Event{}, false, f.more, f.closed
}
