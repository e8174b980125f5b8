package p2p

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/network"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

func TestMaxPeersBoundsConnections(t *testing.T) {
	rig.Slow(t)
	const most = 2
	lim := newLimits(most, 2)
	src := newHost(t, Config{MaxPeers: most, Listen: []string{"/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/udp/0/quic-v1"}})
	src.Serve(toAll(newMemory(t, 1)), everybody{})
	in := 0
	for _, x := range []struct{ transport, places int }{{ma.P_TCP, lim.tcp}, {ma.P_QUIC_V1, lim.inbound}} { // some of them are QUIC's alone
		to := peers.Addr{ID: src.ID()}
		for _, a := range src.swarm.ListenAddresses() {
			if has(a, x.transport) {
				to.Addrs = append(to.Addrs, a.String())
			}
		}
		for ; in <= x.places; in++ {
			_, err := newHost(t, Config{Listen: []string{"none"}}).connect(t.Context(), to)
			if ok := in < x.places; ok != (err == nil) {
				t.Fatalf("connection %d of %d over %v: %v", in+1, x.places, to.Addrs, err)
			}
		}
		in = x.places
	}
}

// Connections that are not secured yet leave room for others, whoever opened them.
func TestUnsecuredConnectionsAreBounded(t *testing.T) {
	lim := newLimits(256, 2)
	for name, x := range map[string]struct {
		most int
		from func(i int) string
	}{
		"one address":    {lim.perSubnet, func(int) string { return "/ip4/8.8.8.8" }},
		"one /24":        {lim.perNet, func(i int) string { return fmt.Sprintf("/ip4/8.8.8.%d", i%200) }},
		"one IPv6 /56":   {lim.perSubnet, func(i int) string { return fmt.Sprintf("/ip6/2606:4700:1:100::%x", i) }},
		"one IPv6 /48":   {lim.perNet, func(i int) string { return fmt.Sprintf("/ip6/2606:4700:1:%x::1", i%200<<8) }},
		"many addresses": {lim.unsecured, func(i int) string { return fmt.Sprintf("/ip4/8.%d.%d.8", i/200, i%200) }},
	} {
		m, err := lim.resourceManager()
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		n := 0
		for i := range 2 * lim.conns {
			if _, err := m.OpenConnection(network.DirInbound, false, ma.StringCast(x.from(i)+"/udp/4001/quic-v1")); err == nil {
				n++
			}
		}
		if n != x.most || n >= lim.conns {
			t.Errorf("%s: %d connections, want %d", name, n, x.most)
		}
	}
}

func TestOnePeerMayOpenOnlySoManyStreams(t *testing.T) {
	lim := newLimits(256, 2)
	src := newHost(t, Config{})
	x := newMemory(t, 1)
	src.Serve(toAll(x), everybody{})
	h := newHost(t, Config{Libp2p: []libp2p.Option{func(c *libp2p.Config) error {
		c.ResourceManager.Close()
		c.ResourceManager = &network.NullResourceManager{} // this peer knows no limits
		return nil
	}}})
	if _, err := h.connect(t.Context(), addr(src)); err != nil {
		t.Fatal(err)
	}
	opened := 0
	for range lim.perPeer + 20 {
		s, err := h.host.NewStream(t.Context(), src.host.ID(), wire.PieceProtocol)
		if err != nil {
			break
		}
		s.SetDeadline(time.Now().Add(patience))
		askFor(s, x, 1, 0)
		if _, err := s.Read(make([]byte, 1)); timedOut(err) {
			t.Fatal("a stream was neither opened nor refused")
		} else if err != nil {
			break
		}
		opened++
	}
	if opened > lim.fromPeer || opened < lim.fromPeer-4 { // identify has some
		t.Error(opened, "streams, want at most", lim.fromPeer)
	}
}

// slowLink is a TCP proxy on loopback that delays everything by d, each way.
func slowLink(t testing.TB, to string, d time.Duration) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	pipe := func(to, from net.Conn) {
		type chunk struct {
			at time.Time
			b  []byte
		}
		line := make(chan chunk, 1024)
		work.Go(func() {
			defer close(line)
			for {
				b := make([]byte, 64<<10)
				n, err := from.Read(b)
				if err != nil {
					return
				}
				line <- chunk{time.Now().Add(d), b[:n]}
			}
		})
		work.Go(func() {
			defer to.Close()
			for c := range line {
				time.Sleep(time.Until(c.at))
				to.Write(c.b)
			}
		})
	}
	work.Go(func() {
		for {
			a, err := ln.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", to)
			if err != nil {
				a.Close()
				continue
			}
			mu.Lock()
			open = append(open, a, b)
			mu.Unlock()
			pipe(a, b)
			pipe(b, a)
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		work.Wait()
	})
	return ln.Addr().String()
}

