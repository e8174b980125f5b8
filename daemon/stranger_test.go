package daemon

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"io"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

// A listener is an issuer that writes down all that reaches it, and answers nothing.
type listener struct {
	host.Host
	told event.Subscription
	seen map[peers.ID]bool

	mu   sync.Mutex
	sent map[peers.ID]map[protocol.ID][]byte // on streams of our protocols, by peer
}

func listening(t *testing.T, at string) *listener {
	h, err := libp2p.New(libp2p.ListenAddrStrings(at))
	must(t, err)
	t.Cleanup(func() { h.Close() })
	l := &listener{Host: h, seen: map[peers.ID]bool{}, sent: map[peers.ID]map[protocol.ID][]byte{}}
	l.told, err = h.EventBus().Subscribe(new(event.EvtPeerIdentificationCompleted))
	must(t, err)
	t.Cleanup(func() { l.told.Close() })
	h.SetStreamHandlerMatch("/fetcher/", func(p protocol.ID) bool { return strings.HasPrefix(string(p), "/fetcher/") }, l.read)
	return l
}

func (l *listener) read(s network.Stream) {
	for b := make([]byte, 1<<12); ; {
		n, err := s.Read(b)
		id := peers.ID(s.Conn().RemotePeer().String())
		l.mu.Lock()
		if l.sent[id] == nil {
			l.sent[id] = map[protocol.ID][]byte{}
		}
		l.sent[id][s.Protocol()] = append(l.sent[id][s.Protocol()], b[:n]...)
		l.mu.Unlock()
		if err != nil {
			if err != io.EOF {
				s.Reset()
			}
			return
		}
	}
}

// heard waits until a peer has sent a question, and returns all that it has sent.
func (l *listener) heard(t *testing.T, id peers.ID) map[protocol.ID][]byte {
	t.Helper()
	for late := time.Now().Add(30 * time.Second); ; {
		l.mu.Lock()
		all := map[protocol.ID][]byte{}
		for p, b := range l.sent[id] {
			all[p] = slices.Clone(b)
		}
		l.mu.Unlock()
		if len(envelopes(t, all)) >= 2 { // its session and the question
			return all
		}
		if time.Now().After(late) {
			t.Fatalf("%s has not sent what it should", id)
		}
		wait := time.NewTimer(10 * time.Millisecond)
		<-wait.C
	}
}

// hears is what a node says of itself, by libp2p's identify, and all that it sends when it asks for keys as itself or as a stranger.
func (l *listener) hears(t *testing.T, ask func(context.Context, peers.Addr, any) (any, error)) (event.EvtPeerIdentificationCompleted, map[protocol.ID][]byte) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := ask(ctx, peers.Addr{ID: peers.ID(l.ID().String()), Addrs: []string{l.Addrs()[0].String()}}, wire.PassKeys{})
		ended <- err
	}()
	defer func() { <-ended }()
	defer cancel()
	late := time.After(30 * time.Second)
	for {
		select {
		case e := <-l.told.Out():
			said := e.(event.EvtPeerIdentificationCompleted)
			if id := peers.ID(said.Peer.String()); !l.seen[id] { // else it is of another connection of the one before
				l.seen[id] = true
				return said, l.heard(t, id)
			}
		case err := <-ended:
			ended <- err
			t.Fatal(err)
		case <-late:
			t.Fatal("nobody came")
		}
	}
}

