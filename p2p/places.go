package p2p

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/client"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/pb"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
)

// Place is the state of this host's place at one of Reach.Relays.
type Place struct {
	Relay   peers.ID
	Held    bool   // others reach this host through it
	Why     string // if it is not held
	Carries int64  // bytes of content that the relay carries each way for each connection; 0: none
}

// Unbounded is Place.Carries at a relay that sets no bound.
const Unbounded = 1 << 62

// station is a relay at which the host keeps a place.
type station struct {
	relay peer.ID
	addrs []string
	lost  chan struct{} // signalled when the connection is lost
	tried chan struct{} // closed after the first attempt

	state Place // guarded by reach.mu
}

// newPlaces reads Reach.Relays, gathered by relay.
func newPlaces(relays []string) (out []*station, err error) {
	for _, s := range relays {
		a, err := parse("of a relay, such as /ip4/192.0.2.1/tcp/4001/p2p/12D3...", s)
		if err != nil {
			return nil, err
		}
		info, err := peer.AddrInfoFromP2pAddr(a)
		if err != nil || len(info.Addrs) == 0 || has(a, ma.P_CIRCUIT) {
			return nil, words.Error(ErrAddress, "%q is not an address of a relay: it must say where the relay is, and end in /p2p/ID, such as /ip4/192.0.2.1/tcp/4001/p2p/12D3...", s)
		}
		i := slices.IndexFunc(out, func(p *station) bool { return p.relay == info.ID })
		if i < 0 {
			i = len(out)
			out = append(out, &station{relay: info.ID, lost: make(chan struct{}, 1), tried: make(chan struct{}),
				state: Place{Relay: peers.ID(info.ID.String()), Why: "it has not answered yet"}})
		}
		out[i].addrs = append(out[i].addrs, info.Addrs[0].String())
	}
	if len(out) > maxRelays {
		return nil, words.Error(ErrAddress, "%d relays are named, and a node uses at most %d", len(out), maxRelays)
	}
	return out, nil
}

// How often a relay is asked for a place.
const (
	placeTime     = 20 * time.Second // one attempt
	placePause    = 2 * time.Second  // after the first failure; twice as long after each
	placePauseMax = 2 * time.Minute
)

// keep keeps a place for as long as the host runs.
func (r *reach) keep(p *station) {
	for pause := placePause; ; {
		select {
		case <-p.lost: // of an earlier attempt
		default:
		}
		until, err := r.take(p)
		wait, lost := pause, p.lost
		if err == nil {
			pause, wait = placePause, until
		} else {
			pause, lost = min(2*pause, placePauseMax), nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-lost:
			timer.Stop()
			r.set(p, Place{Why: "the connection with it was lost"})
			select { // a relay may end every connection at once
			case <-time.After(placePause):
			case <-r.h.drain.Done():
				return
			}
		case <-r.h.drain.Done():
			timer.Stop()
			return
		}
	}
}

// take asks for the place, and returns when to ask again.
func (r *reach) take(p *station) (again time.Duration, err error) {
	h := r.h
	ctx, cancel := context.WithTimeout(h.drain, placeTime)
	defer cancel()
	to := peers.Addr{ID: peers.ID(p.relay.String()), Addrs: p.addrs}
	var got *client.Reservation
	if _, err = h.connect(ctx, to); err == nil {
		h.host.ConnManager().Protect(p.relay, "relay")
		got, err = client.Reserve(network.WithNoDial(ctx, "connect dials"), h.host, peer.AddrInfo{ID: p.relay})
	}
	if h.drain.Err() != nil {
		return 0, h.drain.Err() // nobody is told of what the end of the host cut short
	}
	if err != nil {
		r.set(p, Place{Why: noPlace(err)})
		return 0, err
	}
	s := Place{Held: true}
	switch {
	case got.LimitData == 0 && got.LimitDuration == 0:
		s.Carries = Unbounded
	case got.LimitData >= leastCarried:
		s.Carries = int64(min(got.LimitData, Unbounded))
	}
	r.set(p, s)
	left := min(max(time.Until(got.Expiration), time.Minute), time.Hour) // what most relays give, if this clock is slow
	return left * 3 / 4, nil
}

// noPlace is why a relay gave no place, in words for people.
func noPlace(err error) string {
	var refused client.ReservationError
	if !errors.As(err, &refused) {
		return err.Error()
	}
	switch refused.Status {
	case pb.Status_RESERVATION_REFUSED, pb.Status_RESOURCE_LIMIT_EXCEEDED:
		return "it is full"
	case pb.Status_PERMISSION_DENIED:
		return "it refuses this node"
	case pb.Status_MALFORMED_MESSAGE:
		if strings.Contains(refused.Reason, "expiration date in the past") {
			return "the clock of this machine, or that of the relay, is wrong"
		}
		return "its answer cannot be understood"
	}
	if notServed(err) {
		return "it is not a relay"
	}
	return "it did not answer"
}

// set sets and reports the state of a place.
func (r *reach) set(p *station, s Place) {
	s.Relay = p.state.Relay
	r.mu.Lock()
	was := p.state
	p.state = s
	r.mu.Unlock()
	select {
	case <-p.tried:
	default:
		close(p.tried)
	}
	switch {
	case s.Held && !was.Held:
		r.h.log.Info("others can reach this node through a relay", "relay", s.Relay)
	case !s.Held && was.Why != s.Why:
		r.h.log.Warn("others cannot reach this node through the relay "+s.Relay.Short(), "reason", s.Why)
	}
}

// Placed reports whether a peer has a place at this host, if that is a relay.
func (h *Host) Placed(id peers.ID) bool {
	to, err := decode(id)
	if err != nil {
		return false
	}
	t := h.host.ConnManager().GetTagInfo(to) // it forgets peers that are not connected
	return t != nil && t.Tags[placedTag] > 0
}

// placedTag is with what libp2p's relay marks those that have a place.
const placedTag = "relay-reservation"

// left is called for each connection that has ended.
func (r *reach) left(_ network.Network, c network.Conn) {
	for _, p := range r.places {
		if p.relay == c.RemotePeer() && r.h.swarm.Connectedness(p.relay) != network.Connected {
			select {
			case p.lost <- struct{}{}:
			default:
			}
		}
	}
}

// Places returns the state at each of Reach.Relays, once each was asked or ctx has ended.
func (h *Host) Places(ctx context.Context) (out []Place) {
	for _, p := range h.reach.places {
		select {
		case <-p.tried:
		case <-ctx.Done():
		}
		h.reach.mu.Lock()
		out = append(out, p.state)
		h.reach.mu.Unlock()
	}
	return out
}

// relayed are the addresses that lead to this host through relays, without its own ID.
func (r *reach) relayed() (out []ma.Multiaddr) {
	for _, p := range r.places {
		for _, a := range p.addrs {
			out = append(out, ma.StringCast(fmt.Sprintf("%s/p2p/%s/p2p-circuit", a, p.relay)))
		}
	}
	return out
}
