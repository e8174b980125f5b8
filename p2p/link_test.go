package p2p

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// actor is a source that follows a script: it hands each frame it reads to
// play, which writes whatever it likes.
func actor(t testing.TB, cfg Config, play func(s network.Stream, f wire.PieceFrame)) *Host {
	return enact(t, newHost(t, cfg), play)
}

// enact makes a host such a source.
func enact(t testing.TB, src *Host, play func(s network.Stream, f wire.PieceFrame)) *Host {
	src.host.SetStreamHandler(wire.PieceProtocol, func(s network.Stream) {
		defer s.Reset()
		br := bufio.NewReader(s)
		for {
			b, err := wire.ReadFrame(br, wire.MaxRequest, nil)
			if err != nil {
				return
			}
			f, err := wire.ParsePieceFrame(b)
			if err != nil {
				t.Error("a link sent", err)
				return
			}
			play(s, f)
		}
	})
	return src
}

// header writes a reply header, followed by n zero bytes.
func header(s io.Writer, h wire.Header, n int) {
	s.Write(append(wire.AppendFrame(nil, wire.AppendHeader(nil, h)), make([]byte, n)...))
}

func TestEveryViolationEndsTheLink(t *testing.T) {
	const block = share.BlockSize
	x := newMemory(t, 1<<20+100) // a piece of 16 blocks, and one of 100 bytes
	proof := make([]share.Hash, 16)
	ask := wire.PieceRequest{ID: 7, Count: 16, Proof: true}
	raw := func(b ...byte) func(network.Stream) { return func(s network.Stream) { s.Write(b) } }
	heads := func(hs ...wire.Header) func(network.Stream) {
		return func(s network.Stream) {
			for _, h := range hs {
				header(s, h, int(h.Bytes))
			}
		}
	}
	for name, play := range map[string]func(network.Stream){
		"bytes that are no frame":      raw(bytes.Repeat([]byte{0xff}, 12)...),
		"a frame over its cap":         raw(wire.AppendFrame(nil, make([]byte, wire.MaxHeader+1))[:100]...),
		"a frame that is no header":    raw(wire.AppendFrame(nil, []byte{0x0f})...),
		"a reply to nothing":           heads(wire.Header{ID: 8, Last: true}),
		"no proof":                     heads(wire.Header{ID: 7, Count: 4, Bytes: 4 * block}),
		"a short proof":                heads(wire.Header{ID: 7, Proof: proof[:15], Count: 4, Bytes: 4 * block}),
		"a long proof":                 heads(wire.Header{ID: 7, Proof: make([]share.Hash, 17), Count: 4, Bytes: 4 * block}),
		"two proofs":                   heads(wire.Header{ID: 7, Proof: proof, Count: 4, Bytes: 4 * block}, wire.Header{ID: 7, Proof: proof, First: 4, Count: 4, Bytes: 4 * block}),
		"blocks that come later":       heads(wire.Header{ID: 7, Proof: proof, First: 4, Count: 4, Bytes: 4 * block}),
		"blocks twice":                 heads(wire.Header{ID: 7, Proof: proof, Count: 4, Bytes: 4 * block}, wire.Header{ID: 7, Count: 4, Bytes: 4 * block}),
		"a gap":                        heads(wire.Header{ID: 7, Proof: proof, Count: 4, Bytes: 4 * block}, wire.Header{ID: 7, First: 5, Count: 4, Bytes: 4 * block}),
		"more than was asked for":      heads(wire.Header{ID: 7, Proof: proof}, wire.Header{ID: 7, Count: 4, Bytes: 4 * block}, wire.Header{ID: 7, First: 4, Count: 4, Bytes: 4 * block}, wire.Header{ID: 7, First: 8, Count: 4, Bytes: 4 * block}, wire.Header{ID: 7, First: 12, Count: 4, Bytes: 4 * block}, wire.Header{ID: 7, First: 16, Count: 1, Bytes: block}),
		"bytes too few for the blocks": heads(wire.Header{ID: 7, Proof: proof, Count: 4, Bytes: 4*block - 1}),
		"an end that is early":         heads(wire.Header{ID: 7, Proof: proof, Count: 4, Bytes: 4 * block, Last: true}),
		"an end without any blocks":    heads(wire.Header{ID: 7, Proof: proof, Last: true}),
		"an empty header":              heads(wire.Header{ID: 7, Proof: proof}, wire.Header{ID: 7}),
		"a reply after the end":        heads(wire.Header{ID: 7, Status: wire.Busy}, wire.Header{ID: 7, Status: wire.Busy}),
		"blocks behind a status": func(s network.Stream) {
			b := wire.AppendHeader(nil, wire.Header{ID: 7, Proof: proof, Count: 1, Bytes: block})
			s.Write(wire.AppendFrame(nil, append(b, 2<<3, byte(wire.Gone))))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src := actor(t, Config{}, func(s network.Stream, f wire.PieceFrame) { play(s) })
			h := newHost(t, Config{Listen: []string{"none"}, Streams: 1})
			c := newCatcher()
			l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
			recv(t, "the link", c.up)
			if !l.Request(ask) {
				t.Fatal("request refused")
			}
			err := recv(t, "the end of the link", c.down)
			says := map[string]string{"more than was asked for": "it has 1 block too many", "an end without any blocks": "ended 16 blocks early", "a gap": "it has block 5, and block 4 is next"}[name]
			if !errors.Is(err, peers.ErrProtocol) || errors.Is(err, peers.ErrLost) || !strings.HasSuffix(err.Error(), says) {
				t.Error("down:", err)
			}
			if l.Request(ask) {
				t.Error("a request was taken after the end")
			}
			if len(c.finished) > 0 {
				t.Error("a bad reply finished")
			}
		})
	}
}

