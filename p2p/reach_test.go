package p2p

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/pb"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/proto"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/relay"
	"github.com/libp2p/go-libp2p/p2p/protocol/circuitv2/util"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// A host that does not ask for it has no part of it: no listener, no protocol that others could
// use, and no dial through a relay.
func TestReachCostsNothingUnlessAskedFor(t *testing.T) {
	h := newHost(t, Config{})
	if h.reach.punch != nil || h.reach.observed != nil || h.reach.relay != nil {
		t.Error("something of it runs")
	}
	of := func(h *Host) (out []string) {
		for _, p := range h.host.Mux().Protocols() {
			if s := string(p); strings.Contains(s, "circuit") || strings.Contains(s, "dcutr") {
				out = append(out, s)
			}
		}
		return out
	}
	if got := of(h); len(got) > 0 {
		t.Error("it answers", got)
	}
	for _, a := range h.swarm.ListenAddresses() {
		if has(a, ma.P_CIRCUIT) {
			t.Error("it listens at", a)
		}
	}
	other := newHost(t, Config{})
	to := peers.Addr{ID: peerOf(seedKey(9)), Addrs: []string{other.Addrs()[0] + "/p2p-circuit"}}
	if _, err := h.connect(t.Context(), to); err == nil || err.Error() != noTraversal || len(h.swarm.Conns()) > 0 {
		t.Error(err, len(h.swarm.Conns()), "connections")
	}

	asked := newHost(t, Config{Reach: Reach{Traverse: true, Relay: true}})
	want := []string{"/libp2p/circuit/relay/0.2.0/hop", "/libp2p/circuit/relay/0.2.0/stop", "/libp2p/dcutr"}
	eventually(t, "its protocols", func() bool {
		got := of(asked)
		slices.Sort(got)
		return slices.Equal(got, want)
	})
}

// Whoever names a peer may lead to it through itself: where this host is connected with it, and nowhere else.
func TestOnlyTheNamerLeadsToAPeerThroughItself(t *testing.T) {
	rig.Slow(t)
	relay := newHost(t, Config{Reach: Reach{Traverse: true, Relay: true}})
	placed := newHost(t, Config{Reach: Reach{Traverse: true, Relays: relay.Addrs()[:1]}})
	eventually(t, "it has a place", func() bool { return relay.Placed(placed.ID()) })
	h := newHost(t, Config{Reach: Reach{Traverse: true}})
	if relay.Placed(h.ID()) {
		t.Error("who has no place has one")
	}
	at := peers.Addr{ID: placed.ID(), By: relay.ID(), Addrs: []string{peers.Through(relay.ID())}}
	ways := func(x peers.Addr) int {
		end, err := h.dials.begin(t.Context(), h, &x)
		if err != nil {
			t.Fatal(err)
		}
		end()
		direct, over, _ := h.ways(x)
		return len(direct) + len(over)
	}
	if n := ways(at); n != 0 {
		t.Errorf("%d ways, and it is not connected with the relay", n)
	}
	if _, err := h.connect(t.Context(), peers.Addr{ID: relay.ID(), Addrs: relay.Addrs()}); err != nil {
		t.Fatal(err)
	}
	if n := ways(at); n != 1 {
		t.Errorf("%d ways through the relay that named it", n)
	}
	other := at
	other.By = "somebody else"
	if n := ways(other); n != 0 {
		t.Errorf("%d ways through a relay that somebody else named", n)
	}
	ctx, cancel := context.WithTimeout(network.WithAllowLimitedConn(t.Context(), "it leads there"), 30*time.Second)
	defer cancel()
	defer h.through([]ma.Multiaddr{h.reach.placed(ma.StringCast(at.Addrs[0]))})()
	defer h.book.dial(hostID(placed.cfg.Key), []ma.Multiaddr{h.reach.placed(ma.StringCast(at.Addrs[0]))})()
	if err := h.host.Connect(ctx, peer.AddrInfo{ID: hostID(placed.cfg.Key)}); err != nil {
		t.Error(err)
	}
	if err := placed.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its place is forgotten", func() bool { return !relay.Placed(placed.ID()) })
}

// relaysOf are addresses of n relays.
func relaysOf(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("/ip4/192.0.2.1/tcp/%d/p2p/%s", i+1, peerOf(seedKey(byte(i)))))
	}
	return out
}

