package p2p

import (
	"cmp"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// Delays between dials of one attempt. A dial that fails starts the next at
// once; the delays are for those that hang.
const (
	nextLocal  = 30 * time.Millisecond  // between addresses of this machine or its network
	nextPublic = 250 * time.Millisecond // ... and of the Internet (RFC 8305)

	// quicAfter is how far QUIC trails TCP. It must outlast TCP's three or four
	// round trips to a secured connection, else QUIC, which needs two, wins on
	// every long path, and costs three times the CPU.
	quicAfter = time.Second

	// relayAfter is how far the way through a relay trails the others.
	relayAfter = 1500 * time.Millisecond
)

// rankDials is the host's network.DialRanker: TCP first and QUIC well behind
// it. libp2p's own prefers QUIC. Among equals IPv6 and IPv4 take turns, IPv6
// first; local and public addresses are tried at the same time.
func rankDials(addrs []ma.Multiaddr) []network.AddrDelay {
	var out []network.AddrDelay
	addrs, over := split(addrs)
	for _, near := range []bool{true, false} {
		step := nextPublic
		if near {
			step = nextLocal
		}
		var tcp, rest []ma.Multiaddr
		for _, a := range addrs {
			switch {
			case manet.IsPublicAddr(a) == near:
			case has(a, ma.P_TCP):
				tcp = append(tcp, a)
			default:
				rest = append(rest, a)
			}
		}
		var after time.Duration
		if len(tcp) > 0 {
			after = quicAfter
		}
		out = append(out, stagger(tcp, 0, step)...)
		out = append(out, stagger(rest, after, step)...)
	}
	var last time.Duration
	if len(addrs) > 0 {
		last = relayAfter
	}
	return append(out, stagger(over, last, nextPublic)...)
}

// stagger delays the second address by step, and all others by two.
func stagger(addrs []ma.Multiaddr, after, step time.Duration) []network.AddrDelay {
	slices.SortStableFunc(addrs, func(a, b ma.Multiaddr) int { return cmp.Compare(family(a), family(b)) })
	if i := slices.IndexFunc(addrs, func(a ma.Multiaddr) bool { return family(a) != family(addrs[0]) }); i > 1 {
		a := addrs[i]
		copy(addrs[2:i+1], addrs[1:i])
		addrs[1] = a
	}
	out := make([]network.AddrDelay, len(addrs))
	for i, a := range addrs {
		out[i] = network.AddrDelay{Addr: a, Delay: after + min(time.Duration(i), 2)*step}
	}
	return out
}

func family(a ma.Multiaddr) int {
	switch {
	case has(a, ma.P_IP6):
		return 0
	case has(a, ma.P_IP4):
		return 1
	}
	return 2
}

func has(a ma.Multiaddr, code int) bool {
	_, err := a.ValueForProtocol(code)
	return err == nil
}
