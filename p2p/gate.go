package p2p

import (
	"io"
	"net/netip"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/control"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/net/upgrader"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
	"go.uber.org/fx"

	"github.com/piecelease/fetcher/peers"
)

// gate is libp2p's connmgr.ConnectionGater: it turns away incoming TCP connections
// when too many from the same place have not said yet who they are, and closes old ones of
// places that have more of them than others. Over QUIC, libp2p learns of a connection only
// when that is known.
type gate struct {
	acks   *acks
	mu     sync.Mutex
	silent *peers.Silent[io.Closer]
}

func newGate(l limits, t Timeouts, a *acks) *gate {
	return &gate{acks: a, silent: peers.NewSilent[io.Closer](peers.SilentConfig{All: l.silent, OfNet: l.silentOfNet, OfOne: l.silentOfOne, For: t.Accept})}
}

// acceptWithin is the option to close connections that take longer than d to be secured.
func acceptWithin(d time.Duration) libp2p.Option {
	return libp2p.WithFxOption(fx.Supply([]upgrader.Option{upgrader.WithAcceptTimeout(d)}))
}

// from returns the address and the network that a connection over TCP comes from. Not ok:
// it is not over TCP.
func from(c network.ConnMultiaddrs) (addr, net string, ok bool) {
	a := c.RemoteMultiaddr()
	if !has(a, ma.P_TCP) {
		return "", "", false
	}
	raw, err := manet.ToIP(a)
	if err != nil {
		return "", "", false
	}
	ip, _ := netip.AddrFromSlice(raw)
	if ip = ip.Unmap(); ip.Is4() {
		return ip.String(), prefix(ip, 24), true
	}
	return prefix(ip, 56), prefix(ip, 48), true
}

func prefix(ip netip.Addr, bits int) string { return netip.PrefixFrom(ip, bits).Masked().String() }

// InterceptAccept implements connmgr.ConnectionGater, as do the others.
func (g *gate) InterceptAccept(c network.ConnMultiaddrs) bool {
	addr, net, ok := from(c)
	if !ok {
		return true
	}
	conn, _ := c.(io.Closer)
	g.mu.Lock()
	gone, ok := g.silent.Came(named(c), addr, net, conn, time.Now())
	g.mu.Unlock()
	if gone != nil {
		gone.Close()
	}
	return ok
}

// named is what no two open connections have in common.
func named(c network.ConnMultiaddrs) string {
	return c.RemoteMultiaddr().String() + " " + c.LocalMultiaddr().String()
}

func (g *gate) InterceptUpgraded(c network.Conn) (bool, control.DisconnectReason) {
	if _, _, ok := from(c); ok && c.Stat().Direction == network.DirInbound {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.silent.Spoke(named(c))
	}
	return true, 0
}

func (g *gate) InterceptPeerDial(peer.ID) bool               { return true }
func (g *gate) InterceptAddrDial(peer.ID, ma.Multiaddr) bool { return true }
func (g *gate) InterceptSecured(_ network.Direction, _ peer.ID, c network.ConnMultiaddrs) bool {
	g.acks.watch(c)
	return true
}
