package p2p

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

// post is one host's end of the messages.
type post struct {
	h    *Host
	got  chan letter
	lost chan peers.ID
}

type letter struct {
	from  peers.ID
	frame []byte
}

func newPost(t testing.TB, cfg Config) *post {
	p := &post{newHost(t, cfg), make(chan letter, 20000), make(chan peers.ID, 100)}
	p.h.OnMessages(func(from peers.ID, frame []byte) { p.got <- letter{from, frame} }, func(id peers.ID) { p.lost <- id })
	return p
}

// joined connects a to b.
func joined(t testing.TB, a, b *Host) {
	t.Helper()
	if _, err := a.connect(t.Context(), addr(b)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both to see the connection", func() bool {
		return b.swarm.Connectedness(a.host.ID()) == network.Connected
	})
}

// sendAll sends, waiting while the queue is full.
func sendAll(t testing.TB, h *Host, to peers.ID, frames ...[]byte) {
	t.Helper()
	for _, f := range frames {
		eventually(t, "room to send", func() bool { return h.Send(to, f) })
	}
}

func TestMessagesKeepTheirOrder(t *testing.T) {
	a, b := newPost(t, Config{}), newPost(t, Config{MessageRate: 64 << 20})
	joined(t, a.h, b.h)
	const n = 5000
	go func() {
		for i := range n {
			f := make([]byte, 4+i%100)
			if i%1000 == 0 {
				f = make([]byte, wire.MaxMessage)
			}
			binary.LittleEndian.PutUint32(f, uint32(i))
			sendAll(t, a.h, b.h.ID(), f)
		}
	}()
	for i := range uint32(n) {
		m := recv(t, "a message", b.got)
		if got := binary.LittleEndian.Uint32(m.frame); got != i || m.from != a.h.ID() {
			t.Fatalf("message %d from %s, want %d", got, m.from, i)
		}
	}
	if in, _ := b.h.Traffic(a.h.ID()); in < 5*wire.MaxMessage {
		t.Error(in, "bytes counted")
	}
}

func TestMessagesBetweenManyPairsStayApart(t *testing.T) {
	rig.Slow(t)
	hub := newPost(t, Config{})
	var all []*post
	for range 6 {
		p := newPost(t, Config{Listen: []string{"none"}})
		joined(t, p.h, hub.h)
		all = append(all, p)
	}
	var work sync.WaitGroup
	for _, p := range all {
		work.Go(func() {
			for i := range 100 {
				sendAll(t, p.h, hub.h.ID(), fmt.Append(nil, i))
				sendAll(t, hub.h, p.h.ID(), fmt.Append(nil, i))
			}
		})
	}
	work.Wait()
	next := map[peers.ID]int{}
	for range 600 {
		m := recv(t, "a message", hub.got)
		if string(m.frame) != fmt.Sprint(next[m.from]) {
			t.Fatalf("got %s from %s, want %d", m.frame, m.from, next[m.from])
		}
		next[m.from]++
	}
	for _, p := range all {
		for i := range 100 {
			if m := recv(t, "a message", p.got); string(m.frame) != fmt.Sprint(i) {
				t.Fatalf("got %s, want %d", m.frame, i)
			}
		}
	}
}

func TestSendRefusesWhatCannotGo(t *testing.T) {
	a, b := newPost(t, Config{}), newPost(t, Config{})
	if a.h.Send(b.h.ID(), []byte("x")) {
		t.Error("sent to a peer that is not connected")
	}
	if a.h.Send("nobody", []byte("x")) || a.h.Send(a.h.ID(), []byte("x")) {
		t.Error("sent to nobody, or to itself")
	}
	joined(t, a.h, b.h)
	if a.h.Send(b.h.ID(), make([]byte, wire.MaxMessage+1)) {
		t.Error("sent a frame over the cap")
	}
	if !a.h.Send(b.h.ID(), make([]byte, wire.MaxMessage)) || !a.h.Send(b.h.ID(), nil) {
		t.Error("refused a frame of the largest size, or of none")
	}
	for _, want := range []int{wire.MaxMessage, 0} {
		if m := recv(t, "it", b.got); len(m.frame) != want {
			t.Error(len(m.frame), "bytes, want", want)
		}
	}
	a.h.Close()
	if a.h.Send(b.h.ID(), []byte("x")) {
		t.Error("sent from a closed host")
	}
}

