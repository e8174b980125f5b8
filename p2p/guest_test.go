package p2p

import (
	"fmt"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher/peers"
)

// What others say of where a trusted peer is does not get it dialled there, past the bounds for
// what others say.
func TestAGuestDialsATrustedPeerOnlyWhereItIsSaidToBe(t *testing.T) {
	h, there := newHost(t, Config{}), newHost(t, Config{})
	to, err := peer.AddrInfoFromString(there.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	nobody := ma.StringCast("/ip4/127.0.0.1/tcp/1")
	id := peers.ID(to.ID.String())
	g := NewGuest(h, "table", peers.Addr{ID: id, Addrs: []string{nobody.String()}})
	g.Peerstore().AddAddrs(to.ID, to.Addrs, peerstore.TempAddrTTL)
	if err := g.Connect(t.Context(), *to); err == nil {
		t.Error("it was dialled where others say that it is")
	}
	if g = NewGuest(h, "table", peers.Addr{ID: id, Addrs: there.Addrs()[:1]}); g.Connect(t.Context(), peer.AddrInfo{ID: to.ID, Addrs: []ma.Multiaddr{nobody}}) != nil {
		t.Error("it was not dialled where the user says that it is")
	}
}

// Of addresses that strangers are said to have, four are dialled, as of all that others name.
func TestAGuestDialsStrangersWithinBounds(t *testing.T) {
	h, there := newHost(t, Config{}), newHost(t, Config{})
	to, err := peer.AddrInfoFromString(there.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	g := NewGuest(h, "table")
	if s, err := g.NewStream(t.Context(), to.ID, "/x"); err == nil {
		s.Close()
		t.Error("a stream to nowhere")
	}
	var many []ma.Multiaddr
	for i := range peers.MaxEndpoints {
		many = append(many, ma.StringCast(fmt.Sprint("/ip4/127.0.0.1/tcp/", 1024+i)))
	}
	if err := g.Connect(t.Context(), peer.AddrInfo{ID: to.ID, Addrs: append(many, to.Addrs...)}); err == nil {
		t.Error("all were dialled")
	}
	if err := g.Connect(t.Context(), *to); err != nil {
		t.Error(err)
	}
}

// Nobody in a table has this host dial ports at which other kinds of services listen, as nobody who names peers has.
func TestAGuestDialsNoPortOfOtherServices(t *testing.T) {
	h, there := newHost(t, Config{}), newHost(t, Config{})
	to, err := peer.AddrInfoFromString(there.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	to.Addrs = []ma.Multiaddr{ma.StringCast("/ip4/127.0.0.1/tcp/25")}
	if err := NewGuest(h, "table").Connect(t.Context(), *to); err == nil || strings.Contains(err.Error(), "127.0.0.1:25") {
		t.Errorf("it was dialled: %v", err)
	}
}
