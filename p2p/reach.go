package p2p

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/host/observedaddrs"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/protocol/autonatv2"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/client"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/relay"
	"github.com/libp2p/go-libp2p/p2p/protocol/holepunch"
	"github.com/libp2p/go-libp2p/p2p/protocol/identify"
	quic "github.com/libp2p/go-libp2p/p2p/transport/quic"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/piecelease/fetcher/internal/bounds"
	"github.com/piecelease/fetcher/peers"
)

// Reach configures how a host reaches peers behind routers, and is reached behind one itself.
// The zero value does none of it, and costs nothing.
type Reach struct {
	// Traverse lets peers be dialled through relays that their addresses name, and replaces
	// such a connection by a direct one: both sides then dial each other at once, which
	// opens a path through most routers.
	Traverse bool

	// MapPorts asks the router, by UPnP or NAT-PMP, to forward the ports listened on.
	MapPorts bool

	// Relays are nodes at which this host keeps a place, so that others reach it through
	// them: multiaddrs that end in /p2p/ID. It requires Traverse.
	Relays []string

	// Proxy makes the host dial peers over TCP through a SOCKS5 server: socks5://HOST:PORT, or
	// socks5://USER:PASSWORD@HOST:PORT. QUIC, which would bypass it, is then not used
	// unless an address of Listen names it. Names are still resolved by this machine, and
	// listening is not affected. Default none.
	Proxy string

	// Relay makes this host a relay, for everybody. Others must be able to reach it.
	Relay bool

	// RelayBytes is how much content this host as a relay carries for two peers that
	// cannot reach each other otherwise: bytes each way for each connection, at least
	// 1 MiB. Default none: then it carries only what is needed to find a direct path.
	RelayBytes int64
}

// maxRelays is at how many relays a host keeps a place.
const maxRelays = 4

// leastCarried is how many bytes, each way, a relay must carry for a connection over it to be used for content.
const leastCarried = 1 << 20

// Validate returns an error that names the fields out of range, with their ranges.
func (r Reach) Validate() error {
	var f bounds.Fields
	bounds.In(&f, "RelayBytes", r.RelayBytes, leastCarried, 1<<50)
	switch {
	case len(r.Relays) > 0 && !r.Traverse:
		f.Add("Relays", errors.New("it needs Traverse"))
	case r.RelayBytes > 0 && !r.Relay:
		f.Add("RelayBytes", errors.New("it needs Relay"))
	}
	if r.Proxy != "" {
		f.Add("Proxy", CheckProxy(r.Proxy))
	}
	return f.Err()
}

// options are the options for libp2p. A TCP port that is dialled from is also listened on, so
// that a router keeps one mapping for both.
func (r Reach) options(cfg Config) (out []libp2p.Option) {
	out = append(out, libp2p.DisableRelay())
	if r.Traverse {
		out[0] = libp2p.EnableRelay()
	}
	if r.MapPorts && cfg.Packets == nil {
		out = append(out, libp2p.NATManager(newRouter))
	}
	return append(out, r.transports(cfg)...)
}

// transports are the options for what connections are made over.
func (r Reach) transports(cfg Config) (out []libp2p.Option) {
	if cfg.overQUIC() {
		out = append(out, libp2p.Transport(quic.NewTransport))
	}
	if !cfg.QUICOnly {
		opts := []any{tcp.WithConnectionTimeout(cfg.Timeouts.Dial)}
		if !r.Traverse {
			opts = append(opts, tcp.DisableReuseport())
		}
		if p, err := parseProxy(r.Proxy); err == nil {
			opts = append(opts, tcp.WithDialerForAddr(p.dialer))
		}
		out = append(out, libp2p.Transport(newTCP, opts...))
	}
	return out
}

// Limits of a relay. A connection that carries no content needs some 20 KiB.
const (
	relayPlaces   = 256 // peers that are reached through it
	relayPerAddr  = 16  // ... from one address
	relayPerPeer  = 16  // connections that one peer has through it
	relayTime     = 2 * time.Minute
	relayBytes    = 128 << 10 // each way
	carriedTime   = 6 * time.Hour
	relayOpenings = 16 // connections that a peer opens at once, and then one every ...
	relayPause    = 15 // ... seconds
)

