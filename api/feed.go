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

// Feed is the latest events, numbered. A reader that is slow costs nothing and holds
// nobody up: what it misses is lost for it, and it is told so.
type Feed struct {
	run string // tells the numbers of one run from those of another

	mu     sync.Mutex
	ring   [feedLength]Event
	next   uint64        // number of the next event
	more   chan struct{} // closed with the next event
	closed bool
}

// NewFeed is a feed without events. run is another in each run of the program.
func NewFeed(run string) *Feed { return &Feed{run: run, more: make(chan struct{})} }

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

// Close ends the feed, and the readers that wait.
func (f *Feed) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.closed {
		f.closed = true
		close(f.more)
	}
}

// Cursor is where a reader of a feed is.
type Cursor struct {
	feed *Feed
	at   uint64
	lost bool
}

// From is a cursor behind the event of that ID; empty: behind the latest. If that event
// is not known any more, the first that is read is a reset.
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

// Next is the next event, if there is one; if not, more is closed when there may be.
// ended says that there will be none.
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
		return Event{ID: fmt.Sprintf("%s-%d", f.run, int64(c.at)-1), At: time.Now(), Type: "reset"}, true, nil, false
	case c.at < f.next:
		e = f.ring[c.at%feedLength]
		c.at++
		return e, true, nil, false
	}
	return Event{}, false, f.more, f.closed
}
