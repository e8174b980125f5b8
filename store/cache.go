package store

import (
	"container/list"
	"io"
	"sync"
)

// cache keeps values open that are slow to open and count against a limit: at
// most max of them, but for those in use. The one longest unused is closed first.
type cache[K comparable, V io.Closer] struct {
	max     int
	onClose func(K, error) // told how each Close went; may be nil

	mu   sync.Mutex // guards the fields below, never held while something opens or closes
	all  map[K]*held[K, V]
	idle list.List // of *held, longest unused first
}

// held is a value of a cache, and a claim on it until put.
type held[K comparable, V io.Closer] struct {
	key  K
	open sync.Once
	v    V
	err  error

	// Guarded by cache.mu.
	users   int
	dropped bool          // no longer in all; the last user closes it
	place   *list.Element // in idle; nil while used
}

// get is the value of key, opened unless it is. Each get without error needs a put.
func (c *cache[K, V]) get(key K, open func() (V, error)) (*held[K, V], error) {
	c.mu.Lock()
	h := c.all[key]
	if h == nil {
		h = &held[K, V]{key: key}
		if c.all == nil {
			c.all = map[K]*held[K, V]{}
		}
		c.all[key] = h
	}
	h.users++
	if h.place != nil {
		c.idle.Remove(h.place)
		h.place = nil
	}
	victim := c.victim()
	c.mu.Unlock()
	c.close(victim)
	h.open.Do(func() { h.v, h.err = open() })
	if h.err == nil {
		return h, nil
	}
	c.mu.Lock()
	h.users--
	if !h.dropped {
		h.dropped = true
		delete(c.all, key)
	}
	c.mu.Unlock()
	return nil, h.err
}

// victim takes one idle value out when there are too many.
func (c *cache[K, V]) victim() *held[K, V] {
	if len(c.all) <= c.max || c.idle.Len() == 0 {
		return nil
	}
	h := c.idle.Remove(c.idle.Front()).(*held[K, V])
	h.place, h.dropped = nil, true
	delete(c.all, h.key)
	return h
}

// put gives a claim back.
func (c *cache[K, V]) put(h *held[K, V]) {
	c.mu.Lock()
	h.users--
	var gone *held[K, V]
	if h.users == 0 {
		if h.dropped {
			gone = h
		} else {
			h.place = c.idle.PushBack(h)
			gone = c.victim()
		}
	}
	c.mu.Unlock()
	c.close(gone)
}

// drop forgets a value. It is closed at once, or when its last user is done.
func (c *cache[K, V]) drop(key K) {
	c.mu.Lock()
	h := c.all[key]
	if h != nil {
		delete(c.all, key)
		h.dropped = true
		if h.place != nil {
			c.idle.Remove(h.place)
			h.place = nil
		} else {
			h = nil
		}
	}
	c.mu.Unlock()
	c.close(h)
}

// clear drops everything.
func (c *cache[K, V]) clear() {
	c.mu.Lock()
	keys := make([]K, 0, len(c.all))
	for k := range c.all {
		keys = append(keys, k)
	}
	c.mu.Unlock()
	for _, k := range keys {
		c.drop(k)
	}
}

func (c *cache[K, V]) close(h *held[K, V]) {
	if h == nil || h.err != nil {
		return
	}
	err := h.v.Close()
	if c.onClose != nil {
		c.onClose(h.key, err)
	}
}