func TestAFullQueueRefusesAtOnce(t *testing.T) {
	for name, size := range map[string]int{"of frames": 10, "of bytes": wire.MaxMessage} {
		t.Run(name, func(t *testing.T) {
			a, b := newPost(t, Config{}), newHost(t, Config{})
			b.host.SetStreamHandler(wire.MessageProtocol, func(network.Stream) {}) // reads nothing
			joined(t, a.h, b)
			frame := make([]byte, size)
			sent := 0
			for start := time.Now(); a.h.Send(b.ID(), frame); sent++ {
				if sent > 1e6 || time.Since(start) > patience {
					t.Fatal(sent, "frames were taken")
				}
			}
			x := a.h.messages.with[b.ID()]
			x.mu.Lock()
			defer x.mu.Unlock()
			if len(x.queue) > messageQueue || x.bytes > messageBytes {
				t.Error(len(x.queue), "frames and", x.bytes, "bytes queued")
			}
		})
	}
}

func TestAFrameOverItsCapResetsTheStreamAndIsCounted(t *testing.T) {
	b := newPost(t, Config{})
	evil := newHost(t, Config{})
	s := rawStream(t, evil, b.h, wire.MessageProtocol)
	s.Write(wire.AppendFrame(nil, []byte("fine")))
	s.Write(wire.AppendFrame(nil, make([]byte, wire.MaxMessage+1)))
	if m := recv(t, "the good one", b.got); string(m.frame) != "fine" {
		t.Error("got", m)
	}
	if _, err := readEnd(t, s); err == nil {
		t.Error("the stream was closed, not reset")
	}
	if p := recv(t, "the loss", b.lost); p != evil.ID() {
		t.Error("lost", p)
	}
	eventually(t, "the count", func() bool { return b.h.Dropped() == 1 })
	if len(b.got) > 0 {
		t.Error("the frame was handed over")
	}
	// The connection stays, and may be used again.
	s = rawStream(t, evil, b.h, wire.MessageProtocol)
	s.Write(wire.AppendFrame(nil, []byte("again")))
	if m := recv(t, "the next", b.got); string(m.frame) != "again" {
		t.Error("got", m)
	}
}

func TestTheLastConnectionThatGoesIsTold(t *testing.T) {
	a, b := newPost(t, Config{}), newPost(t, Config{})
	for round := range 3 {
		joined(t, a.h, b.h)
		if round > 0 { // the first time it says nothing
			sendAll(t, a.h, b.h.ID(), []byte("hello"))
			recv(t, "it", b.got)
		}
		a.h.swarm.ClosePeer(b.h.host.ID())
		for _, p := range []*post{a, b} {
			recv(t, "the loss", p.lost)
		}
		eventually(t, "the sessions to end", func() bool {
			return !a.h.Send(b.h.ID(), nil) && !b.h.Send(a.h.ID(), nil)
		})
	}
	time.Sleep(10 * time.Millisecond)
	if len(a.lost)+len(b.lost) > 0 {
		t.Error("a loss was told twice")
	}
}

func TestAPeerThatComesBackStartsAnew(t *testing.T) {
	key := seedKey(4)
	b := newPost(t, Config{})
	for round := range 3 {
		a := newPost(t, Config{Key: key, Listen: []string{"none"}})
		joined(t, a.h, b.h)
		sendAll(t, a.h, b.h.ID(), fmt.Append(nil, round))
		if m := recv(t, "the message", b.got); string(m.frame) != fmt.Sprint(round) {
			t.Errorf("got %s, want %d", m.frame, round)
		}
		a.h.Close()
		recv(t, "the loss", b.lost)
	}
}

func TestASecondStreamInReplacesTheFirst(t *testing.T) {
	b, a := newPost(t, Config{}), newHost(t, Config{})
	first := rawStream(t, a, b.h, wire.MessageProtocol)
	first.Write(wire.AppendFrame(nil, []byte("1")))
	recv(t, "a message", b.got)
	second := rawStream(t, a, b.h, wire.MessageProtocol)
	second.Write(wire.AppendFrame(nil, []byte("2")))
	recv(t, "the loss of the first", b.lost)
	if m := recv(t, "a message", b.got); string(m.frame) != "2" {
		t.Errorf("got %s", m.frame)
	}
	if _, err := readEnd(t, first); err == nil {
		t.Error("the first stream was closed, not reset")
	}
}