func TestReachIsChecked(t *testing.T) {
	for _, c := range []struct {
		reach Reach
		want  string
	}{
		{Reach{Relays: []string{"/ip4/1.2.3.4/tcp/1"}}, "needs Traverse"},
		{Reach{RelayBytes: 1 << 20}, "needs Relay"},
		{Reach{Relay: true, RelayBytes: 1000}, "1048576"},
		{Reach{Traverse: true, Relays: relaysOf(5)}, "5 relays are named, and a node uses at most 4"},
		{Reach{Traverse: true, Relays: []string{"/ip4/1.2.3.4/tcp/1"}}, "it must say where the relay is, and end in /p2p/ID"},
		{Reach{Traverse: true, Relays: []string{"/p2p/" + string(peerOf(seedKey(1)))}}, "it must say where the relay is"},
		{Reach{Traverse: true, Relays: []string{"nowhere"}}, "\"nowhere\" is not an address of a relay"},
	} {
		if h, err := New(Config{Listen: local, Reach: c.reach}); err == nil {
			h.Close()
			t.Errorf("%+v: no error", c.reach)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.reach, err, c.want)
		}
	}
}

func TestRelaysOfOnePeerAreOnePlace(t *testing.T) {
	at := []string{"/ip4/1.2.3.4/tcp/1", "/ip4/1.2.3.4/udp/1/quic-v1", "/ip4/1.2.3.4/tcp/2", "/ip4/1.2.3.4/tcp/3", "/ip4/1.2.3.4/tcp/4"}
	var relays []string
	for _, a := range at {
		relays = append(relays, a+"/p2p/"+string(peerOf(seedKey(1))))
	}
	places, err := newPlaces(relays)
	if err != nil || len(places) != 1 || !slices.Equal(places[0].addrs, at) {
		t.Error(len(places), err)
	}
}

// libp2p would let a second process listen on a TCP port that is dialled from.
func TestAPortIsNotShared(t *testing.T) {
	a := newHost(t, Config{Reach: Reach{Traverse: true}})
	at := bare(ma.StringCast(a.Addrs()[0])).String()
	b, err := New(Config{Listen: []string{at}, Reach: Reach{Traverse: true}})
	if err == nil {
		b.Close()
	}
	if !errors.Is(err, share.ErrNetwork) {
		t.Error("a second host got the port:", err)
	}
}

func TestRelaysAreDialledLast(t *testing.T) {
	over := "/ip4/1.2.3.4/tcp/1/p2p/" + string(peerOf(seedKey(1))) + "/p2p-circuit"
	for _, c := range []struct {
		addrs []string
		want  time.Duration // until the relay is dialled
	}{
		{[]string{over}, 0},
		{[]string{over, "/ip4/10.0.0.1/tcp/1"}, relayAfter},
		{[]string{"/ip4/1.2.3.5/udp/1/quic-v1", over}, relayAfter},
	} {
		var addrs []ma.Multiaddr
		for _, a := range c.addrs {
			addrs = append(addrs, ma.StringCast(a))
		}
		for _, d := range rankDials(addrs) {
			if has(d.Addr, ma.P_CIRCUIT) != (d.Addr.String() == over) || d.Addr.String() == over && d.Delay != c.want {
				t.Error(c.addrs, d.Addr, d.Delay)
			}
		}
	}
}

// Addresses that a peer names for hole punching have the same bounds as those named for dialling.
func TestPunchesAreBounded(t *testing.T) {
	h := newHost(t, Config{Reach: Reach{Traverse: true}})
	victim := hostID(seedKey(7))
	var addrs []ma.Multiaddr
	for _, a := range []string{"/ip4/10.0.0.1/udp/4001/quic-v1", "/ip4/127.0.0.1/tcp/4001", "/ip4/1.2.3.4/tcp/22",
		"/ip4/1.2.3.4/udp/4001/quic-v1", "/ip4/1.2.3.5/tcp/4001", "/ip4/1.2.3.6/tcp/4001", "/ip4/1.2.3.7/udp/4001/quic-v1", "/ip4/1.2.3.8/udp/4001/quic-v1", "/dns/a.example/tcp/4001"} {
		addrs = append(addrs, ma.StringCast(a))
	}
	for i := range punchesAtOnce {
		got := h.reach.FilterRemote(victim, addrs)
		want := "[/ip4/1.2.3.4/udp/4001/quic-v1 /ip4/1.2.3.5/tcp/4001 /ip4/1.2.3.7/udp/4001/quic-v1 /ip4/1.2.3.6/tcp/4001]"
		if fmt.Sprint(got) != want || !ma.Contains(h.book.Addrs(victim), got[0]) || len(h.book.Addrs(victim)) != len(got) {
			t.Fatalf("attempt %d: %v, dialled at %v", i, got, h.book.Addrs(victim))
		}
	}
	if got := h.reach.FilterRemote(victim, addrs); len(got) > 0 {
		t.Error("one attempt more:", got)
	}
}

