package p2p

import (
	"slices"
	"sync"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/p2p/host/peerstore/pstoremem"
	ma "github.com/multiformats/go-multiaddr"
)

// book is libp2p's peerstore, but for where peers are dialled: that is where this host
// was just told to, and nowhere else. libp2p would add what a peer said of itself
// while it was connected, and what others have said of it before.
type book struct {
	peerstore.Peerstore
	peerstore.CertifiedAddrBook

	mu sync.Mutex
	at map[peer.ID][]*entry
}

// entry is one dial.
type entry struct{ addrs []ma.Multiaddr }

func newBook() (*book, error) {
	ps, err := pstoremem.NewPeerstore()
	if err != nil {
		return nil, err
	}
	return &book{Peerstore: ps, CertifiedAddrBook: ps, at: map[peer.ID][]*entry{}}, nil
}

// dial lets a peer be dialled at some addresses until done is called.
func (b *book) dial(id peer.ID, addrs []ma.Multiaddr) (done func()) {
	e := &entry{addrs}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at[id] = append(b.at[id], e)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.at[id] = slices.DeleteFunc(b.at[id], func(x *entry) bool { return x == e }); len(b.at[id]) == 0 {
			delete(b.at, id)
		}
	}
}

// Addrs implements peerstore.AddrBook.
func (b *book) Addrs(id peer.ID) (out []ma.Multiaddr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.at[id] {
		out = append(out, e.addrs...)
	}
	return ma.Unique(out)
}
