package p2p

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
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

// Whatever bytes somebody calls an address, what this program does with it before and after a dial gives an error at worst.
func FuzzAddresses(f *testing.F) {
	self := "/p2p/" + string(somebody)
	for _, s := range []string{"/quic-v1", "/tcp/1", "/p2p-circuit", "/ip6zone/x", "/ip6zone/x/ip4/127.0.0.1/tcp/1", "/ip4/192.0.2.1/udp/1/quic-v1", "/dnsaddr/x/quic-v1", "/quic-v1" + self + "/p2p-circuit",
		"/ip4/192.0.2.1/tcp/1" + self + "/p2p-circuit/quic-v1", "/dns/x/udp/1/quic-v1", "/ip6/64:ff9b::1/tcp/1", self, self + self} {
		f.Add(ma.StringCast(s).Bytes())
	}
	h := newHost(f, Config{Listen: []string{"none"}, Reach: Reach{Traverse: true}})
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := ma.NewMultiaddrBytes(b)
		if err != nil {
			a = nil // as is what remains of an address that is a peer ID alone
		}
		direct, over, err := h.ways(peers.Addr{ID: somebody, Addrs: []string{a.String()}})
		for _, a := range append(direct, over...) {
			if !dialable(a) {
				t.Errorf("%s would be dialled", a)
			}
		}
		if len(direct)+len(over) > 0 && err != nil {
			t.Errorf("%s: %v", a, err)
		}
		h.through(over)()
		h.swarm.CanDial(hostID(seedKey(77)), a) // DNS may give any address for a name
		_ = rankDials(append(direct, over...))
		_ = dialFailed(&swarm.DialError{DialErrors: []swarm.TransportError{{Address: a, Cause: swarm.ErrNoTransport}}}, direct)
		_ = dialFailed(&swarm.DialError{Cause: swarm.ErrNoGoodAddresses}, direct)
		_, _ = Endpoints([]string{a.String()}), share.Farthest([]string{a.String()}, len(over) > 0)
		if _, err := share.NewTicket(share.IDOf(b), []ma.Multiaddr{a, a.Encapsulate(ma.StringCast(self))}); err == nil && len(a) == 0 {
			t.Error("a ticket with an address that is none")
		}
	})
}

// What DNS gives for a name is no more to be trusted than what a ticket does.
func TestANameMayLeadToNoAddress(t *testing.T) {
	t.Parallel()
	h := newHost(t, Config{Listen: []string{"none"}, Libp2p: []libp2p.Option{libp2p.MultiaddrResolver(oddNames{&dns{}})}})
	if _, err := h.connect(t.Context(), peers.Addr{ID: somebody, Addrs: []string{"/dnsaddr/example.org"}}); err == nil || !strings.HasPrefix(err.Error(), noUse) {
		t.Error(err)
	}
}

// oddNames is a DNS that answers with what cannot be dialled.
type oddNames struct{ *dns }

func (oddNames) ResolveDNSAddr(_ context.Context, id peer.ID, _ ma.Multiaddr, _, _ int) (out []ma.Multiaddr, err error) {
	for _, s := range []string{"", "/quic-v1", "/tcp/1", "/dns/x"} {
		out = append(out, ma.StringCast(s+"/p2p/"+id.String()))
	}
	return out, nil
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
