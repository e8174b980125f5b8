package dht

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
)

// shelf is what a node remembers for others, in memory: the library puts no bound on it. When
// it is full, any record gives way to a new one.
type shelf struct {
	mu   sync.RWMutex
	max  int
	all  *datastore.MapDatastore
	keys []datastore.Key
	at   map[datastore.Key]int // in keys
}

func newShelf(max int) *shelf {
	return &shelf{max: max, all: datastore.NewMapDatastore(), at: map[datastore.Key]int{}}
}

func (s *shelf) len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.keys)
}

func (s *shelf) Put(ctx context.Context, k datastore.Key, v []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.at[k]; !there {
		if len(s.keys) >= s.max {
			s.remove(ctx, s.keys[rand.IntN(len(s.keys))])
		}
		s.at[k] = len(s.keys)
		s.keys = append(s.keys, k)
	}
	return s.all.Put(ctx, k, v)
}

func (s *shelf) Delete(ctx context.Context, k datastore.Key) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(ctx, k)
	return nil
}

// remove forgets a record. The lock is held.
func (s *shelf) remove(ctx context.Context, k datastore.Key) {
	i, there := s.at[k]
	if !there {
		return
	}
	last := len(s.keys) - 1
	s.keys[i] = s.keys[last]
	s.at[s.keys[i]] = i
	s.keys = s.keys[:last]
	delete(s.at, k)
	_ = s.all.Delete(ctx, k) // a map
}

func (s *shelf) Get(ctx context.Context, k datastore.Key) ([]byte, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.all.Get(ctx, k)
}

func (s *shelf) Has(ctx context.Context, k datastore.Key) (bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.all.Has(ctx, k)
}

func (s *shelf) GetSize(ctx context.Context, k datastore.Key) (int, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.all.GetSize(ctx, k)
}

func (s *shelf) Query(ctx context.Context, q query.Query) (query.Results, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.all.Query(ctx, q)
}

func (s *shelf) Sync(context.Context, datastore.Key) error { return nil }
func (s *shelf) Close() error                              { return nil }

func (s *shelf) Batch(context.Context) (datastore.Batch, error) {
	return datastore.NewBasicBatch(s), nil
}
