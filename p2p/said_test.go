package p2p

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/relay"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
	"github.com/quic-go/quic-go"

	"github.com/piecelease/fetcher/peers"
)

// listenRaw returns an address at which a program listens that is not a fetcher.
func listenRaw(t *testing.T, talk func(net.Conn)) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() }) // not before: a connection that nobody refers to is closed by the garbage collector
			talk(c)
		}
	}()
	at, err := manet.FromNetAddr(ln.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return at.String()
}

// listenQUIC returns an address at which a QUIC server listens that is not a fetcher.
func listenQUIC(t *testing.T) string {
	none := func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errors.New("none") }
	ln, err := quic.ListenAddr("127.0.0.1:0", &tls.Config{GetCertificate: none, NextProtos: []string{"h3"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return fmt.Sprintf("/ip4/127.0.0.1/udp/%d/quic-v1", ln.Addr().(*net.UDPAddr).Port)
}

// What people read about a failed dial, and how the program classifies it.
// Two dials of a peer side by side say the same of it: that the library leaves an address out which refused the other
// dial is no reason.
func TestADialSaysNothingOfTheOneBesideIt(t *testing.T) {
	t.Parallel()
	h, at, beside := newHost(t, Config{}), ma.StringCast("/ip4/127.0.0.1/tcp/1"), true
	to := peers.Addr{ID: peerOf(seedKey(77)), Addrs: []string{at.String()}}
	_, err := connectBy(t.Context(), h, to, func(ctx context.Context, id peer.ID) error {
		if beside {
			h.swarm.Backoff().AddBackoff(id, at)
		}
		beside = false
		return h.host.Connect(ctx, peer.AddrInfo{ID: id})
	})
	if want := refused + " (TCP 127.0.0.1:1)"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// The address that a dial beside this one found closed is not dialled here, and the others say what they did.
func TestADialBesideAnotherSaysWhatEachAddressDid(t *testing.T) {
	t.Parallel()
	h, closed := newHost(t, Config{}), ma.StringCast("/ip4/127.0.0.1/tcp/1")
	mute := listenRaw(t, func(net.Conn) {})
	_, err := connectBy(t.Context(), h, peers.Addr{ID: peerOf(seedKey(77)), Addrs: []string{closed.String(), mute}}, func(ctx context.Context, id peer.ID) error {
		h.swarm.Backoff().AddBackoff(id, closed)
		return h.host.Connect(ctx, peer.AddrInfo{ID: id})
	})
	if err == nil || !errors.Is(err, peers.ErrLost) || !strings.Contains(err.Error(), saysNothing+" (TCP 127.0.0.1:") || !strings.Contains(err.Error(), justFailed+" (TCP 127.0.0.1:1)") {
		t.Error(err)
	}
}

func TestWhyADialFailedIsSaidInWords(t *testing.T) {
	t.Parallel()
	other, quicOther := newHost(t, Config{}), newHost(t, Config{Listen: []string{"/ip4/127.0.0.1/udp/0/quic-v1"}})
	closed := listenRaw(t, nil)
	port := closed[strings.LastIndex(closed, "/")+1:]
	for name, c := range map[string]struct {
		addrs []string
		want  string
		is    error
	}{
		"nobody listens":     {[]string{"/ip4/127.0.0.1/tcp/1"}, refused + " (TCP 127.0.0.1:1)", peers.ErrUnreachable},
		"refused and silent": {[]string{"/ip4/127.0.0.1/tcp/1", "/ip4/127.0.0.1/udp/" + port + "/quic-v1"}, refused + " (TCP 127.0.0.1:1)", peers.ErrUnreachable},
		"many addresses":     {[]string{"/ip4/127.0.0.1/tcp/1", "/ip4/127.0.0.1/tcp/2", "/ip4/127.0.0.1/tcp/3", "/ip4/127.0.0.1/tcp/4"}, refused + " (", peers.ErrUnreachable},
		"nothing said":       {[]string{listenRaw(t, func(net.Conn) {})}, saysNothing + " (TCP 127.0.0.1:", peers.ErrLost},
		"a web server": {[]string{listenRaw(t, func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			c.Close()
		})}, foreign + " (TCP 127.0.0.1:", peers.ErrUnreachable},
		"hangs up":            {[]string{listenRaw(t, func(c net.Conn) { c.Close() })}, foreign + " (TCP 127.0.0.1:", peers.ErrUnreachable},
		"another QUIC server": {[]string{listenQUIC(t)}, foreign + " (QUIC 127.0.0.1:", peers.ErrUnreachable},
		"another node":        {other.Addrs()[:1], another + " (TCP", peers.ErrUnreachable},
		"another over QUIC":   {quicOther.Addrs(), another + " (QUIC", peers.ErrUnreachable},
		"no address":          {nil, noAddress, peers.ErrUnreachable},
		"no use":              {[]string{"/unix/tmp"}, noUse, peers.ErrUnreachable},
		"no answer":           {[]string{"/ip4/127.0.0.1/udp/" + port + "/quic-v1"}, noAnswer + " (QUIC 127.0.0.1:" + port + ")", peers.ErrUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dial := patience // whoever answers does so in time, also on a busy machine
			switch name {
			case "no answer":
				dial = soon
			case "nothing said", "refused and silent":
				dial = 20 * soon // the connection has to be made, or refused, first
			}
			h := newHost(t, Config{Listen: []string{"none"}, Timeouts: Timeouts{Dial: dial}})
			x, sink := newMemory(t, 1), newCatcher()
			h.Open(peers.Addr{ID: peerOf(seedKey(77)), Addrs: c.addrs}, x.m.ID(), x.m.Layout(), sink)
			err := recv(t, "the end", sink.down)
			if !errors.Is(err, c.is) || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %q, want %q", err, c.want)
			}
			for _, jargon := range []string{"dial tcp", "context deadline", "i/o timeout", "multiplexer", "\n", "peer is unreachable"} {
				if strings.Contains(err.Error(), jargon) {
					t.Errorf("%q is for programmers", err)
				}
			}
			if strings.Contains(err.Error(), "; ") {
				t.Errorf("two reasons for one machine: %q", err)
			}
			if len(c.addrs) == 4 && !strings.HasSuffix(err.Error(), " and 2 more)") {
				t.Errorf("not in short: %q", err)
			}
		})
	}
}

