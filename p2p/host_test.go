package p2p

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/p2p/protocol/ping"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/piecelease/fetcher/internal/few"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// portOf returns the port in the first address that has this protocol.
func portOf(t testing.TB, h *Host, code int) int {
	t.Helper()
	for _, a := range h.swarm.ListenAddresses() {
		if s, err := a.ValueForProtocol(code); err == nil {
			n, _ := strconv.Atoi(s)
			return n
		}
	}
	t.Fatal("no such address among", h.swarm.ListenAddresses())
	return 0
}

func TestDefaultListensEverywhereOnOnePort(t *testing.T) {
	h := newHost(t, Config{Listen: []string{}})
	port := portOf(t, h, ma.P_TCP)
	want := map[string]bool{
		fmt.Sprintf("/ip4/0.0.0.0/tcp/%d", port):         true,
		fmt.Sprintf("/ip4/0.0.0.0/udp/%d/quic-v1", port): true,
		fmt.Sprintf("/ip6/::/tcp/%d", port):              hasIPv6(),
		fmt.Sprintf("/ip6/::/udp/%d/quic-v1", port):      hasIPv6(),
	}
	got := fmt.Sprint(h.swarm.ListenAddresses())
	for a, yes := range want {
		if strings.Contains(got, a) != yes {
			t.Errorf("%s among %s: %v, want %v", a, got, !yes, yes)
		}
	}
	for _, a := range h.Addrs() {
		if !strings.HasSuffix(a, "/p2p/"+string(h.ID())) || strings.Contains(a, "/0.0.0.0/") || strings.Contains(a, "/ip6/::/") {
			t.Error("not an address to give to others:", a)
		}
	}
}

func hasIPv6() bool {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err == nil {
		l.Close()
	}
	return err == nil
}

func TestPreferredPortIsTakenIfFreeElseAnother(t *testing.T) {
	port := rig.FreePort(t)
	a := newHost(t, Config{Listen: []string{}, Port: port})
	b := newHost(t, Config{Listen: []string{}, Port: port})
	if got := portOf(t, b, ma.P_TCP); got == port || got != portOf(t, b, ma.P_UDP) {
		t.Errorf("beside a host on port %d the second is on %d, %d", port, got, portOf(t, b, ma.P_UDP))
	}
	a.Close()
	c := newHost(t, Config{Listen: []string{}, Port: port})
	if got := portOf(t, c, ma.P_TCP); got != port {
		t.Errorf("on port %d, want the free one %d", got, port)
	}
}

func TestEveryListenAddressBindsOrIsNamed(t *testing.T) {
	taken := newHost(t, Config{Listen: []string{"/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/udp/0/quic-v1"}})
	tcp, udp := portOf(t, taken, ma.P_TCP), portOf(t, taken, ma.P_UDP)
	for _, bad := range []string{
		fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", tcp),
		fmt.Sprintf("/ip4/0.0.0.0/tcp/%d", tcp),
		fmt.Sprintf("/ip4/127.0.0.1/udp/%d/quic-v1", udp),
		"/ip4/192.0.2.1/tcp/0", // not an address of this machine
		fmt.Sprintf("127.0.0.1:%d", tcp),
		fmt.Sprint(tcp), // on all interfaces
	} {
		_, err := New(Config{Listen: []string{"/ip4/127.0.0.1/tcp/0", bad}})
		if port := fmt.Sprint(tcp); bad == port || strings.HasSuffix(bad, ":"+port) {
			bad = "/tcp/" + port
		}
		if !errors.Is(err, share.ErrNetwork) || !strings.Contains(fmt.Sprint(err), bad) {
			t.Errorf("listening on %s: %v; want an error that names it and wraps ErrNetwork", bad, err)
		}
	}
	for _, bad := range []string{"/ip4/127.0.0.1/tcp/0/tcp/1/tcp", "here", "65536", "-1", ":", "", "localhost:4001", "[fe80::1%lo]:4001", "none",
		"/ip4/127.0.0.1/tcp/0/ws", "/ip4/127.0.0.1/udp/0", "/ip4/127.0.0.1/udp/0/quic", "/ip4/127.0.0.1", "/unix/x", "/tcp/0", "/ip4/127.0.0.1/tcp/0/p2p/" + somebody} {
		if _, err := New(Config{Listen: []string{"/ip4/127.0.0.1/tcp/0", bad}}); !errors.Is(err, ErrAddress) || !strings.Contains(fmt.Sprint(err), strconv.Quote(bad)) {
			t.Errorf("listening on %s: %v; want an error that names it and wraps ErrAddress", bad, err)
		}
	}
}

