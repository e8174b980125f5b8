package p2p

import (
	"strings"
	"testing"

	"github.com/piecelease/fetcher/peers"
)

func TestPlaces(t *testing.T) {
	for addr, want := range map[string]peers.Endpoint{
		"/ip4/8.8.4.4/tcp/4001":                 {Location: "8.8.0.0/16", Net: "8.8.4.0/24", Port: 4001},
		"/ip4/8.8.4.4/udp/4001/quic-v1":         {Location: "8.8.0.0/16", Net: "8.8.4.0/24", Port: 4001, QUIC: true},
		"/ip6/2606:4700:1::1/tcp/443":           {Location: "2606:4700::/32", Net: "2606:4700:1::/48", Port: 443, IPv6: true},
		"/ip4/192.168.1.7/tcp/22":               {Location: "192.168.0.0/16", Net: "192.168.1.0/24", Port: 22, Reach: 1},
		"/ip6/fe80::1/tcp/22":                   {Location: "fe80::/32", Net: "fe80::/48", Port: 22, Reach: 1, IPv6: true},
		"/ip4/127.0.0.1/udp/65535/quic-v1":      {Location: "127.0.0.0/16", Net: "127.0.0.0/24", Port: 65535, Reach: 2, QUIC: true},
		"/ip6/::1/tcp/1":                        {Location: "::/32", Net: "::/48", Port: 1, Reach: 2, IPv6: true},
		"/ip4/8.8.4.4/tcp/4001/p2p/" + somebody: {Addr: "/ip4/8.8.4.4/tcp/4001", Location: "8.8.0.0/16", Net: "8.8.4.0/24", Port: 4001},
	} {
		if want.Addr == "" {
			want.Addr = addr
		}
		want.Host = strings.Split(addr, "/")[2]
		if got := Endpoints([]string{addr}); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %+v, want %+v", addr, got, want)
		}
	}
	for _, addr := range []string{"", "8.8.4.4:1", "/dns4/example.com/tcp/4001", "/ip4/8.8.4.4", "/ip4/8.8.4.4/udp/4001", "/ip4/8.8.4.4/tcp/4001/ws",
		"/ip4/8.8.4.4/udp/1/quic-v1/webtransport", "/ip4/8.8.4.4/tcp/1/p2p/" + somebody + "/p2p-circuit",
		"/ip4/0.0.0.0/tcp/4001", "/ip6/::/tcp/4001", "/ip4/224.0.0.1/udp/4001/quic-v1", "/ip4/255.255.255.255/udp/4001/quic-v1", "/ip6/ff02::1/udp/1/quic-v1",
		"/ip6/::ffff:127.0.0.1/tcp/6379", "/ip6/::ffff:7f00:1/tcp/6379", "/ip6zone/eth0/ip6/fe80::1/tcp/4001", "/unix/tmp/x"} {
		if got := Endpoints([]string{addr}); len(got) > 0 {
			t.Errorf("%s: %+v", addr, got)
		}
	}
}

const somebody = "12D3KooWD3eckifWpRn9wQpMG9R9hX3sD158z7EqHWmweQAJU5SA"
