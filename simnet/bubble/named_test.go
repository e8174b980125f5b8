package bubble

import (
	"bytes"
	"crypto/ed25519"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/simnet"
	"github.com/piecelease/fetcher/wire"
)

// A source with a public address names peers inside the fetcher's own network
// and at ports of other services: none of them becomes a source.
func TestASourceCannotHaveNodesDialledWhereItCannotReach(t *testing.T) {
	var named []peers.Addr
	for i, addr := range []string{"/ip4/127.0.0.1/udp/4001/quic-v1", "/ip4/192.168.1.1/udp/4001/quic-v1", "/ip6/fe80::1/udp/4001/quic-v1", "/ip4/2.0.0.1/udp/53/quic-v1",
		"/dns4/localhost/udp/4001/quic-v1", "/ip6/::ffff:127.0.0.1/udp/4001/quic-v1", "/ip4/2.0.0.1/udp/4001/quic-v1"} {
		key := must(crypto.UnmarshalEd25519PrivateKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(i)}, ed25519.SeedSize))))
		named = append(named, peers.Addr{ID: peers.ID(must(peer.IDFromPrivateKey(key)).String()), Addrs: []string{addr}})
	}
	names := simnet.Behaviour{Name: "names neighbours", Frame: func(_ peers.ID, f []byte, _ *rand.Rand) [][]byte {
		e, err := wire.ParseEnvelope(f)
		if err != nil || e.Type != wire.TypeSubscribeResult {
			return [][]byte{f}
		}
		m, err := wire.Parse[wire.SubscribeResult](e.Payload)
		if err == nil {
			m.Children = named
			e.Payload = wire.Append(nil, m)
		}
		return [][]byte{wire.AppendEnvelope(nil, e)}
	}}
	Test(t, 1, func(t *testing.T, net *Net) {
		slow := simnet.Line{Up: simnet.Mbit / 10, Down: simnet.Mbit, Latency: 10 * time.Millisecond}
		a, b := net.Add(NodeConfig{Name: "a", Acts: names, Line: slow}), net.Add(NodeConfig{Name: "b"})
		ticket, _ := seed(t, a, 1<<20)
		tr := fetch(t, b, ticket)
		time.Sleep(10 * time.Second)
		sources := tr.Progress().Sources
		if len(sources) != 2 || sources[0].Peer != a.ID() || sources[1].Peer != named[len(named)-1].ID {
			t.Errorf("the sources are %+v, want the one in the ticket and the last that it named", sources)
		}
		tr.Stop(t.Context())
	})
}
