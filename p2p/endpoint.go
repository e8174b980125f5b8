package p2p

import (
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Endpoints returns those of addrs that have an IP address, a port and a transport of
// ours. Names to be looked up are left out: where a name leads is known only when it is
// dialled, and may differ each time.
func Endpoints(addrs []string) []peers.Endpoint {
	var out []peers.Endpoint
	for _, s := range addrs {
		if a, err := ma.NewMultiaddr(s); err == nil {
			if p, ok := endpointOf(bare(a)); ok {
				out = append(out, p)
			}
		}
	}
	return out
}

// decode is a peer's ID as libp2p has it. Its text is unique: libp2p reads other texts as the same ID, and whoever gave a
// peer another would have it taken for two peers.
func decode(id peers.ID) (peer.ID, error) {
	p, err := peer.Decode(string(id))
	if err == nil && p.String() != string(id) {
		return "", errors.New("an ID of a peer has but one text")
	}
	return p, err
}

// Where returns the other end of the newest open connection with a peer: it may have moved, and left others behind. Not ok: there is
// none, or only one through a relay.
func (h *Host) Where(id peers.ID) (p peers.Endpoint, ok bool) {
	to, err := decode(id)
	if err != nil {
		return p, false
	}
	var opened time.Time
	for _, c := range h.swarm.ConnsToPeer(to) {
		if at, direct := endpointOf(c.RemoteMultiaddr()); direct && c.Stat().Opened.After(opened) {
			p, ok, opened = at, true, c.Stat().Opened
		}
	}
	return p, ok
}

// Dialled returns the addresses, without the peer ID, at which a node has reached a peer and is connected to it; none
// if there is no such connection, or it was the peer that connected, or a relay leads there.
func Dialled(h *Host, id peers.ID) (out []string) {
	to, err := decode(id)
	if err != nil {
		return nil
	}
	for _, c := range h.swarm.ConnsToPeer(to) {
		if a := c.RemoteMultiaddr(); c.Stat().Direction == network.DirOutbound && !has(a, ma.P_CIRCUIT) {
			out = append(out, a.String())
		}
	}
	return out
}

// AddrsFor are Host.Addrs in the order in which they are of use to a connected peer that takes few, and looks for where it sees this node: those
// with the IP address at this end of a connection with it, and then one of each IP address or name before a second of any.
func AddrsFor(h *Host, id peers.ID) []string {
	out, rank, of := h.Addrs(), map[string]int{}, map[string]int{}
	if to, err := decode(id); err == nil {
		for _, c := range h.swarm.ConnsToPeer(to) {
			if here := c.LocalMultiaddr(); len(here) > 0 {
				of["/"+here[0].Protocol().Name+"/"+here[0].Value()] = -len(out)
			}
		}
	}
	for _, a := range out {
		at := strings.Join(strings.SplitN(a, "/", 4)[:3], "/")
		rank[a] = of[at]
		of[at]++
	}
	slices.SortStableFunc(out, func(a, b string) int { return rank[a] - rank[b] })
	return out
}

// endpointOf is the endpoint of an address without a peer ID at its end.
func endpointOf(a ma.Multiaddr) (peers.Endpoint, bool) {
	transport := strings.Join(names(a)[min(len(a), 1):], "/")
	if transport != "tcp" && transport != "udp/quic-v1" {
		return peers.Endpoint{}, false
	}
	raw, err := manet.ToIP(a)
	if err != nil {
		return peers.Endpoint{}, false
	}
	ip, _ := netip.AddrFromSlice(raw)
	bits, wide := 48, 32
	if a[0].Code() == ma.P_IP4 {
		ip, bits, wide = ip.Unmap(), 24, 16
	}
	port, err := strconv.Atoi(a[1].Value())
	if err != nil || ip.Is4In6() || ip.IsUnspecified() || ip.IsMulticast() || ip == broadcast {
		return peers.Endpoint{}, false
	}
	out := peers.Endpoint{Addr: a.String(), Host: ip.String(), Reach: share.Reach(a), Port: port, QUIC: transport != "tcp", IPv6: bits == 48}
	if to, ok := netip.AddrFromSlice(share.LeadsTo(raw)); ok {
		ip, bits, wide = to, 24, 16
	}
	out.Net, out.Location = prefix(ip, bits), prefix(ip, wide)
	return out, true
}

var broadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

func names(a ma.Multiaddr) (out []string) {
	for _, c := range a {
		out = append(out, c.Protocol().Name)
	}
	return out
}