func TestABlockTooShortIsFoundBeforeItIsRead(t *testing.T) {
	x := newMemory(t, 100)
	src := actor(t, Config{}, func(s network.Stream, f wire.PieceFrame) {
		header(s, wire.Header{ID: f.ID, Count: 1, Bytes: 101, Last: true}, 0) // and nothing follows it
	})
	h := newHost(t, Config{})
	c := newCatcher()
	l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
	recv(t, "the link", c.up)
	l.Request(wire.PieceRequest{ID: 1, Count: 1})
	if err := recv(t, "the end of the link", c.down); !errors.Is(err, peers.ErrProtocol) {
		t.Error("down:", err)
	}
}

func TestARequestForNoBlocksIsRefused(t *testing.T) {
	x := newMemory(t, 1<<20+100)
	src, h := newHost(t, Config{}), newHost(t, Config{})
	src.Serve(toAll(x), everybody{})
	c := newCatcher()
	l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
	defer l.Close()
	for _, r := range []wire.PieceRequest{
		{ID: 1, Piece: 2, Count: 1}, {ID: 1, Count: 0}, {ID: 1, Count: 17}, {ID: 1, First: 16, Count: 1},
		{ID: 1, First: 1<<16 - 1, Count: 1}, {ID: 1, Count: 1 << 31}, {ID: 1, Count: -1}, {ID: 1, Count: 1 << 62}, {ID: 1, Piece: 1<<32 - 1, Count: 1},
	} {
		if l.Request(r) {
			t.Errorf("taken: %+v", r)
		}
	}
	if !l.Request(wire.PieceRequest{ID: 1, Count: 16}) {
		t.Error("refused a good one")
	}
	if l.Request(wire.PieceRequest{ID: 1, Count: 16}) {
		t.Error("took an ID twice")
	}
	recv(t, "the reply", c.finished)
}

