package p2p

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
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

// Bounds of trying.
const (
	triedFor  = 30 * time.Minute // before an address is tried again
	tryPause  = 10 * time.Second // between two attempts
	tryTime   = 30 * time.Second // of one
	maxTried  = 8                // addresses
	tryServes = 60               // attempts that a relay makes for others in a minute
)

// nowhere is the host from which a host that is no relay tries others: it tries nobody.
type nowhere struct{ host.Host }

func (nowhere) Close() error { return nil }

// asker is a host that is no relay: it does not answer those who want to be tried.
type asker struct{ host.Host }

func (a asker) SetStreamHandler(id protocol.ID, f network.StreamHandler) {
	if id != autonatv2.DialProtocol {
		a.Host.SetStreamHandler(id, f)
	}
}

// startTrying lets relays try this host's addresses, and tries those of others if it is a relay.
func (r *reach) startTrying() (err error) {
	cfg := r.h.cfg
	dialer, self := host.Host(nowhere{}), host.Host(asker{r.h.host})
	if cfg.Reach.Relay {
		self = r.h.host
		opts := append(cfg.Reach.transports(cfg), libp2p.NoListenAddrs, libp2p.DisableRelay(), noMetrics)
		if dialer, err = libp2p.New(opts...); err != nil {
			return fmt.Errorf("make the host that tries addresses: %w", err)
		}
	}
	if r.nat, err = autonatv2.New(dialer, autonatv2.WithServerRateLimit(tryServes, tryServes/5, tryServes/5, 2)); err != nil {
		dialer.Close()
		return fmt.Errorf("start trying addresses: %w", err)
	}
	if err = r.nat.Start(self); err != nil {
		return fmt.Errorf("start trying addresses: %w", err)
	}
	r.h.start(r.haveTried)
	return nil
}

// haveTried has the public addresses of this host tried, one after another, until it closes.
func (r *reach) haveTried() {
	t := time.NewTicker(tryPause)
	defer t.Stop()
	asked := map[string]time.Time{} // of addresses that no relay could say anything about
	for {
		select {
		case <-t.C:
		case <-r.h.drain.Done():
			return
		}
		maps.DeleteFunc(asked, func(_ string, at time.Time) bool { return time.Since(at) > triedFor })
		a := r.untried(asked)
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
		case !errors.Is(err, autonatv2.ErrNoPeers):
			asked[a.String()] = time.Now()
			r.h.log.Debug("a relay could not say whether an address can be reached", "addr", a, "err", err)
		}
	}
}

// untried is a public address of this host that was not tried lately, nor asked about in vain;
// nil: there is none. A relay does not look names up.
func (r *reach) untried(asked map[string]time.Time) ma.Multiaddr {
	tried, public := r.h.Tried(), 0
	for _, s := range r.h.Addrs() {
		a, err := ma.NewMultiaddr(s)
		if _, ip := endpointOf(bare(a)); err != nil || !ip || !manet.IsPublicAddr(a) {
			continue
		}
		if public++; public > maxTried { // no more are remembered
			return nil
		}
		a = bare(a)
		if _, vain := asked[a.String()]; !vain && !slices.ContainsFunc(tried, func(x Tried) bool { return x.Addr == a.String() && time.Since(x.At) < triedFor }) {
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
