package dht

import (
	"context"
	"math/rand/v2"
	"path"
	"sync"

	"github.com/hashicorp/golang-lru/simplelru"
	"github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
)

// shelf is what a node remembers for others, in memory: the library puts no bound on it. When
// it is full, any record gives way to a new one, and any of a share of which there are too many. A record's key ends in who has what the rest
// of the key names, and the library asks for all records of one such rest: they are at hand.
type shelf struct {
	mu    sync.RWMutex
	max   int
	ofKey int // of one rest
	all   map[datastore.Key]*record
	keys  []datastore.Key // of all, in no order
	under map[string]map[datastore.Key]*record
}

type record struct {
	value []byte
	at    int // in keys
}

func newShelf(max, ofKey int) *shelf {
	return &shelf{max: max, ofKey: ofKey, all: map[datastore.Key]*record{}, under: map[string]map[datastore.Key]*record{}}
}

func (s *shelf) len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.keys)
}

// Put implements datastore.Batching, as do the others.
func (s *shelf) Put(_ context.Context, k datastore.Key, v []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.all[k]; r != nil {
		r.value = v
		return nil
	}
	dir := path.Dir(k.String())
	if of := s.under[dir]; len(of) >= s.ofKey {
		for any := range of {
			s.remove(any)
			break
		}
	}
	if len(s.keys) >= s.max {
		s.remove(s.keys[rand.IntN(len(s.keys))])
	}
	r := &record{v, len(s.keys)}
	if s.under[dir] == nil {
		s.under[dir] = map[datastore.Key]*record{}
	}
	s.all[k], s.under[dir][k] = r, r
	s.keys = append(s.keys, k)
	return nil
}

func (s *shelf) Delete(_ context.Context, k datastore.Key) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(k)
	return nil
}

// remove forgets a record. The lock is held.
func (s *shelf) remove(k datastore.Key) {
	r := s.all[k]
	if r == nil {
		return
	}
	last := s.keys[len(s.keys)-1]
	s.keys[r.at], s.all[last].at = last, r.at
	s.keys = s.keys[:len(s.keys)-1]
	delete(s.all, k)
	dir := path.Dir(k.String())
	if delete(s.under[dir], k); len(s.under[dir]) == 0 {
		delete(s.under, dir)
	}
}

func (s *shelf) Get(_ context.Context, k datastore.Key) ([]byte, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if r := s.all[k]; r != nil {
		return r.value, nil
	}
	return nil, datastore.ErrNotFound
}

func (s *shelf) Has(_ context.Context, k datastore.Key) (bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.all[k] != nil, nil
}

func (s *shelf) GetSize(ctx context.Context, k datastore.Key) (int, error) {
	v, err := s.Get(ctx, k)
	return len(v), err
}

func (s *shelf) Query(_ context.Context, q query.Query) (query.Results, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	of := s.under[path.Clean(q.Prefix)]
	if path.Dir(path.Clean(q.Prefix)) == "/" {
		of = s.all // the library looks for what is too old
	}
	out := make([]query.Entry, 0, len(of))
	for k, r := range of {
		out = append(out, query.Entry{Key: k.String(), Value: r.value, Size: len(r.value)})
	}
	return query.NaiveQueryApply(q, query.ResultsWithEntries(q, out)), nil
}

func (s *shelf) Sync(context.Context, datastore.Key) error { return nil }
func (s *shelf) Close() error                              { return nil }

func (s *shelf) Batch(context.Context) (datastore.Batch, error) {
	return datastore.NewBasicBatch(s), nil
}

// forgetful is in place of the library's memory of the records that were asked for last, which has no bound
// for one share; the shelf is as fast.
type forgetful struct{ simplelru.LRUCache }

// Add implements simplelru.LRUCache, as does Get; the library calls no other.
func (forgetful) Add(any, any) bool   { return false }
func (forgetful) Get(any) (any, bool) { return nil, false }