func TestStatusesReachTheSinkAndTheLinkStays(t *testing.T) {
	x := newMemory(t, 6<<20)
	want := map[share.Piece]wire.Reply{
		1: {Status: wire.Busy, Retry: 1500 * time.Millisecond, Elsewhere: true},
		2: {Status: wire.Refused, Reason: wire.Why(wire.CodeNotAllowed)},
		3: {Status: wire.Gone, Reason: wire.Why(wire.CodeFileChanged)},
		4: {Status: wire.NotFound},
		5: {Status: wire.Gone, Reason: wire.Reason{Prose: "in the middle"}},
	}
	x.check = func(p share.Piece) wire.Reply {
		if p == 3 || p == 4 {
			return want[p]
		}
		return wire.Reply{}
	}
	x.read = func(p share.Piece, b share.Block) wire.Reply {
		if p == 5 && b > 0 {
			return want[p]
		}
		return wire.Reply{}
	}
	src, h := newHost(t, Config{}), newHost(t, Config{})
	src.Serve(toAll(x), admitFunc(func(_ context.Context, _ peers.ID, p share.Piece, _ int) (func(), wire.Reply) {
		if p == 1 || p == 2 {
			return nil, want[p]
		}
		return func() {}, wire.Reply{}
	}))
	c := newCatcher()
	l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
	defer l.Close()
	for p := range 6 {
		l.Request(whole(x, uint64(p), share.Piece(p), true))
	}
	for range want {
		s := recv(t, "a status", c.statuses)
		if !reflect.DeepEqual(s.r, want[share.Piece(s.req)]) {
			t.Errorf("piece %d: %+v, want %+v", s.req, s.r, want[share.Piece(s.req)])
		}
	}
	if p := recv(t, "the piece that is there", c.finished); p != 0 {
		t.Error("finished", p)
	}
	if n := len(c.got(5)); n != wire.MaxRun {
		t.Error(n, "bytes came before the file was found to have changed")
	}
}

func TestAShareThatNobodyKnowsIsNotFound(t *testing.T) {
	x, other := newMemory(t, 1<<20), newMemory(t, 2<<20)
	src, h := newHost(t, Config{}), newHost(t, Config{})
	src.Serve(toAll(x), everybody{})
	c := newCatcher()
	l := h.Open(addr(src), other.m.ID(), other.m.Layout(), c)
	defer l.Close()
	l.Request(whole(other, 1, 0, true))
	if s := recv(t, "the status", c.statuses); s.r.Status != wire.NotFound {
		t.Error("status", s)
	}
}

func TestCancelStopsTheSourceAndTheSinkHearsNoMore(t *testing.T) {
	x := newMemory(t, 4<<20)
	gate := make(chan struct{})
	x.read = func(p share.Piece, b share.Block) wire.Reply {
		if p == 0 && b > 0 {
			<-gate
		}
		return wire.Reply{}
	}
	src, h := newHost(t, Config{}), newHost(t, Config{Streams: 1})
	src.Serve(toAll(x), everybody{})
	c := newCatcher()
	l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
	defer l.Close()
	for p := range 3 {
		l.Request(whole(x, uint64(p), share.Piece(p), true))
	}
	eventually(t, "the first run", func() bool { return len(c.got(0)) == wire.MaxRun })
	l.Cancel(0) // one is being answered,
	l.Cancel(1) // one is queued at the source,
	l.Cancel(9) // one never existed
	l.Cancel(0)
	l.Request(whole(x, 3, 3, true)) // written after the cancels
	eventually(t, "the cancels to be read", func() bool {
		in, _ := src.Traffic(h.ID())
		_, out := h.Traffic(src.ID())
		return in == out && src.kids.queued(h.ID()) == 4
	})
	asked := make(chan error, 1) // one more round trip, so that the cancels have been processed
	h.FetchManifest(addr(src), x.m.ID(), false, 1<<20, nil, func(_ []byte, _ wire.Reply, err error) { asked <- err })
	recv(t, "a manifest", asked)
	close(gate)
	for _, want := range []uint64{2, 3} {
		if got := recv(t, "the others", c.finished); got != want {
			t.Error("finished", got, "want", want)
		}
	}
	if n := len(c.got(0)); n != wire.MaxRun {
		t.Error(n, "bytes of a cancelled request were handed over")
	}
	if len(c.got(1)) != 0 || len(c.statuses) != 0 {
		t.Error("the sink heard of a cancelled request")
	}
	if n := x.runs.Load(); n > 2+4+4 {
		t.Error("the source read", n, "runs")
	}
	if d := h.Discarded(); d > wire.MaxRun {
		t.Error(d, "bytes discarded")
	}
	if l.streams[0].owed != 0 || len(l.reqs) != 0 {
		t.Error("something is left:", l.streams[0].owed, l.reqs)
	}
}