func TestAPortOrAnIPAndAPortIsTCPAndQUIC(t *testing.T) {
	port := rig.FreePort(t)
	for _, c := range []struct{ listen, on string }{
		{fmt.Sprint(port), "/ip4/0.0.0.0"}, {fmt.Sprintf(":%d", port), "/ip4/0.0.0.0"}, {fmt.Sprintf("127.0.0.1:%d", port), "/ip4/127.0.0.1"},
	} {
		h := newHost(t, Config{Listen: []string{c.listen}})
		got := fmt.Sprint(h.swarm.ListenAddresses())
		for _, want := range []string{fmt.Sprintf("%s/tcp/%d", c.on, port), fmt.Sprintf("%s/udp/%d/quic-v1", c.on, port)} {
			if !strings.Contains(got, want) {
				t.Errorf("--listen %s listens on %s, not on %s", c.listen, got, want)
			}
		}
		h.Close()
	}
}

func TestListenNoneListensNowhere(t *testing.T) {
	h := newHost(t, Config{Listen: []string{"none"}})
	if got := h.Addrs(); len(got) != 0 {
		t.Error("listening on", got)
	}
}

func TestAnnouncedAddressesComeFirst(t *testing.T) {
	h := newHost(t, Config{Announce: []string{"/dns4/example.org/tcp/4001"}})
	if got, want := h.Addrs()[0], "/dns4/example.org/tcp/4001/p2p/"+string(h.ID()); got != want {
		t.Errorf("first address %s, want %s", got, want)
	}
	if len(h.Addrs()) < 2 {
		t.Error("the address listened on is missing")
	}
	if _, err := New(Config{Announce: []string{"nowhere"}}); err == nil {
		t.Error("an announced address that is none was accepted")
	}
}

func TestKeyIsTheIdentity(t *testing.T) {
	if got, want := newHost(t, Config{Key: seedKey(7)}).ID(), peerOf(seedKey(7)); got != want {
		t.Errorf("ID %s, want %s", got, want)
	}
	if a, b := newHost(t, Config{}), newHost(t, Config{}); a.ID() == b.ID() {
		t.Error("two hosts without a key are one peer")
	}
	if _, err := New(Config{Key: make([]byte, ed25519.PrivateKeySize)}); err == nil || !strings.Contains(err.Error(), "Key: ") {
		t.Error("a key whose halves do not belong together:", err)
	}
	if _, err := New(Config{Key: []byte("short")}); err == nil {
		t.Error("a short key was accepted")
	}
}

func TestBadConfigsAreRefused(t *testing.T) {
	for _, c := range []Config{
		{Port: -1}, {Port: 65536}, {MaxPeers: -1}, {Streams: -1}, {Streams: 17}, {ServeBytes: 1000}, {FetchBytes: 1000},
		{MessageRate: 1000}, {Timeouts: Timeouts{Dial: -1}}, {Timeouts: Timeouts{ManifestRate: -1}},
	} {
		if h, err := New(c); err == nil {
			h.Close()
			t.Errorf("accepted: %+v", c)
		}
	}
}

func TestLibp2pStaysOutOfTheGlobalRegistry(t *testing.T) {
	h := newHost(t, Config{})
	h.Close()
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if strings.Contains(f.GetName(), "libp2p") || strings.Contains(f.GetName(), "rcmgr") {
			t.Error("registered:", f.GetName())
		}
	}
}

// connected opens a link and returns the connection under it.
func connected(t *testing.T, h, src *Host) network.Conn {
	t.Helper()
	x := newMemory(t, 1)
	src.Serve(toAll(x), everybody{})
	c := newCatcher()
	l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
	t.Cleanup(l.Close)
	recv(t, "the link", c.up)
	conns := h.swarm.ConnsToPeer(src.host.ID())
	if len(conns) == 0 {
		t.Fatal("no connection")
	}
	return conns[0] // on a busy machine a second address may have been dialled too
}

func TestTCPAndTLSAndYamuxArePreferred(t *testing.T) {
	src := newHost(t, Config{Listen: []string{"/ip4/127.0.0.1/udp/0/quic-v1", "/ip4/127.0.0.1/tcp/0"}})
	var got network.ConnectionState
	for tries := 0; tries < 5 && got.Transport != "tcp"; tries++ { // QUIC is tried too where TCP takes a second, as on a busy machine
		got = connected(t, newHost(t, Config{}), src).ConnState()
	}
	if got.Transport != "tcp" || got.Security != "/tls/1.0.0" || got.StreamMultiplexer != "/yamux/1.0.0" {
		t.Errorf("connected over %+v", got)
	}
}

