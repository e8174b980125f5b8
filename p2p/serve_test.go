package p2p

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// askFor writes a request for all of p.
func askFor(s io.Writer, x *memory, id uint64, p share.Piece) error {
	_, err := s.Write(wire.AppendFrame(nil, wire.AppendPieceRequest(nil, x.m.ID(), whole(x, id, p, false))))
	return err
}

func TestWhatNoChildSendsResetsItsStream(t *testing.T) {
	rig.Slow(t)
	x := newMemory(t, 1<<20)
	good := wire.AppendFrame(nil, wire.AppendPieceRequest(nil, x.m.ID(), whole(x, 1, 0, false)))
	for name, b := range map[string][]byte{
		"bytes that are no frame": bytes.Repeat([]byte{0xff}, 20),
		"a frame over its cap":    wire.AppendFrame(nil, make([]byte, wire.MaxRequest+1)),
		"a frame that is nothing": wire.AppendFrame(nil, nil),
		"a frame of rubbish":      wire.AppendFrame(nil, []byte{1, 2, 3, 4}),
		"rubbish behind requests": append(bytes.Repeat(good, 3), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
	} {
		for _, protocol := range []string{wire.PieceProtocol, wire.ManifestProtocol} {
			if protocol == wire.ManifestProtocol && strings.Contains(name, "behind") {
				continue
			}
			t.Run(name+protocol, func(t *testing.T) {
				t.Parallel()
				src := newHost(t, Config{})
				src.Serve(toAll(x), everybody{})
				s := rawStream(t, newHost(t, Config{Listen: []string{"none"}}), src, protocol)
				s.Write(b)
				if _, err := readEnd(t, s); err == nil {
					t.Error("the stream was closed, not reset")
				}
				eventually(t, "the count", func() bool { return src.Dropped() == 1 })
			})
		}
	}
}

func TestAFullPipelineHoldsBackItsChild(t *testing.T) {
	t.Parallel()
	x := newMemory(t, 1<<20)
	block := make(chan struct{})
	src := newHost(t, Config{})
	src.Serve(toAll(x), admitFunc(func(context.Context, peers.ID, share.Piece, int) (func(), wire.Reply) {
		<-block
		return func() {}, wire.Reply{}
	}))
	s := rawStream(t, newHost(t, Config{}), src, wire.PieceProtocol)
	frame := wire.AppendFrame(nil, wire.AppendPieceRequest(nil, x.m.ID(), whole(x, 1, 0, false)))
	many := bytes.Repeat(frame, 1000)
	s.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	var err error
	sent := 0
	for err == nil && sent < 100e6 {
		var n int
		n, err = s.Write(many)
		sent += n
	}
	if !timedOut(err) {
		t.Errorf("%d bytes of requests were taken: %v", sent, err)
	}
	if room := firstWindow + pipeline*len(frame) + 64<<10; sent > room {
		t.Errorf("%d bytes of requests were taken, the window and the pipeline have %d", sent, room)
	}
	s.Reset()
	close(block)
}

func TestServeBytesBoundWhatIsReadAtOnce(t *testing.T) {
	x := newMemory(t, 1<<20)
	var now, most atomic.Int32
	gate := make(chan struct{})
	x.read = func(share.Piece, share.Block) wire.Reply {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		<-gate
		now.Add(-1)
		return wire.Reply{}
	}
	src := newHost(t, Config{ServeBytes: 1 << 20})
	src.Serve(toAll(x), everybody{})
	var all []network.Stream
	for range 7 {
		s := rawStream(t, newHost(t, Config{Listen: []string{"none"}}), src, wire.PieceProtocol)
		all = append(all, s)
		if err := askFor(s, x, 1, 0); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "four to be read", func() bool { return now.Load() == 4 })
	close(gate)
	var work sync.WaitGroup
	for _, s := range all {
		work.Go(func() {
			s.CloseWrite()
			if b, err := io.ReadAll(s); err != nil || len(b) < 1<<20 {
				t.Errorf("%d bytes, %v", len(b), err)
			}
		})
	}
	work.Wait()
	if most.Load() != 4 {
		t.Error(most.Load(), "runs of 256 KiB in memory, with 1 MiB allowed")
	}
}

func TestOneChildCannotHoldAllServeBytes(t *testing.T) {
	rig.Slow(t)
	x := newMemory(t, 1<<20)
	src := newHost(t, Config{ServeBytes: 2 << 20, Timeouts: Timeouts{Park: time.Hour, Stall: time.Hour}}) // nothing is taken back
	src.Serve(toAll(x), everybody{})
	greedy := newHost(t, Config{Listen: []string{"none"}})
	for range 20 { // asks on many streams, and reads none
		s := rawStream(t, greedy, src, wire.PieceProtocol)
		for id := range 4 {
			askFor(s, x, uint64(id), 0)
		}
	}
	eventually(t, "all that it may have", func() bool { return x.runs.Load() >= 4 })
	h := newHost(t, Config{Listen: []string{"none"}})
	c := newCatcher()
	l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
	defer l.Close()
	fetchAll(t, x, l, c)
}

func TestThePipelineOfAChildIsBoundedOverItsStreams(t *testing.T) {
	x := newMemory(t, 1<<20)
	src := newHost(t, Config{})
	block := make(chan struct{})
	src.Serve(toAll(x), admitFunc(func(context.Context, peers.ID, share.Piece, int) (func(), wire.Reply) {
		<-block
		return nil, notFound
	}))
	h := newHost(t, Config{})
	frames := bytes.Repeat(wire.AppendFrame(nil, wire.AppendPieceRequest(nil, x.m.ID(), whole(x, 1, 0, false))), pipeline)
	for range 8 {
		s := rawStream(t, h, src, wire.PieceProtocol)
		if _, err := s.Write(frames); err != nil {
			t.Fatal(err)
		}
	}
	queued := func() int { return src.kids.queued(h.ID()) }
	eventually(t, "the bound to be reached", func() bool { return queued() == childPipeline })
	close(block)
	eventually(t, "the queues to be empty", func() bool { return queued() == 0 })
}

func TestAdmissionIsAskedPerRequestAndToldOfItsEnd(t *testing.T) {
	x := newMemory(t, 1<<20+5)
	src, h := newHost(t, Config{}), newHost(t, Config{})
	type ask struct {
		child peers.ID
		p     share.Piece
		bytes int
	}
	asks := make(chan ask, 10)
	var open atomic.Int32
	src.Serve(toAll(x), admitFunc(func(_ context.Context, child peers.ID, p share.Piece, n int) (func(), wire.Reply) {
		asks <- ask{child, p, n}
		open.Add(1)
		return func() { open.Add(-1) }, wire.Reply{}
	}))
	c := newCatcher()
	l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
	defer l.Close()
	fetchAll(t, x, l, c)
	for _, want := range []ask{{h.ID(), 0, 1 << 20}, {h.ID(), 1, 5}} {
		got := <-asks
		if other := want; got != want {
			other = <-asks // they went over two streams
			if other != want {
				t.Errorf("asked for %+v and %+v, want %+v", got, other, want)
			}
			asks <- got
		}
	}
	eventually(t, "the end to be told", func() bool { return open.Load() == 0 })
}

// countSent admits everybody, and counts what is reported as sent.
type countSent struct{ n atomic.Int64 }

func (c *countSent) Admit(context.Context, peers.ID, share.ID, wire.PieceRequest, int) (func(int), func(int), wire.Reply) {
	return func(sent int) { c.n.Add(int64(sent)) }, func(int) {}, wire.Reply{}
}

func TestAdmissionIsToldWhatWasSent(t *testing.T) {
	rig.Slow(t)
	x := newMemory(t, 1<<20+5)
	src, h := newHost(t, Config{}), newHost(t, Config{})
	sent := &countSent{}
	src.Serve(toAll(x), sent)
	c := newCatcher()
	l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
	fetchAll(t, x, l, c)
	eventually(t, "all to be counted", func() bool { return sent.n.Load() == 1<<20+5 })
	l.Close()

	x.read = func(p share.Piece, first share.Block) wire.Reply { // what was sent before a request failed
		if first > 0 {
			return wire.Reply{Status: wire.Busy}
		}
		return wire.Reply{}
	}
	sent.n.Store(0)
	s := rawStream(t, h, src, wire.PieceProtocol)
	if err := askFor(s, x, 1, 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first run to be counted", func() bool { return sent.n.Load() == wire.MaxRun })
}

func TestCancelEndsTheWaitForAdmission(t *testing.T) {
	rig.Slow(t)
	x := newMemory(t, 2<<20)
	src, h := newHost(t, Config{}), newHost(t, Config{Streams: 1})
	waiting := make(chan struct{}, 1)
	src.Serve(toAll(x), admitFunc(func(ctx context.Context, _ peers.ID, p share.Piece, _ int) (func(), wire.Reply) {
		if p == 0 {
			waiting <- struct{}{}
			<-ctx.Done()
			return nil, wire.Reply{Status: wire.Busy}
		}
		return func() {}, wire.Reply{}
	}))
	c := newCatcher()
	l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
	defer l.Close()
	l.Request(whole(x, 1, 0, true))
	l.Request(whole(x, 2, 1, true))
	recv(t, "the wait", waiting)
	l.Cancel(1)
	if id := recv(t, "the next reply", c.finished); id != 2 {
		t.Error("finished", id)
	}
}

func TestAChildThatGoesEndsItsRequests(t *testing.T) {
	x := newMemory(t, 2<<20)
	src, h := newHost(t, Config{}), newHost(t, Config{})
	asked, ended := make(chan struct{}), make(chan struct{})
	src.Serve(toAll(x), admitFunc(func(ctx context.Context, _ peers.ID, _ share.Piece, _ int) (func(), wire.Reply) {
		close(asked)
		<-ctx.Done()
		close(ended)
		return nil, wire.Reply{Status: wire.Busy}
	}))
	c := newCatcher()
	l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
	l.Request(whole(x, 1, 0, true))
	recv(t, "the question", asked)
	l.Close()
	recv(t, "the end of the wait", ended)
}

func TestAPanicWhileServingCostsOneStream(t *testing.T) {
	rig.Slow(t)
	x := newMemory(t, 2<<20)
	x.read = func(p share.Piece, _ share.Block) wire.Reply {
		if p == 0 {
			panic("on purpose")
		}
		return wire.Reply{}
	}
	var buf rig.Buffer
	src, h := newHost(t, Config{Logger: textLog(&buf)}), newHost(t, Config{})
	src.Serve(toAll(x), everybody{})
	bad, good := newCatcher(), newCatcher()
	l := h.Open(addr(src), x.m.ID(), x.m.Layout(), bad)
	l.Request(whole(x, 1, 0, true))
	if err := recv(t, "the end", bad.down); !errors.Is(err, peers.ErrLost) {
		t.Error("down:", err)
	}
	if log := buf.String(); !strings.Contains(log, "level=ERROR") || !strings.Contains(log, "serve_test.go") {
		t.Error("the panic was not logged with its stack:", log)
	}
	l = h.Open(addr(src), x.m.ID(), x.m.Layout(), good)
	defer l.Close()
	l.Request(whole(x, 1, 1, true))
	recv(t, "another's reply", good.finished)
}

func TestAShortReadNeverLeavesAsBlocks(t *testing.T) {
	x := &short{newMemory(t, 1<<20)}
	var buf rig.Buffer
	src, h := newHost(t, Config{Logger: textLog(&buf)}), newHost(t, Config{})
	src.Serve(toAll(x), everybody{})
	c := newCatcher()
	l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
	l.Request(whole(x.memory, 1, 0, true))
	if err := recv(t, "the end", c.down); !errors.Is(err, peers.ErrLost) || len(c.got(1)) > 0 {
		t.Error("down:", err)
	}
}

type short struct{ *memory }

func (s *short) ReadRun(id share.ID, p share.Piece, f share.Block, n int, dst []byte) (int, wire.Reply) {
	n, r := s.memory.ReadRun(id, p, f, n, dst)
	return n - 1, r
}

func TestClosingFinishesTheReplyUnderWay(t *testing.T) {
	rig.Slow(t)
	for _, listen := range []string{"/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/udp/0/quic-v1"} {
		t.Run(listen, func(t *testing.T) {
			x := newMemory(t, 2<<20)
			gate, reading := make(chan struct{}), make(chan struct{})
			x.read = func(p share.Piece, b share.Block) wire.Reply {
				if b == 4 {
					close(reading)
					<-gate
				}
				return wire.Reply{}
			}
			src, h := newHost(t, Config{Listen: []string{listen}}), newHost(t, Config{Streams: 1})
			src.Serve(toAll(x), everybody{})
			c := newCatcher()
			l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
			l.Request(whole(x, 1, 0, true))
			l.Request(whole(x, 2, 1, true))
			recv(t, "the second run", reading)
			closed := make(chan error, 1)
			go func() { closed <- src.Close() }()
			eventually(t, "the closing", func() bool { return src.drain.Err() != nil })
			close(gate)
			recv(t, "the reply under way", c.finished)
			if err := recv(t, "the end", c.down); !errors.Is(err, peers.ErrLost) {
				t.Error("down:", err)
			}
			if err := recv(t, "Close", closed); err != nil {
				t.Error("close:", err)
			}
			if len(c.finished) > 0 {
				t.Error("what was queued was answered too")
			}
		})
	}
}

func TestManifestsAreCheckedAndCapped(t *testing.T) {
	x := newMemory(t, 1<<20)
	good := x.m.Bytes()
	answer := func(r wire.Reply, size int, raw []byte) []byte {
		return append(wire.AppendFrame(nil, wire.AppendManifestHeader(nil, r, int64(size))), raw...)
	}
	wrong := bytes.Clone(good)
	wrong[len(wrong)/2] ^= 1
	for name, v := range map[string]struct {
		b     []byte
		limit int
		want  error // nil: a status
	}{
		"another manifest":        {answer(wire.Reply{}, len(wrong), wrong), 1 << 20, peers.ErrProtocol},
		"one over the limit":      {answer(wire.Reply{}, len(good), good), len(good) - 1, peers.ErrProtocol},
		"one over the format's":   {wire.AppendFrame(nil, []byte{4 << 3, 0xff, 0xff, 0xff, 0xff, 0xf}), 1 << 30, peers.ErrProtocol},
		"rubbish":                 {bytes.Repeat([]byte{0xff}, 30), 1 << 20, peers.ErrProtocol},
		"one cut short":           {answer(wire.Reply{}, len(good), good[:len(good)-1]), 1 << 20, peers.ErrLost},
		"nothing":                 {nil, 1 << 20, peers.ErrLost},
		"none":                    {answer(wire.Reply{Status: wire.NotFound}, 0, nil), 1 << 20, nil},
		"as large as the largest": {answer(wire.Reply{}, share.MaxManifest, good), share.MaxManifest, peers.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, h := newHost(t, Config{}), newHost(t, Config{})
			src.host.SetStreamHandler(wire.ManifestProtocol, func(s network.Stream) {
				wire.ReadFrame(bufio.NewReader(s), wire.MaxRequest, nil)
				s.Write(v.b)
				s.Close()
			})
			type result struct {
				raw []byte
				r   wire.Reply
				err error
			}
			got := make(chan result, 1)
			h.FetchManifest(addr(src), x.m.ID(), false, v.limit, nil, func(raw []byte, r wire.Reply, err error) { got <- result{raw, r, err} })
			a := recv(t, "the answer", got)
			if v.want != nil && !errors.Is(a.err, v.want) || v.want == nil && (a.err != nil || a.r.Status != wire.NotFound) || a.raw != nil {
				t.Errorf("%d bytes, %+v, %v; want %v", len(a.raw), a.r, a.err, v.want)
			}
		})
	}
}

func TestManifestsOfAPeerThatIsNotThere(t *testing.T) {
	h := newHost(t, Config{})
	got := make(chan error, 1)
	h.FetchManifest(peers.Addr{ID: peerOf(seedKey(5)), Addrs: []string{"/ip4/127.0.0.1/tcp/1"}}, newMemory(t, 1).m.ID(), false, 1<<20, nil,
		func(_ []byte, _ wire.Reply, err error) { got <- err })
	if err := recv(t, "the answer", got); !errors.Is(err, peers.ErrUnreachable) {
		t.Error(err)
	}
}

func TestFetchingAManifestCanBeCancelled(t *testing.T) {
	src, h := newHost(t, Config{}), newHost(t, Config{})
	asked := make(chan struct{})
	src.host.SetStreamHandler(wire.ManifestProtocol, func(s network.Stream) {
		wire.ReadFrame(bufio.NewReader(s), wire.MaxRequest, nil)
		close(asked)
	})
	got := make(chan error, 1)
	cancel := h.FetchManifest(addr(src), newMemory(t, 1).m.ID(), false, 1<<20, nil, func(_ []byte, _ wire.Reply, err error) { got <- err })
	recv(t, "the question", asked)
	cancel()
	if err := recv(t, "the answer", got); !errors.Is(err, peers.ErrLost) {
		t.Error(err)
	}
}

func TestALongProofComesBeforeItsBlocks(t *testing.T) {
	// A proof of more than 31 hashes does not fit in the headroom; only pieces of
	// files beyond 128 GiB have one, so this one is invented.
	x := newMemory(t, 1<<20)
	src, h := newHost(t, Config{}), newHost(t, Config{})
	src.Serve(toAll(x), everybody{})
	s := rawStream(t, h, src, wire.PieceProtocol)
	long := &longProof{x}
	src.Serve(toAll(long), everybody{})
	s.Reset()
	s = rawStream(t, h, src, wire.PieceProtocol)
	ask := whole(x, 1, 0, true)
	s.Write(wire.AppendFrame(nil, wire.AppendPieceRequest(nil, x.m.ID(), ask)))
	br := bufio.NewReader(s)
	b, err := wire.ReadFrame(br, wire.MaxHeader, nil)
	if err != nil {
		t.Fatal(err)
	}
	head, err := wire.ParseHeader(b)
	if err != nil || len(head.Proof) != wire.MaxBlocks || head.Bytes != wire.MaxRun {
		t.Fatalf("%d hashes, %d bytes, %v", len(head.Proof), head.Bytes, err)
	}
	data := make([]byte, head.Bytes)
	if _, err := io.ReadFull(br, data); err != nil || !bytes.Equal(data, x.pieces[0][:head.Bytes]) {
		t.Error("the blocks behind it are wrong", err)
	}
}

type longProof struct{ *memory }

func (longProof) Proof(share.ID, share.Piece) ([]share.Hash, wire.Reply) {
	return make([]share.Hash, wire.MaxBlocks), wire.Reply{}
}

func TestEveryChildIsServedInFull(t *testing.T) {
	rig.Slow(t)
	x := newMemory(t, 3<<20, 100<<10)
	src := newHost(t, Config{})
	src.Serve(toAll(x), everybody{})
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			h := newHost(t, Config{Listen: []string{"none"}})
			c := newCatcher()
			l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
			defer l.Close()
			fetchAll(t, x, l, c)
		})
	}
	work.Wait()
}

