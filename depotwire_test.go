package fetcher_test

import (
	"bufio"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// stranger is a peer that speaks docs/formats.md over streams of its own. It gives no credit, and needs none.
type stranger struct {
	*keeper
	host  host.Host
	out   network.Stream
	heard chan wire.Envelope
}

// stranger connects a peer that has an account to the depot.
func (k *keeper) stranger() *stranger {
	k.Helper()
	h, err := libp2p.New(libp2p.ListenAddrStrings("/ip4/127.0.0.1/tcp/0"), libp2p.DisableMetrics(), libp2p.DisableRelay())
	k.ok(err)
	k.Cleanup(func() { h.Close() })
	x := &stranger{keeper: k, host: h, heard: make(chan wire.Envelope, 100)}
	h.SetStreamHandler(wire.MessageProtocol, func(s network.Stream) {
		for r := bufio.NewReader(s); ; {
			frame, err := wire.ReadFrame(r, wire.MaxMessage, nil)
			if err != nil {
				return
			}
			if e, err := wire.ParseEnvelope(frame); err == nil && e.Kind != wire.KindCredit {
				x.heard <- e
			}
		}
	})
	at, err := peer.AddrInfoFromString(k.node.Addrs()[0])
	k.ok(err)
	k.ok(h.Connect(k.Context(), *at))
	x.out, err = h.NewStream(k.Context(), at.ID, wire.MessageProtocol)
	k.ok(err)
	x.say(wire.Envelope{Kind: wire.KindCredit, Token: 1})
	return x
}

func (x *stranger) say(e wire.Envelope) {
	x.Helper()
	_, err := x.out.Write(wire.AppendFrame(nil, wire.AppendEnvelope(nil, e)))
	x.ok(err)
}

// tell sends the depot a message whose answer goes to a token.
func (x *stranger) tell(typ uint32, payload []byte, reply uint64) {
	x.Helper()
	x.say(wire.Envelope{Kind: wire.KindTell, To: "depot", Reply: reply, Type: typ, Payload: payload})
}

// next returns the next envelope of a kind. A WATCH is answered as docs/formats.md says: of its tokens only 7 may be that of a Usage with watch.
func (x *stranger) next(kind wire.EnvelopeKind) wire.Envelope {
	x.Helper()
	for late := time.After(20 * time.Second); ; {
		select {
		case e := <-x.heard:
			if e.Kind == wire.KindWatch && e.Token != 7 {
				x.say(wire.Envelope{Kind: wire.KindTerminated, Token: e.Reply})
			}
			if e.Kind == kind {
				return e
			}
		case <-late:
			x.Fatal("nothing was heard")
		}
	}
}

// A repeated request is the same if the message, the share, until, and the name with expect and supersedes are: whatever its size is,
// if a share can have it.
func TestARepeatedHoldIsAnsweredWhateverElseItSays(t *testing.T) {
	t.Parallel()
	k := newKeeper(t)
	x := k.stranger()
	id, err := k.db.AddAccount(k.Context(), time.Now(), "stranger", depot.Terms{Quota: 1 << 30, MaxLease: 31 * 24 * time.Hour})
	k.ok(err)
	k.ok(k.db.AddKey(k.Context(), id, peers.ID(x.host.ID().String())))
	hold := wire.Hold{Share: share.IDOf([]byte("x")), Request: "r", Bytes: 1 << 20, Until: time.Now().Add(time.Hour).Unix()}
	var answers []wire.Held
	for _, bytes := range []int64{1 << 20, 2 << 20, depot.LeastBytes} {
		hold.Bytes = bytes
		x.tell(wire.TypeHold, wire.Append(nil, hold), 7)
		m, err := wire.Parse[wire.Held](x.next(wire.KindReply).Payload)
		k.ok(err)
		m.At = 0
		if answers = append(answers, m); m != answers[0] {
			t.Errorf("%d bytes are answered with %+v, and before with %+v", bytes, m, answers[0])
		}
	}
}

// Whoever watches is told of changes by the token of its Usage, for which it answers no TERMINATED.
func TestWhoeverWatchesAsTheFormatsSayIsTold(t *testing.T) {
	t.Parallel()
	k, owner := newKeeper(t), client(t)
	x := k.stranger()
	k.ok(k.db.AddKey(k.Context(), k.account(owner, 1<<30), peers.ID(x.host.ID().String())))
	x.tell(wire.TypeUsage, wire.Append(nil, wire.Usage{Watch: true}), 7)
	if e := x.next(wire.KindReply); e.Type != wire.TypeUsageReport {
		t.Fatalf("%+v", e)
	}
	k.hold(owner, folderOf(t, map[string]int{"a": 1 << 20}), time.Hour)
	for {
		if e := x.next(wire.KindReply); e.Type == wire.TypeHoldingChanged && e.Token == 7 {
			return
		}
	}
}