// libp2p reports a relay's refusals in text alone: here real relays give each of them.
func TestWhyARelayIsOfNoUseIsSaidInWords(t *testing.T) {
	t.Parallel()
	idle, strict, full := newHost(t, Config{Reach: Reach{Relay: true}}), newHost(t, Config{}), newHost(t, Config{})
	for at, opt := range map[*Host]relay.Option{strict: relay.WithACL(nobody{}), full: relay.WithResources(relay.Resources{MaxReservations: 1, MaxReservationsPerIP: 1, MaxReservationsPerASN: 1, ReservationTTL: time.Hour, BufferSize: 2048})} {
		r, err := relay.New(at.host, opt)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
	}
	known := newHost(t, Config{Key: seedKey(77), Reach: Reach{Traverse: true, Relays: full.Addrs()}})
	if p := known.Places(t.Context()); !p[0].Held {
		t.Fatal(p)
	}
	h := newHost(t, Config{Listen: []string{"none"}, Reach: Reach{Traverse: true}})
	for want, at := range map[string]string{
		offline:             idle.Addrs()[0],
		relayFull:           full.Addrs()[0],
		relayDenies + " (":  strict.Addrs()[0],
		relayGone + " (":    "/ip4/127.0.0.1/tcp/1/p2p/" + string(peerOf(seedKey(78))),
		noRelay + " (relay": newHost(t, Config{}).Addrs()[0],
	} {
		_, err := h.connect(t.Context(), peers.Addr{ID: peerOf(seedKey(77)), Addrs: []string{at + "/p2p-circuit"}})
		if !errors.Is(err, peers.ErrUnreachable) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// nobody lets everyone reserve a place at a relay and connects nobody.
type nobody struct{}

func (nobody) AllowReserve(peer.ID, ma.Multiaddr) bool          { return true }
func (nobody) AllowConnect(peer.ID, ma.Multiaddr, peer.ID) bool { return false }

func TestNoRouteIsSaidInWords(t *testing.T) { inNamespace(t, errand{Role: "unreachable"}) }

func noRouteIsSaid(t testing.TB) {
	h := newHost(t, Config{Listen: []string{"none"}})
	for at, want := range map[string]string{
		"/ip4/192.0.2.1/tcp/4001":           " (TCP 192.0.2.1:4001)",
		"/ip4/192.0.2.1/udp/4001/quic-v1":   " (QUIC 192.0.2.1:4001)",
		"/ip6/2001:db8::1/tcp/4001":         " (TCP [2001:db8::1]:4001)",
		"/ip6/2001:db8::1/udp/4001/quic-v1": " (QUIC [2001:db8::1]:4001)",
	} {
		if _, err := h.connect(t.Context(), peers.Addr{ID: peerOf(seedKey(77)), Addrs: []string{at}}); err == nil || err.Error() != noRoute+want {
			t.Errorf("got %v, want %q", err, noRoute+want)
		}
	}
}

// What is said of a connection, over both transports, that the other side has ended.
func TestWhyAConnectionEndedIsSaidInWords(t *testing.T) {
	t.Parallel()
	for name, listen := range map[string]string{"TCP": "/ip4/127.0.0.1/tcp/0", "QUIC": "/ip4/127.0.0.1/udp/0/quic-v1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for how, end := range map[string]func(network.Stream){
				"closes the stream":     func(s network.Stream) { s.Close() },
				"resets the stream":     func(s network.Stream) { s.Reset() },
				"closes the connection": func(s network.Stream) { s.Conn().Close() },
			} {
				src, h := newHost(t, Config{Listen: []string{listen}}), newHost(t, Config{Listen: []string{"none"}})
				src.host.SetStreamHandler("/ends", end)
				if _, err := h.connect(t.Context(), addr(src)); err != nil {
					t.Fatal(err)
				}
				s, err := h.host.NewStream(t.Context(), src.host.ID(), "/ends")
				if err == nil {
					_, err = s.Write([]byte("x"))
				}
				if err == nil {
					_, err = s.Read(make([]byte, 1))
				}
				want, lasts := endedStream, true
				if how == "closes the connection" {
					want, lasts = hungUp, false
				}
				if got := streamLost(h, peers.ID(src.host.ID().String()), err); err == nil || got.Error() != want || errors.Is(got, peers.ErrStream) != lasts {
					t.Errorf("it %s: %v, of %v (%T)", how, got, err, err)
				}
				if _, err := h.open(t.Context(), src.host.ID(), peerOf(seedKey(77)), "/none"); how == "closes the connection" {
					if err == nil || err.Error() != hungUp {
						t.Errorf("after it %s: %v", how, err)
					}
				} else if err == nil || err.Error() != "it is connected, and does not speak the protocol /none" {
					t.Errorf("a protocol that it does not serve: %v", err)
				}
			}
		})
	}
}

