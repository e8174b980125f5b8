package p2p

import (
	"context"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-multistream"

	"github.com/piecelease/fetcher/peers"
)

// early is a stream whose protocol is named with the first bytes written, while
// libp2p would wait for a round trip until the peer has said what it serves. That it does not
// serve this one is an error of the first read, for which notServed holds.
type early struct {
	network.Stream
	lazy multistream.LazyConn
}

func (s *early) Read(b []byte) (int, error)  { return s.lazy.Read(b) }
func (s *early) Write(b []byte) (int, error) { return s.lazy.Write(b) }
func (s *early) Close() error                { return s.lazy.Close() }

// onOpen is the context of a stream on an open connection of a host with a peer.
func onOpen(ctx context.Context, h *Host, to peer.ID) context.Context {
	ctx = network.WithNoDial(ctx, "connect dials")
	if allowance(h.swarm, to) > 0 {
		ctx = network.WithAllowLimitedConn(ctx, "its relay carries content")
	}
	return ctx
}

// connectEarly is connect that does not wait until the peer has said what it serves.
func connectEarly(ctx context.Context, h *Host, to peers.Addr) (peer.ID, error) {
	return connectBy(ctx, h, to, func(ctx context.Context, id peer.ID) error {
		_, err := h.swarm.DialPeer(ctx, id)
		return err
	})
}

// openEarly is open for a stream on which we write first. Nothing is awaited.
func openEarly(ctx context.Context, h *Host, to peer.ID, id peers.ID, name string) (*counted, error) {
	s, err := h.swarm.NewStream(onOpen(ctx, h, to), to)
	if err != nil {
		return nil, streamFailed(name, err)
	}
	if err := s.SetProtocol(protoID(name)); err != nil {
		s.Reset()
		return nil, streamFailed(name, err)
	}
	return h.count(&early{s, multistream.NewMSSelect(s, protoID(name))}, id), nil
}