// Each child's manifests and blocks are asked for under its own ID.
func TestEachChildIsServedWhatThereIsForIt(t *testing.T) {
	x, nothing := newMemory(t, 1), newMemory(t, 2)
	src, a, b := newHost(t, Config{}), newHost(t, Config{Listen: []string{"none"}}), newHost(t, Config{Listen: []string{"none"}})
	src.Serve(func(child peers.ID) Blocks {
		if child == a.ID() {
			return x
		}
		return nothing
	}, everybody{})
	for h, want := range map[*Host]wire.Status{a: wire.OK, b: wire.NotFound} {
		got := make(chan wire.Status, 2)
		h.FetchManifest(addr(src), x.m.ID(), false, 1<<20, nil, func(_ []byte, r wire.Reply, err error) { got <- r.Status })
		if s := recv(t, "the manifest", got); s != want {
			t.Errorf("asked for the manifest: %v, want %v", s, want)
		}
		c := newCatcher()
		l := h.Open(addr(src), x.m.ID(), x.m.Layout(), c)
		defer l.Close()
		l.Request(whole(x, 1, 0, true))
		if want == wire.OK {
			recv(t, "the blocks", c.finished)
		} else if s := recv(t, "the status", c.statuses); s.r.Status != want {
			t.Errorf("asked for blocks: %v, want %v", s.r.Status, want)
		}
	}
}

