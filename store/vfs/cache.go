package vfs

import (
	"container/list"
	"io"
	"sync"
)

// Cache keeps values open that are slow to open and count against a limit: at
// most max of them, apart from those in use. The least recently used is closed first.
type Cache[K comparable, V io.Closer] struct {
	max     int
	OnClose func(K, error) // told how each Close went; may be nil

	mu   sync.Mutex // guards the fields below, never held while something opens or closes
	all  map[K]*Held[K, V]
	idle list.List // of *held, longest unused first
}

// Held is a value of a cache, and a claim on it until Put.
type Held[K comparable, V io.Closer] struct {
	key  K
	open sync.Once
	V    V
	err  error

	// Guarded by cache.mu.
	users   int
	dropped bool          // no longer in all; the last user closes it
	place   *list.Element // in idle; nil while used
}

// Get returns the value of key, opening it unless it is open. Each Get without error needs a Put.
func (c *Cache[K, V]) Get(key K, open func() (V, error)) (*Held[K, V], error) {
	c.mu.Lock()
	h := c.all[key]
	if h == nil {
		h = &Held[K, V]{key: key}
		if c.all == nil {
			c.all = map[K]*Held[K, V]{}
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
	h.open.Do(func() { h.V, h.err = open() })
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

// shrink closes all idle values, and keeps half as many from now on.
func (c *Cache[K, V]) shrink() {
	c.mu.Lock()
	c.max = max(1, len(c.all)/2)
	var gone []*Held[K, V]
	for c.idle.Len() > 0 {
		gone = append(gone, c.takeIdle())
	}
	c.mu.Unlock()
	for _, h := range gone {
		c.close(h)
	}
}

// victim takes one idle value out when there are too many.
func (c *Cache[K, V]) victim() *Held[K, V] {
	if len(c.all) <= c.max || c.idle.Len() == 0 {
		return nil
	}
	return c.takeIdle()
}

// takeIdle takes out the least recently used value; there is one, and mu is held.
func (c *Cache[K, V]) takeIdle() *Held[K, V] {
	h := c.idle.Remove(c.idle.Front()).(*Held[K, V])
	h.place, h.dropped = nil, true
	delete(c.all, h.key)
	return h
}

// Put gives a claim back.
func (c *Cache[K, V]) Put(h *Held[K, V]) {
	c.mu.Lock()
	h.users--
	var gone *Held[K, V]
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

// Drop forgets a value. It is closed at once, or when its last user is done.
func (c *Cache[K, V]) Drop(key K) {
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

// Clear drops everything.
func (c *Cache[K, V]) Clear() {
	c.mu.Lock()
	keys := make([]K, 0, len(c.all))
	for k := range c.all {
		keys = append(keys, k)
	}
	c.mu.Unlock()
	for _, k := range keys {
		c.Drop(k)
	}
}

func (c *Cache[K, V]) close(h *Held[K, V]) {
	if h == nil || h.err != nil {
		return
	}
	err := h.V.Close()
	if c.OnClose != nil {
		c.OnClose(h.key, err)
	}
}
