package share

import (
	"testing"

	"github.com/multiformats/go-multiaddr"
)

func TestReach(t *testing.T) {
	for addr, want := range map[string]int{
		"/ip4/8.8.8.8/tcp/1": 0, "/dns4/example.com/tcp/1": 0, "/ip6/2606:4700::1/udp/1/quic-v1": 0,
		"/ip4/192.168.1.7/tcp/1": 1, "/ip6/fe80::1/tcp/1": 1, "/ip4/127.0.0.1/tcp/1": 2, "/ip6/::1/tcp/1": 2,
	} {
		if got := Reach(multiaddr.StringCast(addr)); got != want {
			t.Errorf("%s: %d, want %d", addr, got, want)
		}
	}
}