func (r Reach) resources() relay.Resources {
	out := relay.DefaultResources()
	out.MaxReservations, out.MaxReservationsPerIP, out.MaxReservationsPerASN = relayPlaces, relayPerAddr, relayPlaces
	out.MaxCircuits = relayPerPeer
	out.Limit = &relay.RelayLimit{Duration: relayTime, Data: relayBytes}
	if r.RelayBytes > 0 {
		out.BufferSize = 16 << 10
		out.Limit = &relay.RelayLimit{Duration: carriedTime, Data: r.RelayBytes}
	}
	return out
}

// turns bounds how often a relay connects each peer with others.
type turns struct {
	mu sync.Mutex
	of *peers.Allowance
}

// AllowReserve implements relay.ACLFilter, as does AllowConnect.
func (*turns) AllowReserve(peer.ID, ma.Multiaddr) bool { return true }

func (t *turns) AllowConnect(from peer.ID, _ ma.Multiaddr, _ peer.ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of.Take(peers.ID(from.String()), relayPause, time.Now()) == 0
}

// reach is what a host needs for Reach.
type reach struct {
	h        *Host
	observed *observedaddrs.Manager
	punch    *holepunch.Service
	relay    *relay.Relay
	carriage carriage
	asked    atomic.Bool // the service has asked for addresses
	places   []*station
	nat      *autonatv2.AutoNAT

	mu         sync.Mutex
	often      *peers.Allowance      // of punches, by the peer
	introduced map[peer.ID]time.Time // by a relay, a while ago at most
	tried      []Tried
}

// startReach starts what the configuration asks for.
func (h *Host) startReach() (err error) {
	r := &h.reach
	if h.cfg.Reach.Relay {
		t := &turns{of: peers.NewAllowance(1, relayOpenings*relayPause)}
		if r.relay, err = relay.New(h.host, relay.WithResources(h.cfg.Reach.resources()), relay.WithACL(t), relay.WithMetricsTracer(&r.carriage)); err != nil {
			return fmt.Errorf("start the relay: %w", err)
		}
	}
	if !h.cfg.Reach.Traverse {
		return nil
	}
	r.often = peers.NewAllowance(1, punchesAtOnce*punchPause)
	if r.observed, err = observedaddrs.NewManager(h.host.EventBus(), h.swarm); err != nil {
		return err
	}
	r.observed.Start(h.swarm)
	ids := h.host.(interface{ IDService() identify.IDService }).IDService()
	if r.punch, err = holepunch.NewService(h.host, ids, r.addrs, holepunch.WithAddrFilter(r), holepunch.DirectDialTimeout(punchTime)); err != nil {
		return fmt.Errorf("start hole punching: %w", err)
	}
	h.swarm.Notify(&network.NotifyBundle{ConnectedF: h.direct, DisconnectedF: r.left})
	for _, p := range r.places {
		h.start(func() { r.keep(p) })
	}
	if h.cfg.Packets != nil {
		return nil // who are on no real network need no help to find out
	}
	return r.startTrying()
}

func (r *reach) close() {
	if r.punch != nil {
		r.punch.Close()
	}
	if r.nat != nil {
		r.nat.Close()
	}
	if r.observed != nil {
		r.observed.Close()
	}
	if r.relay != nil {
		r.relay.Close()
	}
}

// How a hole is punched.
const (
	punchTime     = 3 * time.Second                  // one attempt; there are up to three
	punchWait     = 3*punchTime + 3*time.Second      // all of them
	carriedWait   = punchTime + 500*time.Millisecond // ... until a relay that carries content will do
	punchesAtOnce = 6                                // attempts with one peer, and then one every ...
	punchPause    = 10                               // ... seconds
)

// public returns addresses under which others may reach this host: those of its interfaces,
// of a port mapping, and those at which relays and others see it.
func (r *reach) public() []ma.Multiaddr {
	all := r.h.host.(interface{ AllAddrs() []ma.Multiaddr }).AllAddrs()
	all = ma.Unique(append(all, r.observed.Addrs(1)...))
	return slices.DeleteFunc(all, func(a ma.Multiaddr) bool { return !manet.IsPublicAddr(a) || has(a, ma.P_CIRCUIT) })
}

// addrs is public for the service, which first asks whether it is worth starting, and asks
// ever less often while it is not; so the first answer is yes.
func (r *reach) addrs() []ma.Multiaddr {
	if !r.asked.Swap(true) {
		return r.h.swarm.ListenAddresses()
	}
	return r.public()
}

