package daemon

import (
	"context"
	"sync"

	"github.com/piecelease/fetcher/catalog"
)

// queue bounds how many entries are fetched at once. Of those that wait, the one with the
// highest priority is next, and of equals the one that has waited longest.
type queue struct {
	mu    sync.Mutex
	max   int
	used  int
	waits []*waiting // in the order in which they came
}

type waiting struct {
	id       catalog.ID
	priority int
	turn     chan struct{} // closed when it is its turn
}

func newQueue(max int) *queue { return &queue{max: max} }

// enter waits for a turn, until ctx ends. leave gives the turn back.
func (q *queue) enter(ctx context.Context, id catalog.ID, priority int) error {
	w := &waiting{id, priority, make(chan struct{})}
	q.mu.Lock()
	q.waits = append(q.waits, w)
	q.call()
	q.mu.Unlock()
	select {
	case <-w.turn:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, x := range q.waits {
		if x == w {
			q.waits = append(q.waits[:i], q.waits[i+1:]...)
			return ctx.Err()
		}
	}
	return nil // its turn came at the same moment
}

func (q *queue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used--
	q.call()
}

// setMax changes the bound; entries that have a turn go on.
func (q *queue) setMax(max int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.max = max
	q.call()
}

// call gives turns to those that fit. The caller holds mu.
func (q *queue) call() {
	for q.used < q.max && len(q.waits) > 0 {
		best := 0
		for i, w := range q.waits {
			if w.priority > q.waits[best].priority {
				best = i
			}
		}
		close(q.waits[best].turn)
		q.waits = append(q.waits[:best], q.waits[best+1:]...)
		q.used++
	}
}

// before returns how many waiting entries come before an entry, if it waits.
func (q *queue) before(id catalog.ID) (n int, waits bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	mine := -1
	for i, w := range q.waits {
		if w.id == id {
			mine = i
		}
	}
	for i, w := range q.waits {
		if mine >= 0 && (w.priority > q.waits[mine].priority || w.priority == q.waits[mine].priority && i < mine) {
			n++
		}
	}
	return n, mine >= 0
}
