package fetcher

import (
	"fmt"
	"slices"

	ma "github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// ParseSource reads a ticket or a share ID, with further peers as multiaddrs that end in /p2p/ID.
func ParseSource(ticketOrID string, more []string) (share.ID, []peers.Addr, error) {
	ticket, err := share.Parse(ticketOrID)
	if code, none := ParseCode(ticketOrID); err != nil && none == nil {
		return share.ID{}, nil, words.Error(share.ErrTicket, "%s is a code, and only fetcher fetch takes one", code)
	}
	if err != nil {
		return share.ID{}, nil, err
	}
	id := ticket.ID
	var addrs []ma.Multiaddr
	for _, p := range ticket.Peers {
		if where, self := ma.SplitLast(p); portZero(where) {
			p = self.Multiaddr() // who it is, and nowhere to be found
		}
		addrs = append(addrs, p)
	}
	for _, p := range ticket.Peers {
		_, self := ma.SplitLast(p)
		for _, r := range ticket.Relays {
			addrs = append(addrs, r.Encapsulate(circuit).Encapsulate(self.Multiaddr()))
		}
	}
	for _, p := range more {
		a, err := share.ParseAddr(p)
		if err != nil {
			return id, nil, fmt.Errorf("peer %q is not a multiaddr such as /ip4/192.0.2.1/tcp/4001/p2p/12D3... (%v)", p, err)
		}
		if portZero(a) {
			return id, nil, fmt.Errorf("peer %q has port 0, where nobody can be reached", p)
		}
		addrs = append(addrs, a)
	}
	sources, err := groupPeers(addrs)
	return id, sources, err
}

// portZero reports whether an address names port 0, where nobody listens.
func portZero(a ma.Multiaddr) bool {
	for _, c := range a {
		if code := c.Protocol().Code; (code == ma.P_TCP || code == ma.P_UDP) && c.Value() == "0" {
			return true
		}
	}
	return false
}

// circuit separates a relay in an address from the peer behind it.
var circuit = ma.StringCast("/p2p-circuit")

// groupPeers gathers the addresses of each peer, in order of first mention, each once.
func groupPeers(addrs []ma.Multiaddr) ([]peers.Addr, error) {
	var out []peers.Addr
	at := map[peers.ID]int{}
	for _, a := range addrs {
		where, last := ma.SplitLast(a)
		if last == nil || last.Protocol().Code != ma.P_P2P {
			return nil, fmt.Errorf("%q does not end in /p2p/ID", a)
		}
		id := peers.ID(last.Value())
		if len(id) > wire.MaxPeerID {
			return nil, fmt.Errorf("%q ends in an ID that is longer than any peer's", a)
		}
		i, ok := at[id]
		if !ok {
			i = len(out)
			at[id] = i
			out = append(out, peers.Addr{ID: id})
		}
		if s := where.String(); len(where) > 0 && !slices.Contains(out[i].Addrs, s) {
			out[i].Addrs = append(out[i].Addrs, s)
		}
	}
	return out, nil
}
