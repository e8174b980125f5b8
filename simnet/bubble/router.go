package bubble

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"
)

// Mapping says for which destinations a router reuses an address that it has given (RFC 4787, 4.1).
type Mapping int

// The mappings.
const (
	OneForAll     Mapping = iota // endpoint-independent: one port for all destinations
	OneForEach                   // address-and-port-dependent: another port for each
	OneForAddress                // address-dependent: another port for each address
)

// Filter says from whom a router lets packets in to a port that it has given (RFC 4787, 5).
type Filter int

// The filters.
const (
	FromSentTo  Filter = iota // address-and-port-dependent: from where packets were sent to
	FromAddress               // address-dependent: from any port of an address that packets were sent to
	FromAll                   // endpoint-independent
)

// RouterConfig is how a router translates addresses.
type RouterConfig struct {
	Mapping Mapping
	Filter  Filter
	Hairpin bool          // hosts behind it can reach themselves by the outer address
	Memory  time.Duration // how long a port lasts from which nothing is sent; default 2 min
	Behind  *Router       // the router that this one is behind, as at a carrier; nil: none
	Forward bool          // port 4001 is passed on to the first node behind it
}

// Router stands between its nodes and the rest of the world, which sees one address. Its
// fields are guarded by packets.mu.
type Router struct {
	cfg    RouterConfig
	number byte
	nodes  byte
	outer  netip.Addr
	chance *rand.Rand
	ports  map[uint16]*lease
	by     map[flow]*lease
	first  netip.AddrPort // where port 4001 is passed on to
}

// flow is what has a port of its own: an inner address, and as much of where it sends to
// as the mapping depends on.
type flow struct {
	from netip.AddrPort
	to   netip.AddrPort
}

// lease is a port of a router that is in use.
type lease struct {
	flow flow
	port uint16
	sent map[netip.AddrPort]time.Time // to whom, and when last
	last time.Time
}

// Router makes a router that translates addresses. NodeConfig.Router puts a node behind it.
func (n *Net) Router(cfg RouterConfig) *Router {
	if cfg.Memory == 0 {
		cfg.Memory = natMemory
	}
	n.packets.mu.Lock()
	defer n.packets.mu.Unlock()
	k := byte(len(n.packets.routers) + 1)
	r := &Router{cfg: cfg, number: k, outer: netip.AddrFrom4([4]byte{2, k, 0, 1}), chance: rand.New(rand.NewPCG(n.seed, 7<<32|uint64(k))),
		ports: map[uint16]*lease{}, by: map[flow]*lease{}}
	if up := cfg.Behind; up != nil {
		r.outer = netip.AddrFrom4([4]byte{100, 64, up.number, k})
	}
	n.packets.routers[r.outer] = r
	return r
}

// Outer is the address that the rest of the world sees.
func (r *Router) Outer() netip.Addr { return r.outer }

// within is the address of the next node behind the router.
func (r *Router) within() netip.Addr {
	r.nodes++
	ip := netip.AddrFrom4([4]byte{10, r.number, 0, r.nodes})
	if r.nodes == 1 && r.cfg.Forward {
		r.first = netip.AddrPortFrom(ip, 4001)
	}
	return ip
}

// out is the address that a packet leaves the router with.
func (r *Router) out(from, to netip.AddrPort, now time.Time) netip.AddrPort {
	f := flow{from: from}
	switch r.cfg.Mapping {
	case OneForEach:
		f.to = to
	case OneForAddress:
		f.to = netip.AddrPortFrom(to.Addr(), 0)
	}
	l := r.by[f]
	if l != nil && now.Sub(l.last) >= r.cfg.Memory {
		delete(r.ports, l.port)
		l = nil
	}
	if l == nil {
		l = &lease{flow: f, port: r.free(from, now), sent: map[netip.AddrPort]time.Time{}}
		r.by[f], r.ports[l.port] = l, l
	}
	l.last, l.sent[to] = now, now
	return netip.AddrPortFrom(r.outer, l.port)
}

// free is a port that is not in use: that of the sender itself, if it keeps one for all.
func (r *Router) free(from netip.AddrPort, now time.Time) uint16 {
	port := from.Port()
	if r.cfg.Mapping != OneForAll {
		port = uint16(1024 + r.chance.IntN(64512))
	}
	for ; ; port = uint16(1024 + r.chance.IntN(64512)) {
		l := r.ports[port]
		if l != nil && now.Sub(l.last) >= r.cfg.Memory {
			delete(r.by, l.flow)
			l = nil
		}
		if l == nil && (port != r.first.Port() || from == r.first) {
			return port
		}
	}
}

// in is where a packet for a port of the router goes. Not ok: it is dropped.
func (r *Router) in(from netip.AddrPort, port uint16, now time.Time) (netip.AddrPort, bool) {
	if r.first.IsValid() && port == r.first.Port() {
		return r.first, true
	}
	l := r.ports[port]
	if l == nil || now.Sub(l.last) >= r.cfg.Memory {
		return netip.AddrPort{}, false
	}
	switch r.cfg.Filter {
	case FromAll:
		return l.flow.from, true
	case FromSentTo:
		sent, ok := l.sent[from]
		return l.flow.from, ok && now.Sub(sent) < r.cfg.Memory
	}
	for to, sent := range l.sent {
		if to.Addr() == from.Addr() && now.Sub(sent) < r.cfg.Memory {
			return l.flow.from, true
		}
	}
	return netip.AddrPort{}, false
}

// leave takes a packet out of the routers that its sender is behind, until it is in the
// network of its destination: nil is the public network.
func (n *packets) leave(from *socket, to netip.AddrPort, now time.Time) (src netip.AddrPort, in *Router, ok bool) {
	src, in = from.addr, from.at.router
	for !n.has(in, to) {
		if in == nil {
			return src, nil, false
		}
		if !in.cfg.Hairpin && in.outer == to.Addr() {
			return src, nil, false
		}
		src = in.out(src, to, now)
		in = in.cfg.Behind
	}
	return src, in, true
}

// has says whether an address is in the network within a router.
func (n *packets) has(in *Router, to netip.AddrPort) bool {
	if r := n.routers[to.Addr()]; r != nil {
		return r.cfg.Behind == in
	}
	s := n.sockets[to]
	return s != nil && s.at.router == in
}

// enter takes a packet in through the routers that its destination is behind. Without
// filters it only finds out where the packet would go.
func (n *packets) enter(src, to netip.AddrPort, in *Router, now time.Time, filters bool) *socket {
	for {
		r := n.routers[to.Addr()]
		if r == nil || r.cfg.Behind != in {
			if s := n.sockets[to]; s != nil && s.at.router == in {
				return s
			}
			return nil
		}
		inner, ok := r.in(src, to.Port(), now)
		if l := r.ports[to.Port()]; !ok && !filters && l != nil {
			inner, ok = l.flow.from, true
		}
		if !ok {
			return nil
		}
		to, in = inner, r
	}
}

func (r *Router) String() string { return fmt.Sprintf("router %v", r.outer) }
