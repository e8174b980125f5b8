package p2p

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher/peers"
)

// dns is a DNS in memory. It asks nobody, and does not answer for names that it lacks.
type dns struct {
	mu sync.Mutex
	at map[string]string // name -> address
}

func (n *dns) ResolveDNSAddr(context.Context, peer.ID, ma.Multiaddr, int, int) ([]ma.Multiaddr, error) {
	return nil, errors.New("no such name")
}

func (n *dns) ResolveDNSComponent(_ context.Context, a ma.Multiaddr, _ int) ([]ma.Multiaddr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at, ok := n.at[a[0].Value()]
	if !ok {
		return nil, errors.New("no such name")
	}
	return []ma.Multiaddr{ma.StringCast(at).Encapsulate(a[1:])}, nil
}

func (n *dns) point(name, at string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.at[name] = at
}

// A name in a ticket is looked up again for each attempt: a home whose address changed is found
// as soon as its name leads to the new one.
func TestNamesAreResolvedAgainForEachAttempt(t *testing.T) {
	names := &dns{at: map[string]string{}}
	src := newHost(t, Config{Listen: []string{"/ip4/127.0.0.1/tcp/0"}})
	port, err := src.swarm.ListenAddresses()[0].ValueForProtocol(ma.P_TCP)
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, Config{Listen: []string{"none"}, Libp2p: []libp2p.Option{libp2p.MultiaddrResolver(names)}})
	to := peers.Addr{ID: src.ID(), Addrs: []string{"/dns/home.example/tcp/" + port}}
	if _, err := h.connect(t.Context(), to); err == nil || err.Error() != noName+" (home.example)" || !errors.Is(err, peers.ErrUnreachable) {
		t.Error("a name that nobody knows:", err)
	}
	names.point("home.example", "/ip6/::1")
	if _, err := h.connect(t.Context(), to); err == nil || !errors.Is(err, peers.ErrUnreachable) {
		t.Error("a name that leads elsewhere:", err)
	}
	names.point("home.example", "/ip4/127.0.0.1")
	if _, err := h.connect(t.Context(), to); err != nil {
		t.Error("a name that leads there now:", err)
	}
}