// directs is an Admit that names others for the list of files to who takes that.
type directs struct {
	everybody
	others []peers.Addr
}

func (d directs) List(_ context.Context, _ peers.ID, q wire.ManifestRequest) wire.Reply {
	if !q.Others {
		return wire.Reply{}
	}
	return wire.Reply{Status: wire.Busy, Retry: time.Second, Others: d.others}
}

func TestOthersAreNamedInPlaceOfAManifest(t *testing.T) {
	x := newMemory(t, 1<<20)
	src, h := newHost(t, Config{}), newHost(t, Config{})
	others := []peers.Addr{{ID: peerOf(seedKey(5)), Addrs: []string{"/ip4/192.0.2.1/tcp/4001"}}}
	src.Serve(toAll(x), directs{others: others})
	type result struct {
		raw []byte
		r   wire.Reply
	}
	for _, takes := range []bool{true, false} {
		got := make(chan result, 1)
		h.FetchManifest(addr(src), x.m.ID(), takes, 1<<20, nil, func(raw []byte, r wire.Reply, err error) { got <- result{raw, r} })
		a := recv(t, "the answer", got)
		if takes && !reflect.DeepEqual(a, result{nil, wire.Reply{Status: wire.Busy, Retry: time.Second, Others: others}}) || !takes && !bytes.Equal(a.raw, x.m.Bytes()) {
			t.Errorf("%v: %d bytes, %+v", takes, len(a.raw), a.r)
		}
	}
}

// wordless is an Admit that never says who gives the list of files.
type wordless struct{ everybody }

func (wordless) List(ctx context.Context, _ peers.ID, _ wire.ManifestRequest) wire.Reply {
	<-ctx.Done()
	return wire.Reply{}
}

func TestWhoGivesTheListIsNotWaitedForWithoutEnd(t *testing.T) {
	x := newMemory(t, 1<<20)
	src, h := newHost(t, Config{Timeouts: Timeouts{Request: 100 * time.Millisecond}}), newHost(t, Config{})
	src.Serve(toAll(x), wordless{})
	got := make(chan []byte, 1)
	h.FetchManifest(addr(src), x.m.ID(), true, share.MaxManifest, nil, func(raw []byte, _ wire.Reply, _ error) { got <- raw })
	if raw := recv(t, "the manifest", got); !bytes.Equal(raw, x.m.Bytes()) {
		t.Errorf("%d bytes came", len(raw))
	}
}