// What a stranger says of itself is the same whoever it is: nothing of what its node is set to, none of its addresses, not its version, and
// its connection comes from none of its ports. Only its peer ID differs, and the port that the system picked.
func TestAStrangerSaysNothingOfItsNode(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	relay := begun(t, t.TempDir(), func(c *Config) { c.Relay = true })
	plain := begun(t, t.TempDir())
	special := begun(t, t.TempDir(), func(c *Config) {
		c.Relay, c.RelayCarries, c.Beacon, c.Via = true, 1<<20, true, relay.node.Addrs()[:1]
		c.Announce = []string{"/ip4/203.0.113.7/tcp/4001"}
		c.Depot = filepath.Join(t.TempDir(), "depot")
	})
	for _, at := range []string{"/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/udp/0/quic-v1"} {
		l := listening(t, at)
		var all []event.EvtPeerIdentificationCompleted
		var bytesOf []map[protocol.ID][]byte
		for _, d := range []*Daemon{plain, special, special} {
			said, sent := l.hears(t, till{d}.askFresh)
			all, bytesOf = append(all, said), append(bytesOf, sent)
			if id := peers.ID(said.Peer.String()); id == d.node.ID() {
				t.Error("the stranger is the account")
			}
			if len(said.ListenAddrs) > 0 || said.SignedPeerRecord != nil {
				t.Errorf("a stranger names its addresses %v, and a record %v", said.ListenAddrs, said.SignedPeerRecord)
			}
			for _, p := range said.Protocols {
				if !slices.Contains(everybodys, p) {
					t.Errorf("a stranger offers %s", p)
				}
			}
			port, _ := said.Conn.RemoteMultiaddr().ValueForProtocol(portOf(at))
			if slices.ContainsFunc(d.node.Addrs(), func(a string) bool { return strings.Contains(a, "/"+port) }) {
				t.Errorf("a stranger comes from the port %s, at which its node listens: %v", port, d.node.Addrs())
			}
		}
		for i, said := range all[1:] {
			if said.AgentVersion != all[0].AgentVersion || said.ProtocolVersion != all[0].ProtocolVersion || !sameAddr(said.ObservedAddr, all[0].ObservedAddr) {
				t.Errorf("strangers say of themselves\n%+v and\n%+v", all[0], said)
			}
			if said.Peer == all[0].Peer {
				t.Error("two strangers are one")
			}
			if one, other := envelopes(t, bytesOf[0])[:2], envelopes(t, bytesOf[i+1])[:2]; !reflect.DeepEqual(one, other) {
				t.Errorf("strangers send %+v and %+v", one, other)
			}
		}
		account, _ := l.hears(t, func(ctx context.Context, at peers.Addr, q any) (any, error) {
			return till{special}.ask(ctx, special.node, at, q)
		})
		if account.SignedPeerRecord != nil || account.AgentVersion == all[0].AgentVersion || len(account.ListenAddrs) == 0 {
			t.Errorf("the account says %+v", account)
		}
	}
}

// envelopes are what was sent, with tokens counted from the first, which is drawn at random.
func envelopes(t *testing.T, sent map[protocol.ID][]byte) (all []wire.Envelope) {
	t.Helper()
	for p, b := range sent {
		if p != "/fetcher/msg/1" && len(b) > 0 {
			t.Errorf("a stranger sends %x on %s", b, p)
		}
	}
	first := uint64(0)
	for r := bufio.NewReader(bytes.NewReader(sent["/fetcher/msg/1"])); ; {
		b, err := wire.ReadFrame(r, wire.MaxMessage, nil)
		if err != nil {
			return all
		}
		e, err := wire.ParseEnvelope(b)
		must(t, err)
		first = cmp.Or(first, e.Token)
		e.Token, e.Reply = max(e.Token, first)-first, max(e.Reply, first)-first
		all = append(all, e)
	}
}

// everybodys are the protocols that a stranger offers, or the first of them if identify asks early.
var everybodys = []protocol.ID{"/fetcher/manifest/1", "/fetcher/msg/1", "/fetcher/piece/1", "/fetcher/prove/1", "/ipfs/id/1.0.0", "/ipfs/id/push/1.0.0", "/ipfs/ping/1.0.0",
	"/libp2p/autonat/2/dial-back", "/libp2p/circuit/relay/0.2.0/stop", "/libp2p/dcutr"}

func portOf(at string) int {
	if strings.Contains(at, "/udp/") {
		return ma.P_UDP
	}
	return ma.P_TCP
}

// sameAddr compares the addresses at which they saw the issuer.
func sameAddr(a, b ma.Multiaddr) bool { return (a == nil) == (b == nil) && (a == nil || a.Equal(b)) }