func TestReceiveWindowsGrowToTheirLimit(t *testing.T) {
	rig.Slow(t)
	x := newMemory(t, 64<<20)
	src := newHost(t, Config{})
	src.Serve(toAll(x), everybody{})
	h := newHost(t, Config{Listen: []string{"none"}, Streams: 1})
	host, port, _ := net.SplitHostPort(slowLink(t, fmt.Sprint("127.0.0.1:", portOf(t, src, ma.P_TCP)), 20*time.Millisecond))
	to := peers.Addr{ID: src.ID(), Addrs: []string{"/ip4/" + host + "/tcp/" + port}}
	d := driveTo(t, h, to, x, 48<<20)
	var most int64
	window := func() int64 { // what the resource manager has granted for windows of this peer
		var n int64
		h.host.Network().ResourceManager().ViewPeer(src.host.ID(), func(s network.PeerScope) error { n = s.Stat().Memory; return nil })
		return n + firstWindow - 256<<10 // yamux asks for its default, whatever the first window is
	}
	for range 12 { // each takes a few round trips, in which the window doubles
		d.fetch(t, 64<<20)
		if most = max(most, window()); most >= maxWindow {
			return
		}
	}
	t.Errorf("the window grew to %d bytes, want %d", most, maxWindow)
}

func TestWindowsOfManySourcesMayGrowAtOnce(t *testing.T) {
	// What the muxer asks of the resource manager, for 20 sources with every
	// stream at its largest, and with the lower priority of growth.
	lim := newLimits(256, 2)
	m, err := lim.resourceManager()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for i := range 20 {
		c, err := m.OpenConnection(network.DirOutbound, true, ma.StringCast("/ip4/192.0.2.1/tcp/1"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Done()
		if err := c.SetPeer(hostID(seedKey(byte(i)))); err != nil {
			t.Fatal(err)
		}
		for range 4 {
			span, err := c.PeerScope().BeginSpan()
			if err != nil {
				t.Fatal(err)
			}
			defer span.Done()
			if err := span.ReserveMemory(maxWindow, 128); err != nil {
				t.Fatalf("source %d: %v", i, err)
			}
		}
	}
}

// unhurried are timeouts for fifty nodes that compute at once, on any machine.
var unhurried = Timeouts{Dial: patience, Accept: patience, Handshake: patience, Manifest: patience, Reply: patience, Request: patience, Stall: patience}

// fifty makes fifty children from one address each fetch all of x.
func fifty(t testing.TB, src *Host, x *memory, ip string) {
	to := peers.Addr{ID: src.ID(), Addrs: []string{fmt.Sprintf("/ip4/%s/tcp/%d", ip, portOf(t, src, ma.P_TCP))}}
	var hosts []*Host
	for range 50 {
		hosts = append(hosts, newHost(t, Config{Listen: []string{"none"}, Timeouts: unhurried}))
	}
	var work sync.WaitGroup
	errs := make(chan error, len(hosts))
	for _, h := range hosts {
		work.Go(func() {
			c := newCatcher()
			l := h.Open(to, x.m.ID(), x.m.Layout(), c)
			for p := range x.m.Layout().Pieces() {
				l.Request(whole(x, uint64(p), share.Piece(p), true))
			}
			for range x.m.Layout().Pieces() {
				select {
				case <-c.finished:
				case err := <-c.down:
					errs <- err
					return
				case <-time.After(patience):
					errs <- errors.New("a piece did not come")
					return
				}
			}
			errs <- nil // and the link stays open
		})
	}
	work.Wait()
	for range hosts {
		if err := <-errs; err != nil {
			t.Error("a child was not served:", err)
		}
	}
	if n := len(src.swarm.Peers()); n != len(hosts) {
		t.Error(n, "peers are connected, want", len(hosts))
	}
	for _, c := range src.swarm.Conns() {
		if !strings.Contains(c.RemoteMultiaddr().String(), "/"+ip+"/") {
			t.Error("a child came from", c.RemoteMultiaddr(), "and not from", ip)
		}
	}
}

func TestFiftyChildrenOfOneAddressAreAllServed(t *testing.T) {
	rig.Slow(t)
	ip := ownAddress()
	if ip == "" {
		inNamespace(t, errand{Role: "fifty"})
		return
	}
	x := newMemory(t, 1<<20, 10)
	src := newHost(t, Config{Listen: []string{"/ip4/0.0.0.0/tcp/0"}, Timeouts: unhurried})
	src.Serve(toAll(x), everybody{})
	fifty(t, src, x, ip)
}

// ownAddress returns an address of this machine other than loopback's; "" if it has none.
func ownAddress() string {
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			return n.IP.String()
		}
	}
	return ""
}
