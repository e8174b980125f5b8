package dht

import (
	"context"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Find calls found with peers that the table says have a share, and with those of known at the
// addresses that it has for them, now and from time to time until cancel is called. found must not
// block. cancel waits for a running call.
func (d *DHT) Find(id share.ID, known []peers.ID, found func(peers.Via, peers.Addr)) (cancel func()) {
	ctx, end := context.WithCancel(d.ctx)
	s := &search{d: d, key: id, found: found}
	for _, k := range known {
		if p, err := peer.Decode(string(k)); err == nil {
			s.known = append(s.known, p)
		}
	}
	d.start(func() { s.run(ctx) })
	return func() {
		end()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.found = nil
	}
}

// search looks for the peers of one share.
type search struct {
	d     *DHT
	key   share.ID
	known []peer.ID
	asked int // how often

	mu    sync.Mutex
	found func(peers.Via, peers.Addr) // nil: nobody wants to know any more
}

func (s *search) run(ctx context.Context) {
	select {
	case <-s.d.ready:
	case <-ctx.Done():
		return
	}
	out := comesFirst
	for wait := asksFirst; ctx.Err() == nil; {
		if s.d.table.Load().RoutingTable().Size() == 0 {
			s.d.wait(out, ctx.Done())
			out = min(2*out, comesLast)
			continue
		}
		s.ask(ctx)
		s.d.wait(wait, ctx.Done())
		wait = min(2*wait, asksLast)
	}
}

// ask asks once, when it is its turn.
func (s *search) ask(ctx context.Context) {
	select {
	case s.d.turns <- struct{}{}:
		over := sync.OnceFunc(func() { <-s.d.turns })
		defer over()
		defer time.AfterFunc(turnFor, over).Stop()
	case <-ctx.Done():
		return
	}
	ctx, cancel := context.WithTimeout(ctx, asksFor)
	defer cancel()
	var all sync.WaitGroup
	defer all.Wait()
	for _, p := range s.lost() {
		all.Go(func() {
			if at, err := s.d.table.Load().FindPeer(ctx, p); err == nil {
				s.tell(at)
			}
		})
	}
	for at := range s.d.table.Load().FindProvidersAsync(ctx, keyOf(s.key), providers) {
		s.tell(at)
	}
}

// lost are the known peers to be asked for: those that are not connected, and had time to be. Others
// in the table learn whom this node looks for.
func (s *search) lost() (out []peer.ID) {
	if s.asked++; s.asked == 1 {
		return nil
	}
	for _, p := range s.known[:min(len(s.known), providers)] {
		if s.d.table.Load().Host().Network().Connectedness(p) != network.Connected {
			out = append(out, p)
		}
	}
	return out
}

func (s *search) tell(at peer.AddrInfo) {
	a := addrOf(at.ID, s.d.believed(at.Addrs))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.found != nil && len(a.Addrs) > 0 {
		s.found(peers.ViaDHT, a)
	}
}
