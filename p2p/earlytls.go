package p2p

import (
	"context"
	"errors"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	"github.com/libp2p/go-libp2p/p2p/transport/tcpreuse"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
	"github.com/multiformats/go-multistream"
)

// earlyTCP is TCP over which TLS begins together with its proposal, while libp2p would wait for a round
// trip until the peer has accepted it. A peer that does not is dialled again, and asked what it accepts.
type earlyTCP struct{ *tcp.TcpTransport }

func newTCP(u transport.Upgrader, r network.ResourceManager, shared *tcpreuse.ConnMgr, opts ...tcp.Option) (*earlyTCP, error) {
	t, err := tcp.NewTCPTransport(earlyUpgrader{u}, r, shared, opts...)
	return &earlyTCP{t}, err
}

func (t *earlyTCP) Dial(ctx context.Context, addr ma.Multiaddr, p peer.ID) (transport.CapableConn, error) {
	return t.DialWithUpdates(ctx, addr, p, nil)
}

func (t *earlyTCP) DialWithUpdates(ctx context.Context, addr ma.Multiaddr, p peer.ID, updates chan<- transport.DialUpdate) (transport.CapableConn, error) {
	c, err := t.TcpTransport.DialWithUpdates(ctx, addr, p, updates)
	if errors.Is(err, multistream.ErrNotSupported[proposed]{}) {
		return t.TcpTransport.DialWithUpdates(context.WithValue(ctx, asking{}, true), addr, p, updates)
	}
	return c, err
}

type (
	proposed string   // a protocol that was proposed early
	asking   struct{} // key of a context in which nothing is
)

// earlyUpgrader makes an earlyConn of each connection that is dialled.
type earlyUpgrader struct{ transport.Upgrader }

func (u earlyUpgrader) Upgrade(ctx context.Context, t transport.Transport, c manet.Conn, dir network.Direction, p peer.ID, scope network.ConnManagementScope) (transport.CapableConn, error) {
	if dir == network.DirOutbound && ctx.Value(asking{}) == nil {
		c = &earlyConn{Conn: c, tls: multistream.NewMSSelect(c, proposed(libp2ptls.ID)), answer: tlsProposal}
	}
	return u.Upgrader.Upgrade(ctx, t, c, dir, p, scope)
}

// tlsProposal is what libp2p writes first, and what a peer that accepts it answers.
const tlsProposal = "\x13" + multistream.ProtocolID + "\n\x0b" + libp2ptls.ID + "\n"

// earlyConn answers the proposal of TLS itself. The peer gets it with the first bytes of TLS,
// and its answer is read before those that follow it.
type earlyConn struct {
	manet.Conn
	tls    multistream.LazyConn
	wrote  bool   // the proposal; the writer's
	answer string // still to be read by libp2p; the reader's
}

func (c *earlyConn) Write(b []byte) (int, error) {
	if c.wrote {
		return c.tls.Write(b)
	}
	if c.wrote = string(b) == tlsProposal; !c.wrote {
		return 0, multistream.ErrNotSupported[proposed]{}
	}
	return len(b), nil
}

func (c *earlyConn) Read(b []byte) (int, error) {
	if c.answer == "" {
		return c.tls.Read(b)
	}
	n := copy(b, c.answer)
	c.answer = c.answer[n:]
	return n, nil
}
