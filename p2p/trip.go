package p2p

import (
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	goyamux "github.com/libp2p/go-yamux/v5"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
	quicgo "github.com/quic-go/quic-go"

	"github.com/piecelease/fetcher/peers"
)

// RoundTrip is the round trip of an open connection with a peer, as last measured; 0: not known.
func (h *Host) RoundTrip(id peers.ID) time.Duration {
	to, err := decode(id)
	if err != nil {
		return 0
	}
	for _, c := range h.swarm.ConnsToPeer(to) {
		if rtt := lastRoundTrip(c); rtt > 0 {
			return rtt
		}
	}
	return 0
}

// roundTrip is what the transport has measured on a connection, asking it to
// measure if it has not. 0: unknown.
func roundTrip(c network.Conn) time.Duration {
	if onThisMachine(c) {
		return peers.SameMachine
	}
	rtt := lastRoundTrip(c)
	var y *goyamux.Session
	if rtt == 0 && c.As(&y) {
		rtt, _ = y.Ping()
	}
	return rtt
}

// onThisMachine reports whether both ends of a connection are; through a relay that cannot be told.
func onThisMachine(c network.ConnMultiaddrs) bool {
	near, err1 := manet.ToIP(c.LocalMultiaddr())
	far, err2 := manet.ToIP(c.RemoteMultiaddr())
	return err1 == nil && err2 == nil && near.Equal(far) && !has(c.RemoteMultiaddr(), ma.P_CIRCUIT)
}

// lastRoundTrip is roundTrip without asking.
func lastRoundTrip(c network.Conn) time.Duration {
	var y *goyamux.Session
	if c.As(&y) {
		return y.RTT()
	}
	var q *quicgo.Conn
	if c.As(&q) {
		return q.ConnectionStats().SmoothedRTT
	}
	return 0
}
