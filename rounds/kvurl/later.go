package kvurl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/piecelease/fetcher/rounds"
)

// retryAfter is how often a store that cannot be reached is tried.
const retryAfter = 2 * time.Second

// Later is the store that a URL names, even if it cannot be reached yet: Later keeps trying
// until it can. Until then calls fail once the first attempt has failed. The only error is
// a text that is not the URL of a store. Close it.
func Later(at string) (Store, error) {
	if at == "sqlite:" {
		return nil, fmt.Errorf("%w: sqlite: needs a path", ErrURL)
	}
	if !strings.HasPrefix(at, "sqlite:") {
		if _, err := parse(at); err != nil {
			return nil, err
		}
	}
	l := &later{tried: make(chan struct{})}
	l.life, l.end = context.WithCancel(context.Background())
	l.run.Go(func() { l.connect(at) })
	return l, nil
}

// later is a store that is being connected to.
type later struct {
	life  context.Context
	end   context.CancelFunc
	run   sync.WaitGroup
	tried chan struct{} // closed when the first attempt has ended

	mu    sync.Mutex // guards the fields below
	store Store      // nil: not reached yet
	err   error      // why it was not reached
}

// connect opens the store, trying until that succeeds.
func (l *later) connect(at string) {
	for first := true; ; first = false {
		s, err := Open(l.life, at)
		l.mu.Lock()
		l.store, l.err = s, err
		l.mu.Unlock()
		if first {
			close(l.tried)
		}
		if err == nil {
			return
		}
		select {
		case <-l.life.Done():
			return
		case <-time.After(retryAfter):
		}
	}
}

// reached is the store, or why it is not there.
func (l *later) reached(ctx context.Context) (Store, error) {
	select {
	case <-l.tried:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.store, l.err
}

func (l *later) Get(ctx context.Context, key string) (rounds.Entry, error) {
	s, err := l.reached(ctx)
	if err != nil {
		return rounds.Entry{}, err
	}
	return s.Get(ctx, key)
}

func (l *later) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	s, err := l.reached(ctx)
	if err != nil {
		return 0, err
	}
	return s.Create(ctx, key, value)
}

func (l *later) Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	s, err := l.reached(ctx)
	if err != nil {
		return 0, err
	}
	return s.Update(ctx, key, value, rev)
}

func (l *later) Delete(ctx context.Context, key string, rev uint64) (uint64, error) {
	s, err := l.reached(ctx)
	if err != nil {
		return 0, err
	}
	return s.Delete(ctx, key, rev)
}

func (l *later) Watch(ctx context.Context, key string, f func([]rounds.Entry)) error {
	s, err := l.reached(ctx)
	if err != nil {
		return err
	}
	return s.Watch(ctx, key, f)
}

// errClosed is returned by calls to a closed store.
var errClosed = errors.New("the store was closed")

func (l *later) Close() error {
	l.end()
	l.run.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.store
	l.store, l.err = nil, errClosed
	if s == nil {
		return nil
	}
	return s.Close()
}
