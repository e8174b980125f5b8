package p2p

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/piecelease/fetcher/peers"
)

// Addresses are named by peers: whatever they are, dialling them gives an error at worst.
func TestAddressesThatAreNoneAreSkipped(t *testing.T) {
	h, other := newHost(t, Config{}), newHost(t, Config{})
	id := string(other.ID())
	for _, a := range []string{"", "/", "x", "/p2p/" + id, "/p2p/" + string(h.ID()), "/p2p-circuit", "/ip4/127.0.0.1", "/ip4/127.0.0.1/tcp/1/p2p/" + string(h.ID()),
		"/ip6/::1/tcp/1", "/ip6zone/x/ip6/fe80::1/tcp/1", "/dns4/invalid/tcp/1", "/dnsaddr/invalid", "/unix/x", "/ip4/127.0.0.1/tcp/1/ws", "/ip4/127.0.0.1/udp/1/quic-v1/webtransport",
		"/ip4/127.0.0.1/tcp/1/p2p/" + id + "/p2p-circuit", "/memory/1", "/ip4/0.0.0.0/tcp/0"} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := h.connect(ctx, peers.Addr{ID: other.ID(), Addrs: []string{a}}); err == nil {
			t.Errorf("%q: connected", a)
		}
		cancel()
	}
	if _, err := h.connect(t.Context(), peers.Addr{ID: other.ID(), Addrs: append([]string{"/p2p/" + id, "x"}, other.Addrs()...)}); err != nil {
		t.Error(err)
	}
}

// A peer is dialled where it was just said to be, and nowhere else: not where it said
// itself while it was connected, nor where others said before.
func TestAPeerIsDialledWhereItIsSaidToBeAndNowhereElse(t *testing.T) {
	trap, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer trap.Close()
	var caught atomic.Int64
	go func() {
		for {
			c, err := trap.Accept()
			if err != nil {
				return
			}
			caught.Add(1)
			c.Close()
		}
	}()
	at, _ := manet.FromNetAddr(trap.Addr())
	h := newHost(t, Config{})
	other := newHost(t, Config{Libp2p: []libp2p.Option{libp2p.AddrsFactory(func(own []ma.Multiaddr) []ma.Multiaddr { return append(own, at) })}})
	trial := func(addrs ...string) error {
		_, err := h.connect(t.Context(), peers.Addr{ID: other.ID(), Addrs: addrs})
		return err
	}
	if err := trial(at.String()); err == nil || caught.Load() == 0 {
		t.Fatalf("said to be in the trap: %v, %d caught", err, caught.Load())
	}
	before := caught.Load()
	if err := trial(other.Addrs()...); err != nil {
		t.Fatal(err)
	}
	eventually(t, "identify", func() bool { // it names its addresses, among much else
		_, err := h.host.Peerstore().Get(other.host.ID(), "AgentVersion")
		return err == nil
	})
	h.swarm.ClosePeer(other.host.ID())
	if err := trial(); err == nil {
		t.Error("it was dialled though nobody said where it is")
	}
	if err := trial(other.Addrs()...); err != nil {
		t.Error(err)
	}
	if n := caught.Load(); n != before {
		t.Errorf("%d connections went into the trap", n-before)
	}
}
