package p2p

import (
	"bytes"
	"testing"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

func TestPiecesAndManifestsMoveBetweenTwoHosts(t *testing.T) {
	for _, transport := range []string{"/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/udp/0/quic-v1"} {
		t.Run(transport, func(t *testing.T) {
			x := newMemory(t, 5<<20+17, 1, 64<<10, 300<<10)
			src := newHost(t, Config{Listen: []string{transport}})
			src.Serve(toAll(x), everybody{})
			h := newHost(t, Config{Listen: []string{"none"}})

			type answer struct {
				raw []byte
				r   wire.Reply
				err error
			}
			got := make(chan answer, 1)
			h.FetchManifest(addr(src), x.m.ID(), false, share.MaxManifest, nil, func(raw []byte, r wire.Reply, err error) { got <- answer{raw, r, err} })
			if a := recv(t, "the manifest", got); a.err != nil || !bytes.Equal(a.raw, x.m.Bytes()) {
				t.Fatal("manifest:", a.r, a.err)
			}

			c := newCatcher()
			l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
			if rtt := recv(t, "the link", c.up); rtt <= 0 {
				t.Error("round trip of", rtt)
			}
			fetchAll(t, x, l, c)
			l.Close()

			in, out := h.Traffic(src.ID())
			if payload := x.m.Layout().Bytes() + int64(len(x.m.Bytes())); in < payload || in > payload*102/100+4096 {
				t.Errorf("%d bytes came in for %d of payload", in, payload)
			}
			if out == 0 {
				t.Error("no byte of requests was counted")
			}
			for _, f := range h.Flows() {
				if f != (Flow{f.Class, 0, 0}) && f != (Flow{"machine", in, out}) {
					t.Errorf("traffic with all %+v; with one peer on this machine %d, %d", f, in, out)
				}
			}
		})
	}
}

func TestMessagesTravelBothWays(t *testing.T) {
	a, b := newHost(t, Config{}), newHost(t, Config{})
	got := make(chan string, 100)
	lost := make(chan peers.ID, 10)
	for _, h := range []*Host{a, b} {
		h.OnMessages(func(from peers.ID, frame []byte) {
			got <- string(frame)
			if h == b {
				b.Send(from, []byte("back"))
			}
		}, func(p peers.ID) { lost <- p })
	}
	if a.Send(b.ID(), []byte("too early")) {
		t.Error("sent to a peer that is not connected")
	}
	x := newMemory(t, 1)
	c := newCatcher()
	b.Serve(toAll(x), everybody{})
	l := a.Open(addr(b), x.m.ID(), x.m.Layout(), c)
	defer l.Close()
	recv(t, "the link", c.up)
	if !a.Send(b.ID(), []byte("there")) {
		t.Fatal("not sent")
	}
	if s := recv(t, "a message", got); s != "there" {
		t.Error("got", s)
	}
	if s := recv(t, "an answer", got); s != "back" {
		t.Error("got", s)
	}
	b.Close()
	if p := recv(t, "the loss", lost); p != b.ID() && p != a.ID() {
		t.Error("lost", p)
	}
}
