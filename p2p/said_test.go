package p2p

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/piecelease/fetcher/peers"
)

// listenRaw is an address at which a program listens that is no fetcher.
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
			t.Cleanup(func() { c.Close() }) // not before: one that nobody refers to is closed when memory is collected
			talk(c)
		}
	}()
	at, err := manet.FromNetAddr(ln.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return at.String()
}

// What people read of a dial that failed, and what the program makes of it.
func TestWhyADialFailedIsSaidInWords(t *testing.T) {
	t.Parallel()
	other := newHost(t, Config{})
	closed := listenRaw(t, nil)
	port := closed[strings.LastIndex(closed, "/")+1:]
	for name, c := range map[string]struct {
		addrs []string
		want  string
		is    error
	}{
		"nobody listens": {[]string{"/ip4/127.0.0.1/tcp/1"}, refused + " (TCP 127.0.0.1:1)", peers.ErrUnreachable},
		"many addresses": {[]string{"/ip4/127.0.0.1/tcp/1", "/ip4/127.0.0.1/tcp/2", "/ip4/127.0.0.1/tcp/3", "/ip4/127.0.0.1/tcp/4"}, refused + " (", peers.ErrUnreachable},
		"nothing said":   {[]string{listenRaw(t, func(net.Conn) {})}, saysNothing + " (TCP 127.0.0.1:", peers.ErrLost},
		"a web server": {[]string{listenRaw(t, func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
			c.Close()
		})}, foreign + " (TCP 127.0.0.1:", peers.ErrUnreachable},
		"another node": {other.Addrs(), another + " (", peers.ErrUnreachable},
		"no address":   {nil, noAddress, peers.ErrUnreachable},
		"no use":       {[]string{"/unix/tmp"}, noUse, peers.ErrUnreachable},
		"no answer":    {[]string{"/ip4/127.0.0.1/udp/" + port + "/quic-v1"}, noAnswer + " (QUIC 127.0.0.1:" + port + ")", peers.ErrUnreachable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dial := soon
			if name == "nothing said" {
				dial = 10 * soon // the connection has to be made first, also on a busy machine
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
			if len(c.addrs) == 4 && !strings.HasSuffix(err.Error(), " and 2 more)") {
				t.Errorf("not in short: %q", err)
			}
		})
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
