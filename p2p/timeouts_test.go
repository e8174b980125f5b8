package p2p

import (
	"bufio"
	"errors"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// soon is a timeout under test. What it ends must take at least about that
// long, and less than the default.
const soon = 200 * time.Millisecond

// elapsed checks that something took about as long as its timeout.
func elapsed(t testing.TB, since time.Time) {
	t.Helper()
	if d := time.Since(since); d < soon*3/4 || d > 9*time.Second { // the default of most is 10 s
		t.Errorf("ended after %v, with a time-out of %v", d, soon)
	}
}

func TestEveryTimeoutHasADefault(t *testing.T) {
	for _, v := range []reflect.Value{reflect.ValueOf(defaultTimeouts), reflect.ValueOf(Timeouts{}.withDefaults())} {
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				t.Error("no default for", v.Type().Field(i).Name)
			}
		}
	}
	if got := (Timeouts{Reply: soon}).withDefaults(); got.Reply != soon || got.Dial != defaultTimeouts.Dial {
		t.Error("defaults:", got)
	}
}

func TestDialTimeoutEndsADialThatHangs(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never says anything
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	at, _ := manet.FromNetAddr(ln.Addr())
	h := newHost(t, Config{Timeouts: Timeouts{Dial: soon}})
	x, c, start := newMemory(t, 1), newCatcher(), time.Now()
	h.Open(peers.Addr{ID: peerOf(seedKey(1)), Addrs: []string{at.String()}}, x.m.ID(), x.m.Layout(), c)
	if err := recv(t, "the end", c.down); !errors.Is(err, peers.ErrLost) || !strings.HasPrefix(err.Error(), saysNothing) {
		t.Error("down:", err)
	}
	elapsed(t, start)
}

func TestHandshakeTimeoutEndsAPeerThatAgreesToNothing(t *testing.T) {
	t.Parallel()
	for name, mute := range map[string]func(src *Host, release chan struct{}){
		"in all streams": func(src *Host, release chan struct{}) {
			src.swarm.SetStreamHandler(func(s network.Stream) { <-release; s.Reset() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			src := newHost(t, Config{})
			release := make(chan struct{})
			defer close(release)
			mute(src, release)
			h := newHost(t, Config{Timeouts: Timeouts{Dial: 20 * soon, Handshake: soon}})
			x, c, start := newMemory(t, 1), newCatcher(), time.Now()
			h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
			if err := recv(t, "the end", c.down); !errors.Is(err, peers.ErrLost) || err.Error() != noReply {
				t.Error("down:", err)
			}
			elapsed(t, start)
		})
	}
}

func TestManifestTimeoutEndsTheWaitForTheFirstByte(t *testing.T) {
	t.Parallel()
	src, h := newHost(t, Config{}), newHost(t, Config{Timeouts: Timeouts{Manifest: soon}})
	src.host.SetStreamHandler(wire.ManifestProtocol, func(s network.Stream) {})
	got, start := make(chan error, 1), time.Now()
	h.FetchManifest(addr(src), newMemory(t, 1).m.ID(), false, 1<<20, nil, func(_ []byte, _ wire.Reply, err error) { got <- err })
	if err := recv(t, "the answer", got); !errors.Is(err, peers.ErrLost) {
		t.Error(err)
	}
	elapsed(t, start)
}

func TestManifestRateEndsOneThatTrickles(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	src := newHost(t, Config{})
	src.host.SetStreamHandler(wire.ManifestProtocol, func(s network.Stream) {
		wire.ReadFrame(bufio.NewReader(s), wire.MaxRequest, nil)
		s.Write(wire.AppendFrame(nil, wire.AppendManifestHeader(nil, wire.Reply{}, 1<<20)))
		for {
			time.Sleep(5 * time.Millisecond)
			if _, err := s.Write([]byte{0}); err != nil {
				return
			}
		}
	})
	const first = 5 * soon                                                              // for the header, also on a busy machine
	h := newHost(t, Config{Timeouts: Timeouts{Manifest: first, ManifestRate: 2 << 20}}) // 500 ms for 1 MiB
	got, start := make(chan error, 1), time.Now()
	h.FetchManifest(addr(src), newMemory(t, 1).m.ID(), false, 1<<20, nil, func(_ []byte, _ wire.Reply, err error) { got <- err })
	if err := recv(t, "the answer", got); !errors.Is(err, peers.ErrLost) {
		t.Error(err)
	}
	if d := time.Since(start); d < first+soon || d > 9*time.Second {
		t.Errorf("ended after %v, with %v for the first byte and half a second for the rest", d, first)
	}
}

func TestReplyTimeoutEndsASourceThatOwesAndSendsNothing(t *testing.T) {
	t.Parallel()
	x := newMemory(t, 2<<20)
	for name, play := range map[string]func(s network.Stream, f wire.PieceFrame){
		"not a header":  func(network.Stream, wire.PieceFrame) {},
		"half a header": func(s network.Stream, _ wire.PieceFrame) { s.Write([]byte{20, 8}) },
		"half a run": func(s network.Stream, f wire.PieceFrame) {
			header(s, wire.Header{ID: f.ID, Count: 4, Bytes: wire.MaxRun}, wire.MaxRun/2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := actor(t, Config{}, play)
			h := newHost(t, Config{Timeouts: Timeouts{Reply: soon}, Streams: 1})
			c := newCatcher()
			l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
			recv(t, "the link", c.up)
			start := time.Now()
			l.Request(whole(x, 1, 0, false))
			if err := recv(t, "the end", c.down); !errors.Is(err, peers.ErrLost) || !strings.Contains(err.Error(), "no byte") {
				t.Error("down:", err)
			}
			elapsed(t, start)
		})
	}
}

func TestRequestTimeoutEndsAChildThatStopsInAFrame(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	x := newMemory(t, 1)
	for _, protocol := range []string{wire.PieceProtocol, wire.ManifestProtocol, wire.MessageProtocol} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			src := newHost(t, Config{Timeouts: Timeouts{Request: soon}})
			src.Serve(toAll(x), everybody{})
			src.OnMessages(func(peers.ID, []byte) {}, func(peers.ID) {})
			s := rawStream(t, newHost(t, Config{}), src, protocol)
			start := time.Now()
			s.Write([]byte{100, 1, 2, 3})
			if _, err := readEnd(t, s); err == nil {
				t.Error("the stream was closed, not reset")
			}
			elapsed(t, start)
		})
	}
}

