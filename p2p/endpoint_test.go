package p2p

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
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

// Where a router translates (NAT64, RFC 6052 and 8215) or tunnels (6to4), an address of IPv6 leads to the one of IPv4 in it, which may be
// one of the network that this node is in. Then no peer from outside may have it dialled.
func TestAnAddressThatHidesANearOneIsNear(t *testing.T) {
	for _, addr := range []string{"/ip6/64:ff9b::c0a8:101/tcp/8080", "/ip6/64:ff9b::a00:1/udp/8080/quic-v1", "/ip6/64:ff9b::7f00:1/tcp/8080", "/ip6/64:ff9b:1::c0a8:101/tcp/8080", "/ip6/2002:c0a8:101::1/tcp/8080"} {
		if got := peers.Named(Endpoints([]string{addr}), share.Anywhere); len(got) > 0 {
			t.Errorf("%s: who is anywhere may have it dialled", addr)
		}
	}
	if far := "/ip6/64:ff9b::808:404/tcp/8080"; len(peers.Named(Endpoints([]string{far}), share.Anywhere)) == 0 {
		t.Errorf("%s: it leads to 8.8.4.4", far)
	}
}

// Nor may a peer have more of such addresses dialled at once, by writing them in those ways, than there may be of their network (formats.md, 6.7).
func TestAnAddressThatLeadsToIPv4CountsWithItsNetwork(t *testing.T) {
	var all []peers.Endpoint
	for i := range 8 {
		for _, form := range []string{"/ip4/8.8.4.%[1]d/tcp/4001", "/ip6/2002:808:4%02[1]x::1/tcp/4001", "/ip6/64:ff9b::808:4%02[1]x/tcp/4001"} {
			all = append(all, Endpoints([]string{fmt.Sprintf(form, i)})...)
		}
	}
	dials, at := peers.NewDials(), 0
	for i, p := range all {
		if _, ok := dials.Begin(peers.ID(fmt.Sprint("namer", i)), "", []peers.Endpoint{p}, time.Now()); ok {
			at++
		}
	}
	if at > peers.MaxEndpoints {
		t.Errorf("of the %d addresses, all of 8.8.4.0/24, %d are dialled at once, want %d", len(all), at, peers.MaxEndpoints)
	}
}

// A machine goes from one network to another, and connects anew. The end of the connection that it had is not known yet: where it is now is the
// other end of the new one. A beacon that looked for its address at the old one would refuse it for a quarter of an hour.
func TestAPeerIsWhereItConnectedFromLast(t *testing.T) {
	h := newHost(t, Config{})
	h.OnMessages(func(peers.ID, []byte) {}, func(peers.ID) {})
	var last peers.Endpoint
	for i := range 2 {
		x := newHost(t, Config{Key: seedKey(2), Listen: []string{"none"}}) // the same node, at another port
		if _, err := x.connect(t.Context(), addr(h)); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the connection", func() bool { return len(h.swarm.ConnsToPeer(hostID(seedKey(2)))) == i+1 })
		at, ok := endpointOf(x.swarm.ConnsToPeer(h.host.ID())[0].LocalMultiaddr())
		if last = at; !ok {
			t.Fatal("no endpoint")
		}
	}
	if at, ok := h.Where(peerOf(seedKey(2))); !ok || at.Addr != last.Addr {
		t.Errorf("it is at %s, want %s", at.Addr, last.Addr)
	}
}