func TestNoiseIsSpokenWithPeersThatHaveNothingElse(t *testing.T) {
	src := newHost(t, Config{Libp2p: []libp2p.Option{func(c *libp2p.Config) error {
		c.SecurityTransports = c.SecurityTransports[1:]
		return nil
	}}})
	if got := connected(t, newHost(t, Config{}), src).ConnState(); got.Security != "/noise" {
		t.Errorf("connected over %+v", got)
	}
}

func TestIdentifySaysWhatThisIs(t *testing.T) {
	src, h := newHost(t, Config{Version: "v1.2.3"}), newHost(t, Config{})
	connected(t, h, src)
	for what, want := range map[string]string{"AgentVersion": "fetcher/v1.2.3", "ProtocolVersion": "fetcher/1"} {
		if got, err := h.host.Peerstore().Get(src.host.ID(), what); err != nil || got != want {
			t.Errorf("%s is %v, %v; want %q", what, got, err, want)
		}
	}
	eventually(t, "identify the other way", func() bool {
		got, err := src.host.Peerstore().Get(h.host.ID(), "AgentVersion")
		return err == nil && got == "fetcher/(devel)"
	})
}

func TestPingIsAnswered(t *testing.T) {
	src, h := newHost(t, Config{}), newHost(t, Config{})
	connected(t, h, src)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if r := <-ping.Ping(ctx, h.host, src.host.ID()); r.Error != nil || r.RTT <= 0 {
		t.Errorf("ping: %+v", r)
	}
}

func TestQUICOnlyLeavesTCPOut(t *testing.T) {
	h := newHost(t, Config{Listen: []string{}, QUICOnly: true})
	for _, a := range h.swarm.ListenAddresses() {
		if has(a, ma.P_TCP) {
			t.Error("listens on", a)
		}
	}
	if got := connected(t, newHost(t, Config{}), h).ConnState(); got.Transport != "quic-v1" {
		t.Errorf("connected over %+v", got)
	}
}

func TestDialsAreRankedTCPFirst(t *testing.T) {
	var addrs []ma.Multiaddr
	for _, s := range []string{
		"/ip4/10.0.0.1/udp/1/quic-v1", "/ip4/10.0.0.1/tcp/1", "/ip4/10.0.0.2/tcp/1", "/ip6/fd00::1/tcp/1",
		"/ip4/1.2.3.4/udp/1/quic-v1", "/ip4/1.2.3.4/tcp/1",
		"/dns4/example.org/tcp/1",
	} {
		addrs = append(addrs, ma.StringCast(s))
	}
	want := map[string]time.Duration{
		"/ip6/fd00::1/tcp/1":          0,
		"/ip4/10.0.0.1/tcp/1":         nextLocal,
		"/ip4/10.0.0.2/tcp/1":         2 * nextLocal,
		"/ip4/10.0.0.1/udp/1/quic-v1": quicAfter,
		"/ip4/1.2.3.4/tcp/1":          0,
		"/ip4/1.2.3.4/udp/1/quic-v1":  quicAfter,
	}
	got := rankDials(addrs)
	if len(got) != len(addrs) {
		t.Fatalf("%d of %d addresses ranked", len(got), len(addrs))
	}
	for _, g := range got {
		if w, ok := want[g.Addr.String()]; ok && g.Delay != w {
			t.Errorf("%s after %v, want %v", g.Addr, g.Delay, w)
		}
	}
	if only := rankDials(addrs[:1]); only[0].Delay != 0 {
		t.Error("QUIC waits for TCP where there is none:", only[0].Delay)
	}
}