// FilterLocal implements holepunch.AddrFilter, as does FilterRemote.
func (r *reach) FilterLocal(_ peer.ID, addrs []ma.Multiaddr) []ma.Multiaddr {
	return addrs[:min(len(addrs), 2*peers.MaxEndpoints)]
}

// FilterRemote keeps, of the addresses that a peer wants dialled, those that may be, by the
// rule for peers that others named, and lets them be dialled.
func (r *reach) FilterRemote(id peer.ID, addrs []ma.Multiaddr) (out []ma.Multiaddr) {
	r.mu.Lock()
	wait := r.often.Take(peers.ID(id.String()), punchPause, time.Now())
	r.mu.Unlock()
	if wait > 0 {
		return nil
	}
	var at []peers.Endpoint
	for _, a := range addrs {
		if p, ok := endpointOf(bare(a)); ok {
			at = append(at, p)
		}
	}
	for _, p := range peers.Named(at, 0) {
		out = append(out, ma.StringCast(p.Addr))
	}
	if !r.h.book.punch(id, out, time.Now().Add(punchTime+time.Second)) {
		return nil
	}
	return out
}

// direct ends relayed connections with a peer when there is a better one. The peer
// is marked as one that the relay introduced: the other end may close that connection
// first, and the connection manager forgets peers that are not connected.
func (h *Host) direct(_ network.Network, c network.Conn) {
	if c.Stat().Limited {
		h.reach.introduce(c.RemotePeer())
		return
	}
	if h.reach.wasIntroduced(c.RemotePeer()) {
		h.host.ConnManager().TagPeer(c.RemotePeer(), punchedTag, 1)
	}
	for _, old := range h.swarm.ConnsToPeer(c.RemotePeer()) {
		if old.Stat().Limited {
			h.start(func() { old.Close() })
		}
	}
}

// How long a peer counts as introduced without a connection, which is longer than all
// attempts take, and how many peers may.
const (
	introducedFor = time.Minute
	maxIntroduced = 1 << 10
)

func (r *reach) introduce(id peer.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.introduced) >= maxIntroduced {
		maps.DeleteFunc(r.introduced, func(_ peer.ID, at time.Time) bool { return time.Since(at) > introducedFor })
	}
	if r.introduced == nil {
		r.introduced = map[peer.ID]time.Time{}
	}
	if len(r.introduced) < maxIntroduced {
		r.introduced[id] = time.Now()
	}
}

func (r *reach) wasIntroduced(id peer.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.introduced[id]
	return ok && time.Since(at) <= introducedFor
}

// usable says whether there is a connection with a peer that accepts our streams: a
// direct one, or one over a relay that carries content.
func (h *Host) usable(id peer.ID) bool {
	switch h.swarm.Connectedness(id) {
	case network.Connected:
		return true
	case network.Limited:
		return allowance(h.swarm, id) > 0
	}
	return false
}

// allowance returns how many bytes of content the relay carries over which a peer is connected; 0
// if there is none.
func allowance(s *swarm.Swarm, id peer.ID) (most int64) {
	for _, c := range s.ConnsToPeer(id) {
		if n, _ := c.Stat().Extra[client.StatLimitData].(uint64); n >= leastCarried && n < 1<<62 {
			most = max(most, int64(n))
		}
	}
	return most
}

// Way is how a peer is connected.
type Way string

// The ways.
const (
	Unconnected Way = ""
	Direct      Way = "direct"
	Punched     Way = "punched" // direct, after a relay had introduced the two
	Relayed     Way = "relayed" // through a relay alone
)

// punchedTag marks peers in the connection manager that a relay introduced.
const punchedTag = "punched"

// Way returns how a peer is connected at present.
func (h *Host) Way(id peers.ID) Way {
	to, err := decode(id)
	if err != nil {
		return Unconnected
	}
	all := h.swarm.ConnsToPeer(to)
	if len(all) == 0 {
		return Unconnected
	}
	if !slices.ContainsFunc(all, func(c network.Conn) bool { return !has(c.RemoteMultiaddr(), ma.P_CIRCUIT) }) {
		return Relayed
	}
	if t := h.host.ConnManager().GetTagInfo(to); t != nil && t.Tags[punchedTag] > 0 || h.reach.wasIntroduced(to) {
		return Punched
	}
	return Direct
}

