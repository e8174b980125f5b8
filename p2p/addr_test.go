package p2p

import (
	"context"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// Addresses are named by peers: whatever they are, dialling them is no more than an error.
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
