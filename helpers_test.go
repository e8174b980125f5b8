package fetcher

import (
	"net"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/p2p"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// silentPeer is the address of something that accepts connections and never says anything.
func silentPeer(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	port := l.Addr().String()
	return "/ip4/127.0.0.1/tcp/" + port[strings.LastIndex(port, ":")+1:] + "/p2p/12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN"
}

// toAll stands in one way between a node and all its children.
func toAll(between func(p2p.Blocks) p2p.Blocks) func(p2p.Blocks) func(peers.ID) p2p.Blocks {
	return func(b p2p.Blocks) func(peers.ID) p2p.Blocks {
		all := between(b)
		return func(peers.ID) p2p.Blocks { return all }
	}
}

// someID is the ID of a share that nobody has.
func someID(t testing.TB) string {
	m, err := share.NewManifest("nothing", []share.Entry{{Path: "nothing", Root: share.EmptyRoot, PieceExp: share.PieceExp(0)}})
	must(t, err)
	return m.ID().String()
}