func TestBytesOfCancelledRequestsAreDiscardedAndCounted(t *testing.T) {
	x := newMemory(t, 2<<20)
	cancelled := make(chan struct{})
	src := actor(t, Config{}, func(s network.Stream, f wire.PieceFrame) {
		if f.Cancel { // too late: it all comes
			<-cancelled
			for b := share.Block(0); b < 16; b += 4 {
				header(s, wire.Header{ID: f.ID, First: b, Count: 4, Bytes: wire.MaxRun, Last: b == 12}, wire.MaxRun)
			}
			header(s, wire.Header{ID: 2, Status: wire.NotFound}, 0)
		}
	})
	h := newHost(t, Config{Streams: 1})
	c := newCatcher()
	l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
	defer l.Close()
	l.Request(wire.PieceRequest{ID: 1, Count: 16})
	eventually(t, "the request to be written", func() bool { l.mu.Lock(); defer l.mu.Unlock(); return len(l.streams[0].sent) == 1 })
	l.Cancel(1)
	close(cancelled)
	l.Request(wire.PieceRequest{ID: 2, Piece: 1, Count: 16})
	recv(t, "the reply to the next", c.statuses)
	if len(c.got(1)) > 0 || len(c.finished) > 0 {
		t.Error("a cancelled request was handed over")
	}
	if n := h.Discarded(); n != 1<<20 {
		t.Errorf("%d bytes counted as discarded, want %d", n, 1<<20)
	}
}

// gated is the address of a host that nobody is connected to before open is called.
func gated(t *testing.T, to *Host) (at peers.Addr, open func()) {
	var work sync.WaitGroup
	t.Cleanup(work.Wait)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	_, there, err := manet.DialArgs(to.host.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	gate, end := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(end) })
	work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				defer c.Close()
				select {
				case <-gate:
				case <-end:
					return
				}
				d, err := net.Dial("tcp", there)
				if err != nil {
					return
				}
				work.Go(func() { io.Copy(d, c); d.Close() })
				work.Go(func() { <-end; c.Close(); d.Close() })
				io.Copy(c, d)
			})
		}
	})
	addr, err := manet.FromNetAddr(l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return peers.Addr{ID: to.ID(), Addrs: []string{addr.String()}}, func() { close(gate) }
}

func TestARequestCancelledInTheQueueIsNeverSent(t *testing.T) {
	x := newMemory(t, 2<<20)
	src, h := newHost(t, Config{}), newHost(t, Config{})
	at, open := gated(t, src)
	seen := make(chan share.Piece, 10)
	x.check = func(p share.Piece) wire.Reply { seen <- p; return wire.Reply{} }
	src.Serve(toAll(x), everybody{})
	c := newCatcher()
	l := h.Open(at, x.m.ID(), x.m.Layout(), c) // not connected yet: requests wait
	defer l.Close()
	l.Request(whole(x, 1, 0, true))
	l.Cancel(1)
	l.Request(whole(x, 2, 1, true))
	open()
	recv(t, "the other", c.finished)
	if p := <-seen; p != 1 || len(seen) > 0 {
		t.Error("the source was asked for piece", p)
	}
}

