package p2p

import (
	"fmt"
	"math"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	"github.com/libp2p/go-libp2p/p2p/net/connmgr"
	"github.com/libp2p/go-libp2p/x/rate"
)

// limits are the host's limits, all from one knob.
//
// Memory, to libp2p's resource manager, is what windows of streams could come
// to hold, not what they hold. What they hold is bounded elsewhere: a window
// grows only while its reader keeps up, and what we ask for is bounded by the
// requests in flight. So the limits on it are wide enough for every window of
// a few fast sources to reach its full size, and a stranger's share is bounded
// by the number of its streams.
type limits struct {
	peers     int // connected peers the connection manager keeps
	conns     int // connections, either way
	inbound   int // ... of them, incoming: there is always room to dial
	tcp       int // ... of them, over TCP: the others are left to QUIC
	unsecured int // ... of them, not secured yet
	perSubnet int // connections from one address, or one IPv6 /56
	perNet    int // connections from one /24, or one IPv6 /48

	silent      int // incoming connections over TCP that are not secured yet
	silentOfNet int // ... from one /24, or one IPv6 /48
	silentOfOne int // ... from one address, or one IPv6 /56

	perPeer  int // streams with one peer
	fromPeer int // ... of these, opened by the peer: each can make us hold a first window
	streams  int // streams in all
	peerMem  int // bytes of windows of one peer
	mem      int // ... of all
}

// The receive window of a yamux stream, in bytes: at first, and at most.
//
// yamux 5.1 forgets to tell the sender half of each doubling, so after growing
// the sender has used up all of its window when the next part is granted, except
// for half of the first window: with the usual 256 KiB it stops for a round
// trip per window. With 1 MiB, and two streams that do not stop together, the
// line stays full (docs/decisions/0010-streams-windows.md).
const (
	firstWindow = 1 << 20
	maxWindow   = 16 << 20
)

// muxerMessage is the longest message of yamux, in bytes. yamux queues 64 of
// them for each connection, first come, first served: they are what a child
// that reads slowly makes us hold, and what a message of ours waits behind.
// Half of libp2p's 64 KiB costs 2 % of CPU, a quarter 7 %.
const muxerMessage = 32 << 10

func newLimits(maxPeers, streams int) limits {
	perPeer := 16*streams + 32 // for links both ways, messages, manifests, libp2p's own
	conns := 2*maxPeers + 16   // both sides may dial at once, over two transports
	return limits{
		peers:     maxPeers,
		conns:     conns,
		inbound:   conns - conns/8,
		tcp:       conns * 3 / 4,
		unsecured: conns * 3 / 4,
		// One network alone cannot hold all that may be unsecured.
		perNet:      conns * 5 / 8,
		perSubnet:   min(max(16, maxPeers), conns/2),
		silent:      conns / 2,
		silentOfNet: conns / 4,
		silentOfOne: conns / 8,
		perPeer:     perPeer,
		fromPeer:    max(leastFrom, 8*streams+16),
		streams:     perPeer * (maxPeers + 16),
		// The resource manager grants growth only in the lower half of a limit.
		peerMem: 2 * perPeer * maxWindow,
		mem:     math.MaxInt64,
	}
}

// resourceManager enforces l.
func (l limits) resourceManager() (network.ResourceManager, error) {
	n := func(x int) rcmgr.LimitVal { return rcmgr.LimitVal(x) }
	all := rcmgr.ResourceLimits{
		Conns: n(l.conns), ConnsInbound: n(l.inbound), ConnsOutbound: n(l.conns), FD: n(l.tcp),
		Streams: n(l.streams), StreamsInbound: n(l.streams), StreamsOutbound: n(l.streams),
		Memory: rcmgr.LimitVal64(l.mem),
	}
	unsecured := all
	unsecured.Conns, unsecured.ConnsInbound = n(l.unsecured), n(l.unsecured)
	cfg := rcmgr.PartialLimitConfig{
		System:    all,
		Transient: unsecured,
		PeerDefault: rcmgr.ResourceLimits{
			Conns: 8, ConnsInbound: 8, ConnsOutbound: 8, FD: 8,
			Streams: n(l.perPeer), StreamsInbound: n(l.fromPeer), StreamsOutbound: n(l.perPeer),
			Memory: rcmgr.LimitVal64(l.peerMem),
		},
	}.Build(rcmgr.InfiniteLimits)
	loop4, loop6 := netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")
	// New connections per second: the first of everybody behind an address at
	// once, and then each again every half minute.
	often := rate.Limit{RPS: float64(l.perSubnet) / 30, Burst: 2 * l.perSubnet}
	m, err := rcmgr.NewResourceManager(rcmgr.NewFixedLimiter(cfg),
		rcmgr.WithMetricsDisabled(),
		rcmgr.WithLimitPerSubnet(
			[]rcmgr.ConnLimitPerSubnet{{PrefixLength: 32, ConnCount: l.perSubnet}, {PrefixLength: 24, ConnCount: l.perNet}},
			[]rcmgr.ConnLimitPerSubnet{{PrefixLength: 56, ConnCount: l.perSubnet}, {PrefixLength: 48, ConnCount: l.perNet}}),
		rcmgr.WithConnRateLimiters(&rate.Limiter{
			NetworkPrefixLimits: []rate.PrefixLimit{{Prefix: loop4}, {Prefix: loop6}}, // zero: no limit
			SubnetRateLimiter: rate.SubnetLimiter{
				IPv4SubnetLimits: []rate.SubnetLimit{{PrefixLength: 32, Limit: often}},
				IPv6SubnetLimits: []rate.SubnetLimit{{PrefixLength: 56, Limit: often}},
				GracePeriod:      time.Minute,
			},
		}))
	if err != nil {
		return nil, fmt.Errorf("start the network: %w", err)
	}
	return m, nil
}

// connManager trims connections beyond l.peers, those of links and of children
// with open streams last.
func (l limits) connManager() (*connmgr.BasicConnMgr, error) {
	m, err := connmgr.NewConnManager(max(1, l.peers*9/10), l.peers, connmgr.WithGracePeriod(20*time.Second))
	if err != nil {
		return nil, fmt.Errorf("start the network: %w", err)
	}
	return m, nil
}