// Errors that a test cannot provoke, those of other systems among them.
func TestWhyAnErrorOfTheSystemIsSaidInWords(t *testing.T) {
	system := func(no syscall.Errno) error { return &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", no)} }
	for _, c := range []struct {
		err        error
		dial, lost string
	}{
		{system(wsaConnRefused), refused, "the connection broke: " + oneLine(system(wsaConnRefused).Error())},
		{system(wsaNetUnreach), noRoute, "the connection broke: " + noRoute},
		{system(wsaHostUnreach), noRoute, "the connection broke: " + noRoute},
		{system(wsaAddrNotAvail), noRoute, "the connection broke: " + noRoute},
		{system(syscall.EHOSTUNREACH), noRoute, "the connection broke: " + noRoute},
		{system(wsaConnReset), foreign, hungUp},
		{system(wsaConnAborted), foreign, hungUp},
		{system(syscall.EPIPE), foreign, hungUp},
		{io.ErrUnexpectedEOF, "unexpected EOF", hungUp},
		{&quic.TransportError{ErrorCode: quic.InternalError, ErrorMessage: "a bug"}, "INTERNAL_ERROR (local): a bug", "the connection broke: INTERNAL_ERROR (local): a bug"},
		{&quic.IdleTimeoutError{}, noAnswer, "it no longer answers: the machine is off, or the network is cut"},
	} {
		if got := whyDial(c.err); got != c.dial {
			t.Errorf("dial: %v is said to be %q, want %q", c.err, got, c.dial)
		}
		if got := lost(c.err).Error(); got != c.lost {
			t.Errorf("lost: %v is said to be %q, want %q", c.err, got, c.lost)
		}
	}
}

func TestAddressesAreWrittenAsPeopleDo(t *testing.T) {
	for addr, want := range map[string]string{
		"/ip4/192.0.2.1/tcp/4001":                      "TCP 192.0.2.1:4001",
		"/ip6/2001:db8::1/udp/4001/quic-v1":            "QUIC [2001:db8::1]:4001",
		"/dns4/example.org/tcp/4001":                   "/dns4/example.org/tcp/4001",
		"/ip4/192.0.2.1/udp/4001/quic-v1/webtransport": "/ip4/192.0.2.1/udp/4001/quic-v1/webtransport",
	} {
		if got := written(ma.StringCast(addr)); got != want {
			t.Errorf("%s is written %q, want %q", addr, got, want)
		}
	}
	for want, list := range map[string][]string{"a": {"a"}, "a and b": {"a", "b"}, "a, b and c": {"a", "b", "c"}, "a, b and 2 more": {"a", "b", "c", "d"}} {
		if got := some(list); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Addresses come from tickets, which anybody writes: one that nobody can dial is said to be that, whatever it is.
func TestAnAddressThatNobodyCanDialIsSaidToBeOfNoUse(t *testing.T) {
	t.Parallel()
	h, relay := newHost(t, Config{Listen: []string{"none"}, Reach: Reach{Traverse: true}}), "/p2p/"+string(peerOf(seedKey(78)))+"/p2p-circuit"
	for _, addr := range []string{"/tcp/1", "/ws", "/quic-v1", "/quic-v1/quic-v1", "/ip4/192.0.2.1", "/ip6zone/x", "/quic-v1" + relay, "/ip4/192.0.2.1/tcp/1/ws" + relay, "/p2p-circuit"} {
		if _, err := h.connect(t.Context(), peers.Addr{ID: somebody, Addrs: []string{addr}}); !errors.Is(err, peers.ErrUnreachable) || err.Error() != noUse {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

// A dial that failed without trying any address is not made a second time at once.
func TestADialThatTriedNothingIsMadeOnce(t *testing.T) {
	t.Parallel()
	h, dials := newHost(t, Config{}), 0
	_ = afresh(t.Context(), h, peer.ID("x"), func(_ context.Context, id peer.ID) error {
		dials++
		return &swarm.DialError{Peer: id, Cause: swarm.ErrNoAddresses}
	})
	if dials != 1 {
		t.Errorf("dialled %d times", dials)
	}
}