func TestRequestsSpreadOverTheStreams(t *testing.T) {
	rig.Slow(t)
	for _, streams := range []int{1, 3} {
		x := newMemory(t, 8<<20)
		var mu sync.Mutex
		seen := map[string]int{}
		src := actor(t, Config{}, func(s network.Stream, f wire.PieceFrame) {
			mu.Lock()
			seen[s.ID()]++
			mu.Unlock()
			header(s, wire.Header{ID: f.ID, Status: wire.NotFound}, 0)
		})
		h := newHost(t, Config{Streams: streams})
		at, open := gated(t, src)
		c := newCatcher()
		l := h.Open(at, x.m.ID(), x.m.Layout(), c)
		for p := range 6 {
			l.Request(whole(x, uint64(p), share.Piece(p), false)) // before it is connected, so that all wait
		}
		open()
		for range 6 {
			recv(t, "a reply", c.statuses)
		}
		l.Close()
		mu.Lock()
		for s, n := range seen {
			if len(seen) != streams || n != 6/streams {
				t.Errorf("%d streams: %d requests on %s of %d", streams, n, s, len(seen))
			}
		}
		mu.Unlock()
	}
}

func TestRequestsOfOnePieceKeepToOneStream(t *testing.T) {
	// Its blocks follow its proof, whichever request asked for that.
	x := newMemory(t, 4<<20)
	var mu sync.Mutex
	on := map[share.Piece]map[string]bool{}
	asked := make(chan struct{}) // a piece whose requests have all ended may change its stream
	src := actor(t, Config{}, func(s network.Stream, f wire.PieceFrame) {
		<-asked
		mu.Lock()
		defer mu.Unlock()
		p := f.Request.Piece
		if on[p] == nil {
			on[p] = map[string]bool{}
		}
		on[p][s.ID()] = true
		header(s, wire.Header{ID: f.ID, Status: wire.NotFound}, 0)
	})
	h := newHost(t, Config{Streams: 2})
	c := newCatcher()
	l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
	for i := range uint64(16) {
		l.Request(wire.PieceRequest{ID: i, Piece: share.Piece(i % 4), First: share.Block(i / 4 * 4), Count: 4})
	}
	close(asked)
	for range 16 {
		recv(t, "a reply", c.statuses)
	}
	l.Close()
	mu.Lock()
	defer mu.Unlock()
	all := map[string]bool{}
	for p, streams := range on {
		if len(streams) != 1 {
			t.Error("piece", p, "was asked for on", len(streams), "streams")
		}
		for s := range streams {
			all[s] = true
		}
	}
	if len(all) != 2 {
		t.Error(len(all), "streams were used, want 2")
	}
	if len(l.reqs) != 0 || len(l.streams[0].pieces)+len(l.streams[1].pieces) != 0 {
		t.Error("something is left of requests that ended")
	}
}

func TestALostConnectionIsOneLostLink(t *testing.T) {
	x := newMemory(t, 2<<20)
	block := make(chan struct{})
	x.read = func(share.Piece, share.Block) wire.Reply { <-block; return wire.Reply{} }
	src, h := newHost(t, Config{}), newHost(t, Config{})
	src.Serve(toAll(x), everybody{})
	c := newCatcher()
	l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
	recv(t, "the link", c.up)
	if at := Dialled(h, addr(src).ID); len(at) != 1 || !slices.ContainsFunc(src.Addrs(), func(s string) bool { return strings.HasPrefix(s+"/", at[0]+"/") }) {
		t.Errorf("it has dialled %q, of %q", at, src.Addrs())
	}
	if at := Dialled(src, addr(h).ID); len(at) > 0 {
		t.Errorf("it was dialled, and not at %q", at)
	}
	l.Request(whole(x, 1, 0, true))
	l.Request(whole(x, 2, 1, true))
	src.swarm.ClosePeer(h.host.ID())
	if err := recv(t, "the end", c.down); !errors.Is(err, peers.ErrLost) || errors.Is(err, peers.ErrProtocol) {
		t.Error("down:", err)
	}
	close(block)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.late > 0 {
		t.Error(c.late, "calls after Down")
	}
}

