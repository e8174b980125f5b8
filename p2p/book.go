package p2p

import (
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/record"
	"github.com/libp2p/go-libp2p/p2p/host/peerstore/pstoremem"
	ma "github.com/multiformats/go-multiaddr"
)

// book is libp2p's peerstore, except that peers are dialled only at the addresses that this
// host was just given. libp2p would add what a peer said of itself
// while it was connected, and what others have said of it before.
type book struct {
	peerstore.Peerstore
	peerstore.CertifiedAddrBook

	mu sync.Mutex
	at map[peer.ID][]*entry
}

// entry is one dial.
type entry struct {
	addrs []ma.Multiaddr
	until time.Time // zero: until it is removed
}

// maxLearnt is how many addresses of peers that are not connected are remembered.
const maxLearnt = 1 << 15

// maxPunches is for how many peers holes are punched at once.
const maxPunches = 64

func newBook() (*book, error) {
	ps, err := pstoremem.NewPeerstore(pstoremem.WithMaxAddresses(maxLearnt))
	if err != nil {
		return nil, err
	}
	return &book{Peerstore: ps, CertifiedAddrBook: ps, at: map[peer.ID][]*entry{}}, nil
}

// GetPeerRecord implements peerstore.CertifiedAddrBook. There is none, so that identify sends none: nothing here reads them, and the
// number of one is this machine's clock, to the nanosecond, by which a machine could be told whatever its peer ID is.
func (b *book) GetPeerRecord(peer.ID) *record.Envelope { return nil }

// dial lets a peer be dialled at some addresses until done is called.
func (b *book) dial(id peer.ID, addrs []ma.Multiaddr) (done func()) {
	e := &entry{addrs: addrs}
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

// punch lets a peer be dialled at some addresses until a time, in place of those of earlier
// calls. Not ok: there are too many such peers.
func (b *book) punch(id peer.ID, addrs []ma.Multiaddr, until time.Time) (ok bool) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	punches := 0
	for at, list := range b.at {
		list = slices.DeleteFunc(list, func(e *entry) bool { return !e.until.IsZero() && (at == id || now.After(e.until)) })
		if b.at[at] = list; len(list) == 0 {
			delete(b.at, at)
		}
		for _, e := range list {
			if !e.until.IsZero() {
				punches++
			}
		}
	}
	if punches >= maxPunches {
		return false
	}
	b.at[id] = append(b.at[id], &entry{addrs, until})
	return true
}

// Addrs implements peerstore.AddrBook.
func (b *book) Addrs(id peer.ID) (out []ma.Multiaddr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.at[id] {
		if e.until.IsZero() || time.Now().Before(e.until) {
			out = append(out, e.addrs...)
		}
	}
	return ma.Unique(out)
}
