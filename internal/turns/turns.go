// Package turns has what must not be done twice at once for the same thing be done one after the
// other, and for other things meanwhile. It promises nothing to outsiders.
package turns

import (
	"context"
	"sync"
)

// Turns may be used from several goroutines. The zero value is ready.
type Turns[K comparable] struct {
	mu    sync.Mutex
	taken map[K]chan struct{} // closed when the turn ends
}

// Take waits for the turn of k, and takes it until leave is called, once. It fails only with
// ctx's error.
func (t *Turns[K]) Take(ctx context.Context, k K) (leave func(), err error) {
	for {
		t.mu.Lock()
		other := t.taken[k]
		if other == nil {
			break
		}
		t.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer t.mu.Unlock()
	if t.taken == nil {
		t.taken = map[K]chan struct{}{}
	}
	done := make(chan struct{})
	t.taken[k] = done
	return func() {
		t.mu.Lock()
		delete(t.taken, k)
		t.mu.Unlock()
		close(done)
	}, nil
}

// Try takes the turn of k as Take does, unless it is taken.
func (t *Turns[K]) Try(k K) (leave func(), ok bool) {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	leave, err := t.Take(now, k)
	return leave, err == nil
}
