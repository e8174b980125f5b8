package p2p

import (
	"context"
	"slices"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/protocol"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Guest is a host for a protocol of another library.
type Guest = host.Host

// guest is the host as protocols see it that other libraries bring. They use its connections,
// and what it has learnt about peers; whom they want to reach is dialled like a peer that
// another named, as that is where they have it from.
type guest struct {
	host.Host
	h       *Host
	named   peers.ID // the namer of all peers but those trusted
	trusted []peers.Addr
}

// NewGuest returns the host for a protocol of another library. named stands for all who name peers by
// that protocol, whose dials are bounded together; those that are trusted are dialled at the
// addresses that are given here, and no others. The guest does not close the host.
func NewGuest(h *Host, named peers.ID, trusted ...peers.Addr) Guest {
	return &guest{Host: h.host, h: h, named: named, trusted: trusted}
}

// Peerstore has the addresses that were learnt of peers, though the host dials none for that.
func (g *guest) Peerstore() peerstore.Peerstore { return g.h.book.Peerstore }

// Addrs are the addresses that the host tells others.
func (g *guest) Addrs() (out []ma.Multiaddr) {
	for _, s := range g.h.Addrs() {
		if a, err := ma.NewMultiaddr(s); err == nil {
			out = append(out, bare(a))
		}
	}
	return out
}

// Connect implements host.Host.
func (g *guest) Connect(ctx context.Context, to peer.AddrInfo) error {
	a := peers.Addr{ID: peers.ID(to.ID.String()), By: g.named}
	if i := slices.IndexFunc(g.trusted, func(t peers.Addr) bool { return t.ID == a.ID }); i >= 0 {
		a = g.trusted[i]
	} else {
		for _, x := range to.Addrs { // the best first: few are dialled
			a.Addrs = append(a.Addrs, x.String())
		}
		a.Addrs = peers.Addrs(peers.Named(Endpoints(a.Addrs), share.SameMachine)) // from how far is for the protocol to say
	}
	_, err := g.h.connect(ctx, a)
	return err
}

// NewStream implements host.Host.
func (g *guest) NewStream(ctx context.Context, to peer.ID, all ...protocol.ID) (network.Stream, error) {
	if err := g.Connect(ctx, peer.AddrInfo{ID: to}); err != nil {
		return nil, err
	}
	return g.Host.NewStream(network.WithNoDial(ctx, "Connect dials"), to, all...)
}

// Close implements host.Host: it is the host's own to close.
func (g *guest) Close() error { return nil }
