package p2p

import (
	"slices"
	"sync"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

// kids is what each child uses of our memory, over all its streams.
type kids struct {
	mu   sync.Mutex
	each map[peers.ID]*kid
	room int // bytes that parked replies may hold
	held int // ... and hold
}

// kid is one child.
type kid struct {
	id      peers.ID
	streams int      // open; guarded by kids.mu
	parked  []*child // streams whose replies are parked, longest first; guarded by kids.mu
	memory  budget   // bytes on their way to it
	queue   budget   // requests read ahead, in units of one
}

func (k *kids) join(id peers.ID, serveBytes int) *kid {
	k.mu.Lock()
	defer k.mu.Unlock()
	c := k.each[id]
	if c == nil {
		c = &kid{id: id, memory: newBudget(max(1<<20, serveBytes/childPart)), queue: newBudget(childPipeline)}
		k.each[id] = c
	}
	c.streams++
	return c
}

func (k *kids) leave(c *kid) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if c.streams--; c.streams == 0 {
		delete(k.each, c.id)
	}
}

// park counts the memory of a stream that its child is not reading. When parked streams
// hold too much, one is cut: the oldest of the child that has most of them. A slow
// child has few, and one that wants to make us hold memory has many.
func (k *kids) park(c *child) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c.kid.parked = append(c.kid.parked, c)
	if k.held += wire.MaxRun; k.held <= k.room {
		return
	}
	most := c.kid
	for _, x := range k.each {
		if len(x.parked) > len(most.parked) {
			most = x
		}
	}
	cut := most.parked[0]
	k.unpark(cut)
	cut.cut()
}

// moved is called when a stream that was parked holds nothing any more.
func (k *kids) moved(c *child) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unpark(c)
}

// unpark is moved with mu held. A stream that was cut has been counted already.
func (k *kids) unpark(c *child) {
	if i := slices.Index(c.kid.parked, c); i >= 0 {
		c.kid.parked = slices.Delete(c.kid.parked, i, i+1)
		k.held -= wire.MaxRun
	}
}