// split separates addresses that lead to a peer directly from those that lead through a relay.
func split(addrs []ma.Multiaddr) (direct, over []ma.Multiaddr) {
	for _, a := range addrs {
		if has(a, ma.P_CIRCUIT) {
			over = append(over, a)
		} else {
			direct = append(direct, a)
		}
	}
	return direct, over
}

// ways returns the addresses of a peer that this host may dial, and those through relays. The
// error, of type said, is why all of the peer's addresses were left out.
func (h *Host) ways(to peers.Addr) (direct, over []ma.Multiaddr, err error) {
	var all []ma.Multiaddr
	odd := false
	for _, s := range to.Addrs {
		a, err := ma.NewMultiaddr(s)
		if err != nil {
			h.log.Debug("unreadable address", "peer", to.ID, "addr", s, "err", err)
			continue
		}
		if a = h.reach.placed(bare(a)); dialable(a) {
			all = append(all, a)
		} else if len(a) > 0 {
			odd = true
		}
	}
	if odd && len(all) == 0 {
		return nil, nil, said{noUse, peers.ErrUnreachable, nil}
	}
	if n := len(all); !h.cfg.overQUIC() && n > 0 {
		if all = slices.DeleteFunc(all, func(a ma.Multiaddr) bool { return has(a, ma.P_QUIC_V1) }); len(all) == 0 {
			return nil, nil, said{noTCP, peers.ErrNoTCP, nil}
		}
	}
	direct, over = split(all)
	if !h.cfg.Reach.Traverse {
		if len(direct) == 0 && len(over) > 0 {
			return nil, nil, said{noTraversal, peers.ErrUnreachable, nil}
		}
		over = nil
	}
	return direct, over, nil
}

// placed adds, to an address that names a relay alone, where this host is connected with that; it is
// empty if it is not connected.
func (r *reach) placed(a ma.Multiaddr) ma.Multiaddr {
	if len(a) != 2 || a[0].Code() != ma.P_P2P || a[1].Code() != ma.P_CIRCUIT {
		return a
	}
	at, ok := r.h.Where(peers.ID(a[0].Value()))
	if !ok {
		return nil
	}
	return ma.StringCast(at.Addr + a.String())
}

// relayOf returns the relay that an address leads through, and the relay's address.
func relayOf(a ma.Multiaddr) (peer.ID, ma.Multiaddr, error) {
	at, _ := ma.SplitFunc(a, func(c ma.Component) bool { return c.Protocol().Code == ma.P_CIRCUIT })
	info, err := peer.AddrInfoFromP2pAddr(at)
	if err != nil || len(info.Addrs) != 1 {
		return "", nil, fmt.Errorf("%w: %s names no relay", ErrAddress, a)
	}
	return info.ID, info.Addrs[0], nil
}

// through lets the relays of some addresses be dialled until done is called.
func (h *Host) through(over []ma.Multiaddr) (done func()) {
	var all []func()
	for _, a := range over {
		if id, at, err := relayOf(a); err == nil {
			h.swarm.Backoff().Clear(id)
			all = append(all, h.book.dial(id, []ma.Multiaddr{at}))
		}
	}
	return func() {
		for _, f := range all {
			f()
		}
	}
}

// upgraded waits, if the only connection with a peer is over a relay, until a direct one
// replaces it, or until a relay that carries content has to do.
func (h *Host) upgraded(ctx context.Context, id peer.ID) error {
	if h.swarm.Connectedness(id) != network.Limited {
		return nil
	}
	wait := punchWait
	if allowance(h.swarm, id) > 0 {
		wait = carriedWait
	}
	ctx, cancel := context.WithTimeout(network.WithDialPeerTimeout(ctx, wait), wait)
	defer cancel()
	s, err := h.swarm.NewStream(network.WithNoDial(ctx, "it is connected"), id) // waits for a direct one
	switch {
	case err == nil:
		s.Reset()
		return nil
	case h.usable(id):
		return nil
	}
	return said{noPunch, peers.ErrUnreachable, err}
}

// mapped returns the addresses that routers forward to this host because it asked them to.
func (r *reach) mapped(own []ma.Multiaddr) []ma.Multiaddr {
	if !r.h.cfg.Reach.MapPorts {
		return nil
	}
	all := slices.Clone(r.h.host.(interface{ AllAddrs() []ma.Multiaddr }).AllAddrs())
	return slices.DeleteFunc(all, func(a ma.Multiaddr) bool { return ma.Contains(own, a) || !manet.IsPublicAddr(a) })
}
