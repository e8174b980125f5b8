// Package memkv is a store of rounds in memory, for tests and simulations: all that a
// [rounds.KV] must do, in few lines.
package memkv

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/piecelease/fetcher/rounds"
)

// KV is a store in the memory of one process; see [rounds.KV].
type KV struct {
	mu      sync.Mutex
	rev     uint64
	latest  map[string]rounds.Entry
	changed chan struct{} // closed by the next write

	// Wrote, if not nil, is told each revision, in order.
	Wrote func(rounds.Entry)
}

// New returns an empty store.
func New() *KV {
	return &KV{latest: map[string]rounds.Entry{}, changed: make(chan struct{})}
}

// Get implements [rounds.KV].
func (m *KV) Get(ctx context.Context, key string) (rounds.Entry, error) {
	if err := first(ctx.Err(), rounds.CheckKey(key)); err != nil {
		return rounds.Entry{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.latest[key]
	if !ok {
		return rounds.Entry{}, fmt.Errorf("%s: %w", key, rounds.ErrNotFound)
	}
	return e, nil
}

// Create implements [rounds.KV].
func (m *KV) Create(ctx context.Context, key string, value []byte) (uint64, error) {
	if err := first(ctx.Err(), rounds.CheckKey(key), rounds.CheckValue(value)); err != nil {
		return 0, err
	}
	return m.write(key, value, 0, rounds.ErrExists)
}

// Update implements [rounds.KV].
func (m *KV) Update(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	if err := first(ctx.Err(), rounds.CheckKey(key), rounds.CheckValue(value), known(rev)); err != nil {
		return 0, err
	}
	return m.write(key, value, rev, rounds.ErrConflict)
}

// Delete implements [rounds.KV].
func (m *KV) Delete(ctx context.Context, key string, rev uint64) (uint64, error) {
	if err := first(ctx.Err(), rounds.CheckKey(key), known(rev)); err != nil {
		return 0, err
	}
	return m.write(key, nil, rev, rounds.ErrConflict)
}

// known refuses revision 0, which no key has.
func known(rev uint64) error {
	if rev == 0 {
		return rounds.ErrConflict
	}
	return nil
}

func (m *KV) write(key string, value []byte, rev uint64, otherwise error) (uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.latest[key].Rev != rev {
		return 0, fmt.Errorf("%s: %w", key, otherwise)
	}
	m.put(key, value)
	return m.rev, nil
}

func (m *KV) put(key string, value []byte) {
	m.rev++
	e := rounds.Entry{Key: key, Value: slices.Clone(value), Rev: m.rev}
	m.latest[key] = e
	if m.Wrote != nil {
		m.Wrote(e)
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

// Overwrite replaces whatever is at a key, as an operator may.
func (m *KV) Overwrite(key string, value []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.put(key, value)
}

// Wipe removes everything, as an operator may who sets a store up anew.
func (m *KV) Wipe() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.latest)
}

// Copy returns a function that sets the store back to what it has now, revisions too, as an operator does who restores
// a copy. Nobody may watch it.
func (m *KV) Copy() (restore func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	rev, latest := m.rev, maps.Clone(m.latest)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.rev, m.latest = rev, maps.Clone(latest)
	}
}

// Watch implements [rounds.KV].
func (m *KV) Watch(ctx context.Context, key string, f func([]rounds.Entry)) error {
	if err := rounds.CheckKey(strings.TrimSuffix(key, ".")); err != nil {
		return err
	}
	var after uint64
	for round := 0; ; round++ {
		m.mu.Lock()
		changed, rev := m.changed, m.rev
		var news []rounds.Entry
		for _, e := range slices.SortedFunc(maps.Values(m.latest), func(a, b rounds.Entry) int { return int(a.Rev) - int(b.Rev) }) {
			if e.Rev > after && (e.Key == key || strings.HasSuffix(key, ".") && strings.HasPrefix(e.Key, key)) {
				news = append(news, e)
			}
		}
		m.mu.Unlock()
		if after = rev; round == 0 || len(news) > 0 {
			f(news)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
