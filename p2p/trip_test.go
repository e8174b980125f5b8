package p2p

import (
	"testing"

	ma "github.com/multiformats/go-multiaddr"
)

type addrEnds [2]string

func (e addrEnds) LocalMultiaddr() ma.Multiaddr  { return ma.StringCast(e[0]) }
func (e addrEnds) RemoteMultiaddr() ma.Multiaddr { return ma.StringCast(e[1]) }

func TestBothEndsAreOnThisMachine(t *testing.T) {
	const relay = "/p2p/12D3KooWRwndPxtPjv2DTriWRkm9soA9jkexRuFpxSvk9bDeqfjg/p2p-circuit"
	for e, want := range map[addrEnds]bool{
		{"/ip4/127.0.0.1/tcp/4001", "/ip4/127.0.0.1/tcp/5001"}:         true,
		{"/ip4/192.0.2.2/udp/4001/quic-v1", "/ip4/192.0.2.2/tcp/5001"}: true,
		{"/ip6/fd00::2/tcp/4001", "/ip6/fd00::2/tcp/5001"}:             true,
		{"/ip4/192.0.2.2/tcp/4001", "/ip4/192.0.2.3/tcp/4001"}:         false,
		{"/ip4/192.0.2.2/tcp/4001", "/ip4/192.0.2.2/tcp/5001" + relay}: false,
		{"/ip4/192.0.2.2/tcp/4001", "/dns4/example.org/tcp/5001"}:      false,
	} {
		if got := onThisMachine(e); got != want {
			t.Errorf("%v: %v", e, got)
		}
	}
}
