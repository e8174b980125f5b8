package p2p

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	libp2ptls "github.com/libp2p/go-libp2p/p2p/security/tls"

	"github.com/piecelease/fetcher/peers"
)

// answering listens on this machine as the peer of seedKey(9), has f answer each connection, and counts them.
func answering(t *testing.T, f func(c net.Conn)) (at peers.Addr, came *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	came = &atomic.Int64{}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			came.Add(1)
			work.Go(func() { defer c.Close(); f(c) })
		}
	})
	t.Cleanup(func() { l.Close(); work.Wait() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return peers.Addr{ID: peerOf(seedKey(9)), Addrs: []string{"/ip4/127.0.0.1/tcp/" + port}}, came
}

// TLS begins before the peer has answered its proposal.
func TestTLSTravelsWithItsProposal(t *testing.T) {
	got := make(chan []byte, 1)
	at, _ := answering(t, func(c net.Conn) {
		b := make([]byte, len(tlsProposal)+3)
		n, _ := io.ReadFull(c, b)
		got <- b[:n]
	})
	h := newHost(t, Config{Listen: []string{"none"}})
	if _, err := h.connect(t.Context(), at); err == nil {
		t.Error("connected")
	}
	const record = "\x16\x03\x01" // of a handshake
	if b := recv(t, "the first bytes", got); string(b) != tlsProposal+record {
		t.Errorf("began with %q", b)
	}
}

// other is a libp2p host that speaks only one security protocol, as the peer of seedKey(9).
func other(t *testing.T, security libp2p.Option) host.Host {
	t.Helper()
	key, err := crypto.UnmarshalEd25519PrivateKey(seedKey(9))
	if err != nil {
		t.Fatal(err)
	}
	b, err := libp2p.New(libp2p.Identity(key), libp2p.ListenAddrStrings(local...), security, libp2p.DisableRelay(), noMetrics)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// A peer that does not accept TLS is asked what it does accept. One that does is dialled once, also if its answer
// comes a byte at a time.
func TestTheOtherSideMayChooseTheProtocol(t *testing.T) {
	for _, c := range []struct {
		security libp2p.Option
		want     string
		dials    int64
	}{
		{libp2p.Security(noise.ID, noise.New), noise.ID, 2},
		{libp2p.Security(libp2ptls.ID, libp2ptls.New), libp2ptls.ID, 1},
	} {
		b := other(t, c.security)
		_, port, _ := strings.Cut(b.Addrs()[0].String(), "/tcp/")
		at, came := answering(t, func(in net.Conn) {
			out, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err != nil {
				t.Error(err)
				return
			}
			go func() { io.Copy(out, in); out.Close() }()
			io.CopyBuffer(in, struct{ io.Reader }{iotest.OneByteReader(out)}, make([]byte, 1))
			out.Close()
		})
		h := newHost(t, Config{Listen: []string{"none"}})
		id, err := h.connect(t.Context(), at)
		if err != nil {
			t.Fatalf("%s: %v", c.want, err)
		}
		if got := h.swarm.ConnsToPeer(id)[0].ConnState().Security; string(got) != c.want || came.Load() != c.dials {
			t.Errorf("speaks %s after %d dials, want %s after %d", got, came.Load(), c.want, c.dials)
		}
	}
}

// Answers that are none end the attempt at once.
func TestNonsenseInPlaceOfAnAnswer(t *testing.T) {
	const header = "\x13/multistream/1.0.0\n"
	for name, c := range map[string]struct {
		answer string
		dials  int64
	}{
		"nothing":        {"", 1},
		"half":           {tlsProposal[:25], 1},
		"no TLS":         {header + "\x03na\n", 2},
		"no multistream": {"\x03na\n", 2},
		"another":        {header + "\x07/noise\n", 1},
		"long":           {strings.Repeat("\xff", 20), 1},
		"HTTP":           {"HTTP/1.1 400 Bad Request\r\n\r\n", 1},
		"TLS and junk":   {tlsProposal + "junk in place of a record", 1},
	} {
		t.Run(name, func(t *testing.T) {
			at, came := answering(t, func(in net.Conn) {
				io.ReadFull(in, make([]byte, len(tlsProposal)))
				io.WriteString(in, c.answer)
				in.(*net.TCPConn).CloseWrite()
				io.Copy(io.Discard, in)
			})
			h := newHost(t, Config{Listen: []string{"none"}})
			if _, err := h.connect(t.Context(), at); !errors.Is(err, peers.ErrUnreachable) || came.Load() != c.dials {
				t.Errorf("%d dials, and then %v", came.Load(), err)
			}
		})
	}
}
