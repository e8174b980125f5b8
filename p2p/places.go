package p2p

import (
	"context"
	"slices"
	"sync"

	"github.com/piecelease/fetcher/peers"
)

// A peer takes leastFrom streams of ours, or more, and resets others. So links and
// manifests have places for their streams; what is left is for messages, for libp2p's
// own, and for what we have ended and the peer has not noticed yet.
const (
	leastFrom     = 32
	linkStreams   = 24 // to one peer, of all links
	moreStreams   = 4  // ... that are not the first of their link, or as many as one may have
	manifestAsks  = 4  // manifests asked of one peer at once
	noPlaceReason = "waits for its turn: this node fetches as many shares from this source as it may at once"
)

// places are what may be had of something from each peer. Who finds none waits in line.
type places struct {
	most int

	mu   sync.Mutex
	each map[peers.ID]*placesOf
}

type placesOf struct {
	taken int
	line  []chan struct{} // each holds one
}

func newPlaces(most int) *places { return &places{most: most, each: map[peers.ID]*placesOf{}} }

// tryTake takes a place if there is one and nobody waits.
func (p *places) tryTake(id peers.ID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.each[id]
	if x == nil {
		x = &placesOf{}
		p.each[id] = x
	}
	if x.taken >= p.most || len(x.line) > 0 {
		return false
	}
	x.taken++
	return true
}

// take takes a place, or waits for one and first calls waits. The error is ctx's.
func (p *places) take(ctx context.Context, id peers.ID, waits func()) error {
	if p.tryTake(id) {
		return nil
	}
	mine := make(chan struct{}, 1)
	p.mu.Lock()
	x := p.each[id]
	if x == nil || x.taken < p.most && len(x.line) == 0 { // given back meanwhile
		p.mu.Unlock()
		return p.take(ctx, id, waits)
	}
	x.line = append(x.line, mine)
	p.mu.Unlock()
	waits()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	i := slices.Index(x.line, mine)
	if i >= 0 {
		x.line = slices.Delete(x.line, i, i+1)
	}
	p.mu.Unlock()
	if i < 0 { // its turn has come as well
		p.give(id)
	}
	return ctx.Err()
}

// give gives a place back: to the first in line.
func (p *places) give(id peers.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.each[id]
	if len(x.line) > 0 {
		x.line[0] <- struct{}{}
		x.line = x.line[1:]
		return
	}
	if x.taken--; x.taken == 0 {
		delete(p.each, id)
	}
}