func TestAClosedLinkIsSilent(t *testing.T) {
	rig.Slow(t)
	x := newMemory(t, 8<<20)
	src, h := newHost(t, Config{}), newHost(t, Config{})
	src.Serve(toAll(x), everybody{})
	c := newCatcher()
	l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
	recv(t, "the link", c.up)
	for p := range 8 {
		l.Request(whole(x, uint64(p), share.Piece(p), true))
	}
	recv(t, "a piece", c.finished)
	l.Close()
	if l.Request(whole(x, 99, 0, true)) {
		t.Error("a closed link took a request")
	}
	l.Cancel(3)
	l.Close()
	h.Close()
	if len(c.down) > 0 {
		t.Error("Down was called after Close:", <-c.down)
	}
}

func TestClosingTheHostEndsItsLinks(t *testing.T) {
	x := newMemory(t, 1<<20)
	src, h := newHost(t, Config{}), newHost(t, Config{})
	src.Serve(toAll(x), everybody{})
	c := newCatcher()
	h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
	recv(t, "the link", c.up)
	h.Close()
	if err := recv(t, "the end", c.down); !errors.Is(err, peers.ErrLost) {
		t.Error("down:", err)
	}
	c = newCatcher()
	if l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c); l.Request(whole(x, 1, 0, true)) {
		t.Error("a link of a closed host took a request")
	}
	if err := recv(t, "the end", c.down); !errors.Is(err, peers.ErrLost) {
		t.Error("down:", err)
	}
	done := make(chan error, 1)
	h.FetchManifest(addr(src), x.m.ID(), false, 1<<20, nil, func(_ []byte, _ wire.Reply, err error) { done <- err })
	if err := recv(t, "the answer", done); !errors.Is(err, peers.ErrLost) {
		t.Error("manifest:", err)
	}
}

func TestALinkProtectsItsConnection(t *testing.T) {
	x := newMemory(t, 1)
	src, h := newHost(t, Config{}), newHost(t, Config{})
	src.Serve(toAll(x), everybody{})
	var links []*Link
	protected := func() bool { return h.host.ConnManager().IsProtected(src.host.ID(), "") }
	for range 2 {
		c := newCatcher()
		links = append(links, h.Open(addr(src), x.m.ID(), x.m.Layout(), c))
		recv(t, "the link", c.up)
	}
	links[0].Close()
	time.Sleep(10 * time.Millisecond)
	if !protected() {
		t.Error("not protected while a link is open")
	}
	links[1].Close()
	eventually(t, "the protection to end", func() bool { return !protected() })
}

func TestAPanickingSinkLosesItsLinkOnly(t *testing.T) {
	x := newMemory(t, 1<<20)
	src := newHost(t, Config{})
	src.Serve(toAll(x), everybody{})
	var buf rig.Buffer
	h := newHost(t, Config{Logger: textLog(&buf)})
	c := &panicker{newCatcher()}
	l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
	l.Request(whole(x, 1, 0, true))
	if err := recv(t, "the end", c.down); !errors.Is(err, peers.ErrLost) {
		t.Error("down:", err)
	}
	if log := buf.String(); !strings.Contains(log, "level=ERROR") || !strings.Contains(log, "link_test.go") {
		t.Error("the panic was not logged with its stack:", log)
	}
}

type panicker struct{ *catcher }

func (*panicker) Proof(uint64, []share.Hash) { panic("on purpose") }