func TestIdleTimeoutClosesAStreamWithoutRequests(t *testing.T) {
	t.Parallel()
	src := newHost(t, Config{Timeouts: Timeouts{Idle: soon}})
	src.Serve(toAll(newMemory(t, 1)), everybody{})
	s := rawStream(t, newHost(t, Config{}), src, wire.PieceProtocol)
	start := time.Now()
	s.Write(wire.AppendFrame(nil, wire.AppendCancel(nil, 1))) // opens the stream
	if b, err := readEnd(t, s); err != nil || len(b) > 0 {
		t.Error("ended with", b, err)
	}
	elapsed(t, start)
}

func TestStallTimeoutCutsAChildThatStopsReading(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	x := newMemory(t, 8<<20)
	src := newHost(t, Config{Timeouts: Timeouts{Stall: 5 * soon}}) // others must not stall as well
	ended := make(chan time.Time, 100)
	src.Serve(toAll(x), everybody{})
	h := newHost(t, Config{})
	stalled := rawStream(t, h, src, wire.PieceProtocol)
	start := time.Now()
	for p := range 8 {
		if err := askFor(stalled, x, uint64(p), share.Piece(p)); err != nil {
			t.Fatal(err)
		}
	}
	go func() {
		for { // what is written to a stream that was reset fails
			if _, err := stalled.Write(wire.AppendFrame(nil, wire.AppendCancel(nil, 99))); err != nil {
				ended <- time.Now()
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	// Others are served meanwhile, on the same connection.
	c := newCatcher()
	l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
	defer l.Close()
	fetchAll(t, x, l, c)
	recv(t, "the cut", ended)
	elapsed(t, start)
}

func TestStallTimeoutCutsAPeerThatReadsNoMessages(t *testing.T) {
	t.Parallel()
	a, b := newHost(t, Config{Timeouts: Timeouts{Stall: soon}}), newHost(t, Config{})
	lost := make(chan peers.ID, 1)
	a.OnMessages(func(peers.ID, []byte) {}, func(p peers.ID) { lost <- p })
	b.host.SetStreamHandler(wire.MessageProtocol, func(s network.Stream) {})
	if _, err := a.connect(t.Context(), addr(b)); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	frame := make([]byte, wire.MaxMessage)
	for a.Send(b.ID(), frame) {
	}
	if p := recv(t, "the loss", lost); p != b.ID() {
		t.Error("lost", p)
	}
	elapsed(t, start)
}

func TestTheMuxerIsAsPatientAsTheStallTimeout(t *testing.T) {
	if got := muxer(Timeouts{Stall: soon}).ConnectionWriteTimeout; got != soon {
		t.Error("yamux gives up on a write after", got)
	}
}
