package fetcher

import (
	"net/netip"

	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// savePort keeps the port for the next run, as soon as it is bound: tickets name it.
// before is that of the last run, 0 if there was none.
func (n *Node) savePort(before int) {
	port := portOf(n)
	if port == 0 || port == before {
		return
	}
	if before != 0 {
		n.log.Warn("the port that this node had before cannot be opened, perhaps because another program uses it, so this node uses a new one: tickets that were handed out name the old one, and may not work", "port", before, "now", port)
	}
	if err := n.state.SavePort(port); err != nil {
		n.log.Warn("the port was not saved: after a restart, tickets may not work", "port", port, "error", err)
	}
}

// portOf is the first TCP port that the node listens on; 0 if there is none.
func portOf(n *Node) int {
	addrs := n.host.Addrs()
	for _, a := range addrs[min(len(addrs), len(n.cfg.Announce)):] {
		m, err := ma.NewMultiaddr(a)
		if err != nil {
			continue
		}
		if tcp, err := manet.ToNetAddr(firstOf(m)); err == nil {
			if ap, err := netip.ParseAddrPort(tcp.String()); err == nil {
				return int(ap.Port())
			}
		}
	}
	return 0
}

// firstOf is the part of a multiaddr before /p2p.
func firstOf(m ma.Multiaddr) ma.Multiaddr {
	first, _ := ma.SplitFunc(m, func(c ma.Component) bool { return c.Protocol().Code == ma.P_P2P })
	return first
}