func TestFetchBytesHoldBackTheReaders(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	x := newMemory(t, 4<<20)
	src := newHost(t, Config{})
	src.Serve(toAll(x), everybody{})
	h := newHost(t, Config{FetchBytes: 1 << 20, Streams: 1})
	c := newCatcher()
	c.keep = true
	l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
	defer l.Close()
	for p := range 4 {
		l.Request(whole(x, uint64(p), share.Piece(p), true))
	}
	held := func() int { c.mu.Lock(); defer c.mu.Unlock(); return len(c.kept) }
	eventually(t, "the budget to be used up", func() bool { return held() == 4 })
	time.Sleep(20 * time.Millisecond)
	if n := held(); n != 4 {
		t.Error(n, "runs of 256 KiB handed over, with 1 MiB allowed")
	}
	c.mu.Lock()
	for _, release := range c.kept {
		release()
	}
	c.keep = false
	c.mu.Unlock()
	for range 4 {
		recv(t, "the rest", c.finished)
	}
	if made := h.buffers.made.Load(); made > 5 {
		t.Error(made, "buffers made for 16 runs, at most 4 at once")
	}
}

func TestReleasingTwicePanics(t *testing.T) {
	var f freeList
	b, err := f.get(context.Background(), newBudget(1<<20), 100)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.payload(100)) != 100 || cap(b.payload(100)) != 100 || len(b.mem) != headroom+classes[0] {
		t.Error("a buffer of", len(b.mem), "for 100 bytes")
	}
	for n, class := range map[int]int{1: smallBuffer, smallBuffer: smallBuffer, smallBuffer + 1: share.BlockSize, share.BlockSize: share.BlockSize, share.BlockSize + 1: wire.MaxRun, wire.MaxRun: wire.MaxRun} {
		if got := classes[classOf(n)]; got != class {
			t.Errorf("a buffer for %d bytes has %d", n, got)
		}
	}
	b.free()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	b.free()
}

func TestTheFreeListKeepsOnlySoMuch(t *testing.T) {
	var f freeList
	budget := newBudget(1 << 30)
	var all []*buffer
	for range 3 * maxIdle / wire.MaxRun {
		b, _ := f.get(context.Background(), budget, wire.MaxRun)
		all = append(all, b)
	}
	for _, b := range all {
		b.free()
	}
	if n := len(f.idle[classOf(wire.MaxRun)]) * wire.MaxRun; n != maxIdle {
		t.Error(n, "bytes kept")
	}
}

func TestManyLinksToOneSourceShareItsConnection(t *testing.T) {
	rig.Slow(t)
	x, y := newMemory(t, 1<<20), newMemory(t, 2<<20)
	src, h := newHost(t, Config{}), newHost(t, Config{})
	both := both{x, y}
	src.Serve(toAll(both), everybody{})
	var conns []network.Conn
	for _, m := range both {
		c := newCatcher()
		l := h.Open(addr(src), m.m.ID(), m.m.Layout(), c)
		defer l.Close()
		fetchAll(t, m, l, c)
		now := h.swarm.ConnsToPeer(src.host.ID())
		if conns != nil && !slices.Equal(now, conns) {
			t.Error("connected by", conns, "and then by", now)
		}
		conns = now
	}
}

// many is shares, as Blocks.
type many map[share.ID]*memory

func (b many) Manifest(id share.ID) ([]byte, wire.Reply) { return b[id].Manifest(id) }
func (b many) Check(id share.ID, p share.Piece, f share.Block, n int) (int, wire.Reply) {
	return b[id].Check(id, p, f, n)
}
func (b many) Proof(id share.ID, p share.Piece) ([]share.Hash, wire.Reply) { return b[id].Proof(id, p) }
func (b many) ReadRun(id share.ID, p share.Piece, f share.Block, n int, dst []byte) (int, wire.Reply) {
	return b[id].ReadRun(id, p, f, n, dst)
}