func TestTheBookForgetsPunches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := newBook()
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		at := []ma.Multiaddr{ma.StringCast("/ip4/1.2.3.4/tcp/1")}
		for i := range maxPunches {
			if !b.punch(hostID(seedKey(byte(i))), at, time.Now().Add(time.Second)) {
				t.Fatal("no room for punch", i)
			}
		}
		if b.punch(hostID(seedKey(200)), at, time.Now().Add(time.Second)) {
			t.Error("no bound")
		}
		if id := hostID(seedKey(1)); !b.punch(id, at, time.Now().Add(time.Second)) || len(b.Addrs(id)) != 1 {
			t.Error("a second attempt takes the place of the first")
		}
		time.Sleep(time.Second)
		if id := hostID(seedKey(1)); len(b.Addrs(id)) > 0 {
			t.Error("still known:", b.Addrs(id))
		}
		time.Sleep(time.Second)
		if !b.punch(hostID(seedKey(200)), at, time.Now().Add(time.Second)) || len(b.at) != 1 {
			t.Error(len(b.at), "are remembered")
		}
	})
}

// A relay that accepts the connection and ends it is asked again after a growing pause, not at once.
func TestARelayThatEndsTheConnectionIsAskedAfterAPause(t *testing.T) {
	relay := newHost(t, Config{})
	var times atomic.Int64
	relay.swarm.Notify(&network.NotifyBundle{ConnectedF: func(_ network.Network, c network.Conn) {
		times.Add(1)
		relay.start(func() { c.Close() })
	}})
	h := newHost(t, Config{Reach: Reach{Traverse: true, Relays: relay.Addrs()[:1]}})
	h.Places(t.Context()) // it was asked once
	until := time.NewTimer(placePause / 2)
	<-until.C
	if n := times.Load(); n > 2 {
		t.Errorf("it was connected with %d times within %v", n, placePause/2)
	}
}

// A relay of another kind puts no bound on what it carries. The place there says that it carries content, as connections
// through it do.
func TestAPlaceAtARelayWithoutABoundCarriesContent(t *testing.T) {
	at := newHost(t, Config{})
	r, err := relay.New(at.host, relay.WithInfiniteLimits())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	h := newHost(t, Config{Reach: Reach{Traverse: true, Relays: at.Addrs()[:1]}})
	if p := h.Places(t.Context())[0]; !p.Held || p.Carries == 0 {
		t.Errorf("%+v", p)
	}
}

// A relay gives a place until a time that has passed by the clock of this machine, which goes an hour fast. That is said,
// and not that it does not answer.
func TestARelayThatAnswersIsNotSilent(t *testing.T) {
	at := newHost(t, Config{})
	at.host.SetStreamHandler(proto.ProtoIDv2Hop, func(s network.Stream) {
		defer s.Close()
		var m pb.HopMessage
		if util.NewDelimitedReader(s, 4096).ReadMsg(&m) != nil {
			return
		}
		status, until := pb.Status_OK, uint64(time.Now().Add(-time.Minute).Unix())
		util.NewDelimitedWriter(s).WriteMsg(&pb.HopMessage{Type: pb.HopMessage_STATUS.Enum(), Status: &status, Reservation: &pb.Reservation{Expire: &until}})
	})
	h := newHost(t, Config{Reach: Reach{Traverse: true, Relays: at.Addrs()[:1]}})
	if p := h.Places(t.Context())[0]; p.Held || !strings.Contains(p.Why, "clock") {
		t.Errorf("%+v", p)
	}
}

// met is a connection, as far as reach looks at it.
type met struct {
	network.Conn
	id      peer.ID
	limited bool
}

func (c met) RemotePeer() peer.ID { return c.id }
func (c met) Stat() network.ConnStats {
	return network.ConnStats{Stats: network.Stats{Limited: c.limited}}
}

// The connection over the relay may have ended before the direct one is seen, and with it
// all that the connection manager knew.
func TestWhoWasIntroducedIsKnownWhenTheRelayHasGone(t *testing.T) {
	h := newHost(t, Config{})
	id := peer.ID("introduced")
	h.direct(nil, met{id: id, limited: true})
	h.host.ConnManager().UntagPeer(id, punchedTag)
	h.direct(nil, met{id: id})
	if tags := h.host.ConnManager().GetTagInfo(id); tags == nil || tags.Tags[punchedTag] == 0 {
		t.Error("it counts as reached directly")
	}
	h.direct(nil, met{id: "stranger"})
	if tags := h.host.ConnManager().GetTagInfo("stranger"); tags != nil && tags.Tags[punchedTag] > 0 {
		t.Error("nobody introduced it")
	}
}
