package p2p

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/p2p/protocol/autonatv2"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// Tried is what happened when a relay dialled this host, as it was asked to (AutoNAT, version 2).
type Tried struct {
	Addr    string    // a public one of this host's addresses, without its ID
	Reached bool      // the relay reached the host there
	At      time.Time // when
}

// How often an address is tried, and how often it is looked whether one is to be.
const (
	triedFor  = 30 * time.Minute
	tryPause  = 10 * time.Second
	tryTime   = 30 * time.Second
	maxTried  = 8 // addresses
	tryServes = 60
)

// nowhere is the host from which a host that is no relay tries others: it tries nobody.
type nowhere struct{ host.Host }

func (nowhere) Close() error { return nil }

// startTrying lets relays try this host's addresses, and tries those of others if it is a relay.
func (r *reach) startTrying() (err error) {
	cfg := r.h.cfg
	dialer := host.Host(nowhere{})
	if cfg.Reach.Relay {
		opts := append(cfg.Reach.transports(cfg), libp2p.NoListenAddrs, libp2p.DisableRelay(), noMetrics)
		if dialer, err = libp2p.New(opts...); err != nil {
			return fmt.Errorf("make the host that tries addresses: %w", err)
		}
	}
	if r.nat, err = autonatv2.New(dialer, autonatv2.WithServerRateLimit(tryServes, tryServes/5, tryServes/5, 2)); err != nil {
		dialer.Close()
		return fmt.Errorf("start trying addresses: %w", err)
	}
	if err = r.nat.Start(r.h.host); err != nil {
		return fmt.Errorf("start trying addresses: %w", err)
	}
	if !cfg.Reach.Relay {
		r.h.host.RemoveStreamHandler(autonatv2.DialProtocol)
	}
	r.h.start(r.haveTried)
	return nil
}

// haveTried has the public addresses of this host tried, one after another, until it closes.
func (r *reach) haveTried() {
	t := time.NewTicker(tryPause)
	defer t.Stop()
	for {
		select {
		case <-t.C:
		case <-r.h.drain.Done():
			return
		}
		a := r.untried()
		if a == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(r.h.drain, tryTime)
		got, err := r.nat.GetReachability(network.WithNoDial(ctx, "relays are connected"), []autonatv2.Request{{Addr: a, SendDialData: true}})
		cancel()
		switch {
		case err == nil && got.Reachability != network.ReachabilityUnknown:
			r.mu.Lock()
			r.tried = slices.DeleteFunc(r.tried, func(x Tried) bool { return x.Addr == a.String() })
			r.tried = append(r.tried, Tried{a.String(), got.Reachability == network.ReachabilityPublic, time.Now()})
			r.tried = r.tried[max(0, len(r.tried)-maxTried):]
			r.mu.Unlock()
		case err != nil && !errors.Is(err, autonatv2.ErrNoPeers):
			r.h.log.Debug("a relay could not say whether an address can be reached", "addr", a, "err", err)
		}
	}
}

// untried is a public address of this host that was not tried lately; nil: there is none.
func (r *reach) untried() ma.Multiaddr {
	tried := r.h.Tried()
	for _, s := range r.h.Addrs() {
		a, err := ma.NewMultiaddr(s)
		if a = bare(a); err != nil || !manet.IsPublicAddr(a) || has(a, ma.P_CIRCUIT) {
			continue
		}
		if !slices.ContainsFunc(tried, func(x Tried) bool { return x.Addr == a.String() && time.Since(x.At) < triedFor }) {
			return a
		}
	}
	return nil
}

// Tried returns what relays found when they dialled the public addresses that this host has now.
func (h *Host) Tried() (out []Tried) {
	now := h.Addrs()
	h.reach.mu.Lock()
	defer h.reach.mu.Unlock()
	for _, x := range h.reach.tried {
		if slices.Contains(now, x.Addr+"/p2p/"+string(h.id)) {
			out = append(out, x)
		}
	}
	return out
}
