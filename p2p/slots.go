package p2p

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/piecelease/fetcher/peers"
)

// A peer accepts at least leastFrom streams from us, and may reset others. So links and
// manifests have slots for their streams; what is left is for messages, for libp2p's
// own, and for streams that we have ended and the peer has not noticed yet.
const (
	leastFrom    = 32
	linkStreams  = 24 // to one peer, of all links
	moreStreams  = 4  // ... that are not the first of their link, or as many as one may have
	manifestAsks = 4  // manifests requested from one peer at once
	noSlotReason = "waits for its turn: this node fetches as many shares from this source as it may at once"
)

// slots are how many of something may be in use with each peer. Callers that find none wait in line.
type slots struct {
	most int

	mu   sync.Mutex
	each map[peers.ID]*slotsOf
}

type slotsOf struct {
	*semaphore.Weighted
	users int // that have one, or wait for one
}

func newSlots(most int) *slots { return &slots{most: most, each: map[peers.ID]*slotsOf{}} }

// of returns the slots of a peer, with one more user.
func (p *slots) of(id peers.ID) *slotsOf {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.each[id]
	if x == nil {
		x = &slotsOf{Weighted: semaphore.NewWeighted(int64(p.most))}
		p.each[id] = x
	}
	x.users++
	return x
}

// left notes that a user is gone.
func (p *slots) left(id peers.ID, x *slotsOf) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if x.users--; x.users == 0 {
		delete(p.each, id)
	}
}

// tryTake takes a slot if there is one and nobody waits.
func (p *slots) tryTake(id peers.ID) bool {
	x := p.of(id)
	ok := x.TryAcquire(1)
	if !ok {
		p.left(id, x)
	}
	return ok
}

// take takes a slot, or waits for one and first calls waits. The error is ctx's.
func (p *slots) take(ctx context.Context, id peers.ID, waits func()) error {
	x := p.of(id)
	if x.TryAcquire(1) {
		return nil
	}
	waits()
	err := x.Acquire(ctx, 1)
	if err != nil {
		p.left(id, x)
	}
	return err
}

// give gives a slot back: to the first in line.
func (p *slots) give(id peers.ID) {
	p.mu.Lock()
	x := p.each[id]
	p.mu.Unlock()
	x.Release(1)
	p.left(id, x)
}
