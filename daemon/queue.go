package daemon

import (
	"cmp"
	"slices"
	"sync"

	"github.com/piecelease/fetcher/catalog"
)

// queue bounds how many entries are fetched at once. Of those that wait, the one with the
// highest priority is next, and of equals the one that has waited longest.
type queue struct {
	mu    sync.Mutex
	max   int
	used  int
	came  int
	waits []*waiting // the next one first
	of    map[catalog.ID]*waiting
}

// waiting is the place of an entry in the queue, or its turn.
type waiting struct {
	id       catalog.ID
	priority int
	number   int           // how many came before it
	turn     chan struct{} // closed when it is its turn; nil: it neither waits nor has one
}

func newQueue(max int) *queue { return &queue{max: max, of: map[catalog.ID]*waiting{}} }

// enter gives an entry the last place of a priority, or a turn. One that waits has waited for as long as before. leave gives back
// either, if there is one.
func (q *queue) enter(w *waiting, priority int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case w.turn == nil:
		w.number, w.turn = q.came, make(chan struct{})
		q.came++
	case w.priority == priority || !q.take(w):
		return
	}
	w.priority = priority
	q.put(w)
	q.call()
}

func (q *queue) leave(w *waiting) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w.turn != nil && !q.take(w) {
		q.used--
		q.call()
	}
	w.turn = nil
}

// setMax changes the bound; entries that have a turn go on.
func (q *queue) setMax(max int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.max = max
	q.call()
}

// call gives turns to those that fit. The caller holds mu, as for the methods below.
func (q *queue) call() {
	for q.used < q.max && len(q.waits) > 0 {
		next := q.waits[0]
		q.take(next)
		close(next.turn)
		q.used++
	}
}

func (q *queue) put(w *waiting) {
	i, _ := q.place(w)
	q.waits, q.of[w.id] = slices.Insert(q.waits, i, w), w
}

// take takes an entry out if it waits.
func (q *queue) take(w *waiting) bool {
	i, waits := q.place(w)
	if waits {
		q.waits = slices.Delete(q.waits, i, i+1)
		delete(q.of, w.id)
	}
	return waits
}

// place returns how many waiting entries come before one, and whether it waits itself.
func (q *queue) place(w *waiting) (n int, waits bool) {
	return slices.BinarySearchFunc(q.waits, w, func(a, b *waiting) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.number, b.number))
	})
}

// before returns how many waiting entries come before an entry, if it waits.
func (q *queue) before(id catalog.ID) (n int, waits bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if w := q.of[id]; w != nil {
		return q.place(w)
	}
	return 0, false
}