func TestDialingOneselfIsRefused(t *testing.T) {
	h := newHost(t, Config{})
	x := newMemory(t, 1)
	for name, to := range map[string]peers.Addr{
		"oneself":         addr(h),
		"no peer ID":      {ID: "nobody", Addrs: h.Addrs()},
		"no address":      {ID: peerOf(seedKey(9))},
		"no good address": {ID: peerOf(seedKey(9)), Addrs: []string{"rubbish", "/unix/tmp"}},
	} {
		c := newCatcher()
		h.Open(to, x.m.ID(), x.m.Layout(), c)
		if err := recv(t, "the end of "+name, c.down); !errors.Is(err, peers.ErrUnreachable) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEveryOpenDialsAtOnce(t *testing.T) {
	x := newMemory(t, 1)
	key := seedKey(3)
	listen := fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", rig.FreePort(t))
	at := peers.Addr{ID: peerOf(key), Addrs: []string{listen}}
	h := newHost(t, Config{})
	for range 3 {
		c := newCatcher()
		h.Open(at, x.m.ID(), x.m.Layout(), c)
		if err := recv(t, "the failure", c.down); !errors.Is(err, peers.ErrUnreachable) || !strings.Contains(err.Error(), "refused") {
			t.Fatal("down:", err)
		}
	}
	src := newHost(t, Config{Key: key, Listen: []string{listen}})
	src.Serve(toAll(x), everybody{})
	c := newCatcher()
	l := h.Open(at, x.m.ID(), x.m.Layout(), c)
	defer l.Close()
	select {
	case <-c.up:
	case err := <-c.down:
		t.Fatal("libp2p's back-off was in the way:", err)
	}
}

func TestAPeerThatIsNoFetcherIsUnreachable(t *testing.T) {
	src, h := newHost(t, Config{}), newHost(t, Config{}) // src serves nothing
	x := newMemory(t, 1)
	c := newCatcher()
	h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
	if err := recv(t, "the end", c.down); !errors.Is(err, peers.ErrUnreachable) || !strings.Contains(err.Error(), "/fetcher/piece/1") {
		t.Error("down:", err)
	}
}

func TestLoggerHearsOfViolations(t *testing.T) {
	var buf rig.Buffer
	src := newHost(t, Config{Logger: slog.New(slog.NewTextHandler(&buf, nil))})
	src.Serve(toAll(newMemory(t, 1)), everybody{})
	raw := rawStream(t, newHost(t, Config{}), src, "/fetcher/piece/1")
	raw.Write(bytes.Repeat([]byte{0xff}, 20))
	readEnd(t, raw)
	eventually(t, "a line in the log", func() bool { return strings.Contains(buf.String(), "peer broke the protocol") })
	if src.Dropped() != 1 {
		t.Error(src.Dropped(), "streams counted as dropped")
	}
	peer := newHost(t, Config{}) // one that goes on, and is logged now and then
	for sent := 0; sent < 10*faultsSaid; {
		raw := rawStream(t, peer, src, "/fetcher/piece/1")
		raw.Write(bytes.Repeat([]byte{0xff}, 20))
		_, err := readEnd(t, raw)
		if end, ok := errors.AsType[*network.StreamError](err); ok && end.ErrorCode == network.StreamResourceLimitExceeded {
			continue // those before are not gone yet
		}
		sent++
	}
	eventually(t, "all are counted", func() bool { return src.Dropped() == 1+10*faultsSaid })
	src.Close() // has waited for whoever still logs
	if n := strings.Count(buf.String(), `msg="peer broke the protocol"`); n != 1+faultsSaid {
		t.Errorf("%d lines in the log, want %d", n, 1+faultsSaid)
	}
}

func TestFaultsThatWereNotLoggedAreCounted(t *testing.T) {
	f := faults{few: few.Limiter[fault]{Most: faultsSaid, Per: time.Minute}}
	now := time.Unix(1e9, 0)
	for range 10 {
		f.take("a", "x", now)
	}
	if say, more := f.take("a", "y", now); !say || more != nil {
		t.Error("another protocol:", say, more)
	}
	if say, more := f.take("a", "x", now.Add(time.Minute)); !say || len(more) != 2 || more[1] != 10-faultsSaid {
		t.Error("a minute later:", say, more)
	}
}

func TestLibrariesLogOneLevelLower(t *testing.T) {
	var buf rig.Buffer
	h := lower{slog.NewTextHandler(&buf, &slog.HandlerOptions{Level: slog.LevelInfo})}
	log := slog.New(h).With("logger", "swarm").WithGroup("g")
	log.Error("broken")
	log.Warn("odd")
	log.Info("usual")
	log.Error("swarm listener accept error")
	log.Error("can't set TCP keepalives. net.Conn doesn't support SetKeepAlive")
	got := buf.String()
	for line, want := range map[string]bool{
		"level=WARN msg=broken logger=swarm": true, "level=INFO msg=odd": true, "usual": false, "accept": false, "keepalive": false,
	} {
		if strings.Contains(got, line) != want {
			t.Errorf("%q in the log: %v, want %v:\n%s", line, !want, want, got)
		}
	}
}
