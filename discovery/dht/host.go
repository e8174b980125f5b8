package dht

import (
	"context"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/p2p/host/peerstore/pstoremem"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher/p2p"
)

// maxNamed is how many addresses are remembered that others in the table name.
const maxNamed = 1 << 15

// tableHost is the node's host as the library sees it: with a peerstore that knows nobody but
// those who are in the table, since the library tells whoever asks where a peer is.
type tableHost struct {
	p2p.Guest
	book *book
}

// Peerstore implements host.Host, as do the others.
func (h *tableHost) Peerstore() peerstore.Peerstore { return h.book }

func (h *tableHost) Connect(ctx context.Context, to peer.AddrInfo) error {
	return h.Guest.Connect(ctx, peer.AddrInfo{ID: to.ID, Addrs: slices.Concat(h.book.believed(to.Addrs), h.book.Addrs(to.ID))})
}

func (h *tableHost) NewStream(ctx context.Context, to peer.ID, all ...protocol.ID) (network.Stream, error) {
	if err := h.Connect(ctx, peer.AddrInfo{ID: to}); err != nil {
		return nil, err
	}
	return h.Guest.NewStream(ctx, to, all...)
}

// book is a peerstore whose addresses are those that the table named, and those of peers that
// take part in it, both as far as they are believed. All else is the node's.
type book struct {
	peerstore.Peerstore
	named    peerstore.Peerstore
	speaks   protocol.ID
	believed func([]ma.Multiaddr) []ma.Multiaddr
}

func newBook(all peerstore.Peerstore, speaks protocol.ID, believed func([]ma.Multiaddr) []ma.Multiaddr) (*book, error) {
	named, err := pstoremem.NewPeerstore(pstoremem.WithMaxAddresses(maxNamed), pstoremem.WithMaxAddressesPerPeer(maxAddrs))
	if err != nil {
		return nil, err
	}
	return &book{all, named, speaks, believed}, nil
}

// Close forgets what the table named; the rest is the node's own to close.
func (b *book) Close() error { return b.named.Close() }

// Addrs implements peerstore.AddrBook, as do the others.
func (b *book) Addrs(id peer.ID) []ma.Multiaddr {
	out := b.named.Addrs(id)
	if has, err := b.Peerstore.SupportsProtocols(id, b.speaks); err == nil && len(has) > 0 {
		out = slices.Concat(b.Peerstore.Addrs(id), out)
	}
	return ma.Unique(b.believed(out))
}

func (b *book) PeerInfo(id peer.ID) peer.AddrInfo {
	return peer.AddrInfo{ID: id, Addrs: b.Addrs(id)}
}

func (b *book) AddAddr(id peer.ID, a ma.Multiaddr, ttl time.Duration) { b.named.AddAddr(id, a, ttl) }
func (b *book) AddAddrs(id peer.ID, all []ma.Multiaddr, ttl time.Duration) {
	var at []ma.Multiaddr
	for _, a := range b.believed(all) {
		if a, of := peer.SplitAddr(a); a != nil && (of == "" || of == id) && len(at) < maxAddrs {
			at = append(at, a)
		}
	}
	if len(at) == 0 || ttl <= 0 {
		return
	}
	b.named.AddAddrs(id, at, ttl)
	if slices.ContainsFunc(b.named.Addrs(id), at[len(at)-1].Equal) {
		return
	}
	known := b.named.PeersWithAddrs() // in no order; it is full, and some make way
	for _, old := range known[:min(len(known), maxNamed/maxAddrs/8)] {
		b.named.ClearAddrs(old)
	}
	b.named.AddAddrs(id, at, ttl)
}

func (b *book) SetAddr(id peer.ID, a ma.Multiaddr, ttl time.Duration) { b.named.SetAddr(id, a, ttl) }
func (b *book) SetAddrs(id peer.ID, all []ma.Multiaddr, ttl time.Duration) {
	b.named.SetAddrs(id, all, ttl)
}
func (b *book) UpdateAddrs(id peer.ID, from, to time.Duration) { b.named.UpdateAddrs(id, from, to) }
func (b *book) ClearAddrs(id peer.ID)                          { b.named.ClearAddrs(id) }
func (b *book) PeersWithAddrs() peer.IDSlice                   { return b.named.PeersWithAddrs() }
func (b *book) AddrStream(ctx context.Context, id peer.ID) <-chan ma.Multiaddr {
	return b.named.AddrStream(ctx, id)
}