// Each share's manifest is asked for and all its pieces are fetched, over two streams
// if possible, all at once, over one connection.
func TestManySharesOfOneSourceComeAtOnce(t *testing.T) {
	rig.Slow(t)
	for _, x := range []struct{ shares, waits int }{{20, 0}, {60, 40}} {
		t.Run(fmt.Sprint(x.shares), func(t *testing.T) {
			shares := many{}
			for i := range x.shares {
				m := newMemory(t, 40<<10+i, 30<<10, 20<<10)
				shares[m.m.ID()] = m
			}
			src, h := newHost(t, Config{}), newHost(t, Config{Listen: []string{"none"}})
			src.Serve(toAll(shares), everybody{})
			var work sync.WaitGroup
			var waited, over atomic.Int32
			for id, m := range shares {
				work.Go(func() {
					served := sync.OnceFunc(func() { over.Add(1) })
					defer served()
					lists := make(chan error, 1)
					h.FetchManifest(addr(src), id, false, 1<<20, nil, func(_ []byte, _ wire.Reply, err error) { lists <- err })
					if err := <-lists; err != nil {
						t.Error("the manifest did not come:", err)
					}
					c := newCatcher()
					l := h.Open(addr(src), id, m.m.Layout(), c)
					defer l.Close()
					for p := range m.m.Layout().Pieces() {
						l.Request(whole(m, uint64(p), share.Piece(p), true))
					}
					for range m.m.Layout().Pieces() {
						select {
						case <-c.finished:
						case err := <-c.down:
							t.Error("a link was refused:", err)
							return
						}
					}
					served()
					if x.waits == 0 { // it stays open until all have been served
						eventually(t, "the others", func() bool { return over.Load() >= int32(x.shares) })
					}
					defer c.lock()()
					waited.Add(int32(len(c.waits)))
				})
			}
			work.Wait()
			if n := int(waited.Load()); n > x.waits {
				t.Error(n, "links waited")
			}
			eventually(t, "the slots to be given back", func() bool {
				h.first.mu.Lock()
				defer h.first.mu.Unlock()
				h.more.mu.Lock()
				defer h.more.mu.Unlock()
				return len(h.first.each)+len(h.more.each) == 0
			})
		})
	}
}

func TestALinkThatWaitsForAPlaceCanBeClosed(t *testing.T) {
	rig.Slow(t)
	x := newMemory(t, 1000)
	src, h := newHost(t, Config{}), newHost(t, Config{Listen: []string{"none"}})
	src.Serve(toAll(x), everybody{})
	open := func() (*Link, *catcher) {
		c := newCatcher()
		return h.Open(addr(src), x.m.ID(), x.m.Layout(), c), c
	}
	var all []*Link
	for range linkStreams - moreStreams {
		l, c := open()
		recv(t, "the link", c.up)
		all = append(all, l)
	}
	gone, _ := open()
	l, c := open()
	eventually(t, "two to wait", func() bool {
		h.first.mu.Lock()
		defer h.first.mu.Unlock()
		return h.first.each[src.ID()].users == h.first.most+2
	})
	gone.Close()
	all[0].Close()
	recv(t, "the link that waited", c.up)
	if unlock := c.lock(); len(c.waits) != 1 {
		t.Errorf("it said %q", c.waits)
		unlock()
	} else {
		unlock()
	}
	l.Close()
	for _, l := range all {
		l.Close()
	}
}

// both is two shares, as Blocks.
type both [2]*memory

func (b both) of(id share.ID) *memory {
	if id == b[1].m.ID() {
		return b[1]
	}
	return b[0]
}
func (b both) Manifest(id share.ID) ([]byte, wire.Reply) { return b.of(id).Manifest(id) }
func (b both) Check(id share.ID, p share.Piece, f share.Block, n int) (int, wire.Reply) {
	return b.of(id).Check(id, p, f, n)
}
func (b both) Proof(id share.ID, p share.Piece) ([]share.Hash, wire.Reply) {
	return b.of(id).Proof(id, p)
}
func (b both) ReadRun(id share.ID, p share.Piece, f share.Block, n int, dst []byte) (int, wire.Reply) {
	return b.of(id).ReadRun(id, p, f, n, dst)
}

func ExampleHost() {
	h, err := New(Config{Listen: []string{"/ip4/127.0.0.1/tcp/0"}})
	if err != nil {
		panic(err)
	}
	defer h.Close()
	fmt.Println(len(h.Addrs()), "address")
	// Output: 1 address
}