func TestClosingSendsWhatIsQueued(t *testing.T) {
	for _, listen := range []string{"/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/udp/0/quic-v1"} {
		a, b := newPost(t, Config{Timeouts: Timeouts{Farewell: patience, Shutdown: patience}}), newPost(t, Config{Listen: []string{listen}})
		joined(t, a.h, b.h)
		const n = 500
		for i := range n {
			if !a.h.Send(b.h.ID(), fmt.Append(nil, i)) {
				t.Fatal("refused", i)
			}
		}
		if err := a.h.Close(); err != nil {
			t.Error(err)
		}
		for i := range n {
			if m := recv(t, "a message", b.got); string(m.frame) != fmt.Sprint(i) {
				t.Fatalf("got %s, want %d", m.frame, i)
			}
		}
		if p := recv(t, "the loss", b.lost); p != a.h.ID() {
			t.Error("lost", p)
		}
	}
}

func TestAPanickingReceiverLosesThatPeerOnly(t *testing.T) {
	var buf rig.Buffer
	b := newHost(t, Config{Logger: textLog(&buf)})
	lost, fine := make(chan peers.ID, 10), make(chan string, 10)
	b.OnMessages(func(_ peers.ID, frame []byte) {
		if string(frame) == "bad" {
			panic("on purpose")
		}
		fine <- string(frame)
	}, func(p peers.ID) { lost <- p })
	bad, good := newPost(t, Config{}), newPost(t, Config{})
	joined(t, bad.h, b)
	joined(t, good.h, b)
	sendAll(t, bad.h, b.ID(), []byte("bad"))
	if p := recv(t, "the loss", lost); p != bad.h.ID() {
		t.Error("lost", p)
	}
	sendAll(t, good.h, b.ID(), []byte("good"))
	recv(t, "another's message", fine)
	eventually(t, "the panic and its stack in the log", func() bool {
		return strings.Contains(buf.String(), "level=ERROR") && strings.Contains(buf.String(), "message_test.go")
	})
}

func TestMessagesThatNobodyReadsAreBoundedOverAllPeers(t *testing.T) {
	rig.Slow(t)
	const deaf = 6
	inBubble(t, func(t *testing.T, n *packets) {
		a := n.host(t, "10.0.0.1", Config{ServeBytes: 1 << 20})
		a.OnMessages(func(peers.ID, []byte) {}, func(peers.ID) {})
		frame := make([]byte, 100<<10)
		held := 0
		for i := range deaf {
			b := n.host(t, fmt.Sprint("10.0.0.", 2+i), Config{})
			b.host.SetStreamHandler(wire.MessageProtocol, func(network.Stream) {})
			if _, err := a.connect(t.Context(), addr(b)); err != nil {
				t.Fatal(err)
			}
			for range 100 { // what fits in windows makes room
				for a.Send(b.ID(), frame) {
				}
				time.Sleep(10 * time.Millisecond)
			}
			a.messages.mu.Lock()
			x := a.messages.with[b.ID()]
			a.messages.mu.Unlock()
			x.mu.Lock()
			held += x.bytes
			if x.bytes > messageBytes || x.bytes < wire.MaxMessage-len(frame) {
				t.Errorf("%d bytes are held for peer %d", x.bytes, i)
			}
			x.mu.Unlock()
		}
		if most := 1<<20 + deaf*wire.MaxMessage; held > most || int64(held) != a.messages.bytes.Load() {
			t.Errorf("%d bytes are held for all, counted as %d; at most %d may be", held, a.messages.bytes.Load(), most)
		}
		got := make(chan []byte, 1)
		good := n.host(t, "10.0.0.99", Config{})
		good.OnMessages(func(_ peers.ID, f []byte) { got <- f }, func(peers.ID) {})
		if _, err := a.connect(t.Context(), addr(good)); err != nil {
			t.Fatal(err)
		}
		if !a.Send(good.ID(), make([]byte, wire.MaxMessage)) {
			t.Error("there is no room for a message to somebody else")
		}
		recv(t, "the message", got)
		time.Sleep(2 * time.Minute) // a peer that reads nothing is cut off
		if b := a.messages.bytes.Load(); b != 0 {
			t.Errorf("%d bytes are counted in the end", b)
		}
	})
}
