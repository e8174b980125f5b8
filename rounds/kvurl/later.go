package kvurl

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
func Later(at string) (*Patient, error) {
	if at == "sqlite:" {
		return nil, fmt.Errorf(`%w: a path must follow "sqlite:"`, ErrURL)
	}
	if !strings.HasPrefix(at, "sqlite:") {
		if _, err := parse(at); err != nil {
			return nil, err
		}
	}
	l := &Patient{tried: make(chan struct{})}
	l.life, l.end = context.WithCancel(context.Background())
	l.run.Go(func() { l.connect(at) })
	return l, nil
}

// Patient is a store that may not be there yet; see [Later].
type Patient struct {
	life  context.Context
	end   context.CancelFunc
	run   sync.WaitGroup
	tried chan struct{} // closed when the first attempt has ended

	mu    sync.Mutex // guards the fields below
	store Store      // nil: not reached yet
	err   error      // why it was not reached
	away  Away
}

// Away is since when a store has not answered, and the error of its last call. It is zero while the store
// answers.
type Away struct {
	Since time.Time
	Why   error
}

// Away returns whether the last call of the store was answered.
func (l *Patient) Away() Away {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.away
}

// note notes how a call ended; given is that the caller gave it up, which says nothing of the store.
func (l *Patient) note(err error, given bool) {
	answers := err == nil || slices.ContainsFunc([]error{rounds.ErrNotFound, rounds.ErrExists, rounds.ErrConflict, rounds.ErrKey, rounds.ErrTooLarge},
		func(is error) bool { return errors.Is(err, is) })
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case answers:
		l.away = Away{}
	case given:
	case l.away.Why == nil:
		l.away = Away{time.Now(), err}
	default:
		l.away.Why = err
	}
}

// connect opens the store, trying until that succeeds.
func (l *Patient) connect(at string) {
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
func (l *Patient) reached(ctx context.Context) (Store, error) {
	select {
	case <-l.tried:
	case <-ctx.Done():
		return nil, rounds.Unanswered(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.store, l.err
}

// through makes a call of the store, once that is reached, and notes whether it answered.
func through[T any](ctx context.Context, l *Patient, call func(Store) (T, error)) (out T, err error) {
	s, err := l.reached(ctx)
	if err == nil {
		out, err = call(s)
	}
	l.note(err, errors.Is(ctx.Err(), context.Canceled))
	return out, err
}

func (l *Patient) Get(ctx context.Context, key string) (rounds.Entry, error) {
	return through(ctx, l, func(s Store) (rounds.Entry, error) { return s.Get(ctx, key) })
}

func (l *Patient) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	return through(ctx, l, func(s Store) (uint64, error) { return s.Create(ctx, key, value) })
}

func (l *Patient) Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	return through(ctx, l, func(s Store) (uint64, error) { return s.Update(ctx, key, value, rev) })
}

func (l *Patient) Delete(ctx context.Context, key string, rev uint64) (uint64, error) {
	return through(ctx, l, func(s Store) (uint64, error) { return s.Delete(ctx, key, rev) })
}

func (l *Patient) Watch(ctx context.Context, key string, f func([]rounds.Entry)) error {
	_, err := through(ctx, l, func(s Store) (none struct{}, err error) {
		return none, s.Watch(ctx, key, func(news []rounds.Entry) {
			l.note(nil, false)
			f(news)
		})
	})
	return err
}

// errClosed is returned by calls to a closed store.
var errClosed = errors.New("the store was closed")

func (l *Patient) Close() error {
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
