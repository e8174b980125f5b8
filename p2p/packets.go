package p2p

import (
	"net"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/p2p/transport/quicreuse"
	"github.com/quic-go/quic-go"
	"go.uber.org/fx"
)

// Packets is a packet network in place of the operating system's. Package
// simnet/bubble has one, in memory and in virtual time. Its methods are called
// from many goroutines.
type Packets interface {
	// ListenUDP is like net.ListenUDP. The host closes what it gets.
	ListenUDP(addr *net.UDPAddr) (net.PacketConn, error)
	// SourceIP returns the source address of packets to dst.
	SourceIP(dst *net.UDPAddr) (net.IP, error)
}

// over is the option to send QUIC's packets over p.
func over(p Packets) libp2p.Option {
	return libp2p.QUICReuse(
		func(l fx.Lifecycle, rk quic.StatelessResetKey, tk quic.TokenGeneratorKey, o ...quicreuse.Option) (*quicreuse.ConnManager, error) {
			m, err := quicreuse.NewConnManager(rk, tk, o...)
			if err == nil {
				l.Append(fx.StopHook(m.Close))
			}
			return m, err
		},
		quicreuse.OverrideSourceIPSelector(func() (quicreuse.SourceIPSelector, error) { return selector{p}, nil }),
		quicreuse.OverrideListenUDP(func(_ string, a *net.UDPAddr) (net.PacketConn, error) { return p.ListenUDP(a) }),
	)
}

type selector struct{ Packets }

func (s selector) PreferredSourceIPForDestination(dst *net.UDPAddr) (net.IP, error) {
	return s.SourceIP(dst)
}
