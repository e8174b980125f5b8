package system

import "time"

// event is something that happens at a time.
type event struct {
	w     *World
	at    time.Duration
	seq   uint64 // events of one instant happen in the order they were made
	f     func()
	owner *System // nil: the world
	index int     // in the heap; -1 when it has happened or was stopped
}

// Stop takes the event back. False: it has happened, or was stopped before.
func (e *event) Stop() bool {
	if e.index < 0 {
		return false
	}
	e.w.events.remove(e.index)
	return true
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// heap is a binary heap whose elements know their place.
type heap []*event

func (h heap) swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h heap) up(i int) {
	for p := (i - 1) / 2; i > 0 && h[i].before(h[p]); p = (i - 1) / 2 {
		h.swap(i, p)
		i = p
	}
}

func (h heap) down(i int) {
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && h[c+1].before(h[c]) {
			c++
		}
		if !h[c].before(h[i]) {
			return
		}
		h.swap(i, c)
		i = c
	}
}

func (h *heap) push(e *event) {
	e.index = len(*h)
	*h = append(*h, e)
	h.up(e.index)
}

func (h *heap) pop() *event { return h.remove(0) }

func (h *heap) remove(i int) *event {
	e, last := (*h)[i], len(*h)-1
	h.swap(i, last)
	(*h)[last] = nil
	*h = (*h)[:last]
	if i < last {
		h.down(i)
		h.up(i)
	}
	e.index = -1
	return e
}
