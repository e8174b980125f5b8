package p2p

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"

	"github.com/piecelease/fetcher/peers"
)

// dials waits until peers.Dials lets a peer be dialled that another named.
type dials struct {
	mu    sync.Mutex
	core  *peers.Dials
	ended chan struct{} // closed when a dial ends
}

func newDials() *dials { return &dials{core: peers.NewDials(), ended: make(chan struct{})} }

// begin waits for the turn of a peer that another named, and keeps only those of its
// addresses that may be dialled: over a relay, if that is the namer itself. end is to be called when the dial is over. begin waits at most
// as long as a dial may take; then the error wraps peers.ErrUnreachable.
func (d *dials) begin(ctx context.Context, h *Host, to *peers.Addr) (end func(), err error) {
	if to.By == "" {
		return func() {}, nil
	}
	at := Endpoints(to.Addrs)
	at = at[:min(len(at), peers.MaxEndpoints)]
	through := peers.Through(to.By)
	over := slices.Contains(to.Addrs, through)
	if to.Addrs = peers.Addrs(at); over {
		to.Addrs = append(to.Addrs, through)
	}
	home, _ := h.Where(to.By)
	late := time.NewTimer(h.cfg.Timeouts.Dial)
	defer late.Stop()
	for {
		wait, ended, ok := d.try(to.By, home.Net, at)
		if ok {
			return func() { d.over(to.By, home.Net, at) }, nil
		}
		var due <-chan time.Time
		if wait > 0 {
			t := time.NewTimer(wait)
			defer t.Stop()
			due = t.C
		}
		select {
		case <-due:
		case <-ended:
		case <-late.C:
			return nil, said{"not tried yet: addresses that peers named are tried in turn, and its turn did not come", peers.ErrUnreachable, nil}
		case <-ctx.Done():
			return nil, said{"given up before its turn came", peers.ErrUnreachable, context.Cause(ctx)}
		}
	}
}

func (d *dials) try(by peers.ID, home string, at []peers.Endpoint) (wait time.Duration, ended chan struct{}, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	wait, ok = d.core.Begin(by, home, at, time.Now())
	return wait, d.ended, ok
}

func (d *dials) over(by peers.ID, home string, at []peers.Endpoint) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.core.End(by, home, at)
	close(d.ended)
	d.ended = make(chan struct{})
}

// afresh dials a peer at all its addresses: when to dial again is the pool's decision. The library leaves out those where
// a dial failed a moment ago, which may be one beside this, and its error says no more. If it left out all, it is asked again.
func afresh(ctx context.Context, h *Host, id peer.ID, dial func(context.Context, peer.ID) error) error {
	h.swarm.Backoff().Clear(id)
	err := dial(ctx, id)
	if d, ok := errors.AsType[*swarm.DialError](err); ok && len(d.DialErrors) > 0 && !slices.ContainsFunc(d.DialErrors, func(t swarm.TransportError) bool { return !errors.Is(t.Cause, swarm.ErrDialBackoff) }) {
		h.swarm.Backoff().Clear(id)
		err = dial(ctx, id)
	}
	return err
}
