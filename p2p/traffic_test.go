package p2p

import (
	"testing"

	ma "github.com/multiformats/go-multiaddr"
)

func TestTrafficIsCountedByWherePeersAre(t *testing.T) {
	for at, want := range map[string]string{"/ip4/127.0.0.1/tcp/1": "machine", "/ip4/10.0.0.1/udp/1/quic-v1": "network", "/ip6/fe80::1/tcp/1": "network", "/ip4/8.8.8.8/tcp/1": "anywhere",
		"/ip4/10.0.0.1/tcp/1/p2p/12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN/p2p-circuit": "relay"} {
		if got := flows[flowOf(ma.StringCast(at))]; got != want {
			t.Errorf("%s is %s, want %s", at, got, want)
		}
	}
}
