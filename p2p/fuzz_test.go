package p2p

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/network"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// script is a stream that delivers the given bytes, and then ends.
type script struct {
	network.Stream
	r io.Reader
}

func (s *script) Read(b []byte) (int, error)      { return s.r.Read(b) }
func (s *script) SetReadDeadline(time.Time) error { return nil }
func (s *script) Conn() network.Conn              { return nil }

// strictSink checks the order in which a link reports on each request.
type strictSink struct {
	testing.TB
	x     *memory
	asked map[uint64]wire.PieceRequest
	got   map[uint64]int // blocks handed over
	proof map[uint64]bool
	ended map[uint64]bool
}

func (s *strictSink) ask(req uint64, what string) wire.PieceRequest {
	q, ok := s.asked[req]
	if !ok || s.ended[req] {
		s.Fatalf("%s of request %d, which is not open", what, req)
	}
	return q
}

func (s *strictSink) Waits(string)     {}
func (s *strictSink) Up(time.Duration) {}
func (s *strictSink) Down(error)       {}
func (s *strictSink) Proof(req uint64, values []share.Hash) {
	q := s.ask(req, "proof")
	if !q.Proof || s.proof[req] || s.got[req] > 0 || len(values) != s.x.m.Layout().Blocks(q.Piece) {
		s.Fatal("a proof where there may be none")
	}
	s.proof[req] = true
}
func (s *strictSink) Blocks(req uint64, first share.Block, data []byte, release func()) {
	q := s.ask(req, "blocks")
	lay, p := s.x.m.Layout(), q.Piece
	n := (len(data) + share.BlockSize - 1) / share.BlockSize
	if int(first) != int(q.First)+s.got[req] || len(data) > wire.MaxRun || s.got[req]+n > q.Count || lay.RunSpan(p, first, n).Len != len(data) {
		s.Fatalf("%d bytes at block %d, with %d of %d blocks there", len(data), first, s.got[req], q.Count)
	}
	if q.Proof && !s.proof[req] {
		s.Fatal("blocks before their proof")
	}
	s.got[req] += n
	release()
}
func (s *strictSink) Progress(req uint64, n int) { s.ask(req, "progress") }
func (s *strictSink) Finished(req uint64) {
	if q := s.ask(req, "end"); s.got[req] != q.Count {
		s.Fatal("finished with", s.got[req], "blocks of", q.Count)
	}
	s.ended[req] = true
}
func (s *strictSink) Status(req uint64, r wire.Reply) {
	if s.ask(req, "status"); r.Status == wire.OK {
		s.Fatal("a status of OK")
	}
	s.ended[req] = true
}

// FuzzReplies feeds a link's reader with anything that a source might send.
func FuzzReplies(f *testing.F) {
	x := newMemory(f, 1<<20+100, 10)
	reply := func(hs ...wire.Header) []byte {
		var b bytes.Buffer
		for _, h := range hs {
			header(&b, h, 0)
		}
		return b.Bytes()
	}
	// Payloads are added afterwards, so that inputs stay small.
	fill := func(b []byte) []byte {
		var out bytes.Buffer
		for r := bufio.NewReader(bytes.NewReader(b)); ; {
			frame, err := wire.ReadFrame(r, wire.MaxHeader, nil)
			if err != nil {
				break
			}
			h, err := wire.ParseHeader(frame)
			if err != nil {
				h.Bytes = 0
			}
			out.Write(wire.AppendFrame(nil, frame))
			out.Write(make([]byte, h.Bytes))
			b = b[len(wire.AppendFrame(nil, frame)):]
		}
		out.Write(b)
		return out.Bytes()
	}
	proof := make([]share.Hash, 16)
	good := reply(
		wire.Header{ID: 1, Proof: proof, Count: 1, Bytes: share.BlockSize},
		wire.Header{ID: 1, First: 1, Count: 1, Bytes: share.BlockSize, Last: true},
		wire.Header{ID: 2, Status: wire.Busy, Retry: time.Second},
		wire.Header{ID: 3, Last: true}, // was cancelled
		wire.Header{ID: 4, Count: 1, Bytes: 10, Last: true})
	f.Add(good)
	f.Add(good[:len(good)-5])
	f.Add(append(bytes.Clone(good), 0))
	f.Add(reply(wire.Header{ID: 1, Proof: proof}, wire.Header{ID: 1, Status: wire.Gone, Reason: wire.Why(wire.CodeFileChanged)}))
	f.Add(reply(wire.Header{ID: 1, Proof: proof}, wire.Header{ID: 1}))
	f.Add([]byte{})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	// A host that is on no network, so that nothing else runs.
	cfg, err := Config{}.withDefaults()
	if err != nil {
		f.Fatal(err)
	}
	h := &Host{cfg: cfg, arrived: newBudget(cfg.FetchBytes), counts: counters{each: map[peers.ID]*traffic{}}}
	f.Fuzz(func(t *testing.T, b []byte) {
		sink := &strictSink{TB: t, x: x, asked: map[uint64]wire.PieceRequest{}, got: map[uint64]int{}, proof: map[uint64]bool{}, ended: map[uint64]bool{}}
		l := &Link{h: h, share: x.m.ID(), layout: x.m.Layout(), sink: sink, reqs: map[uint64]*request{}}
		l.ctx, l.end = context.WithCancelCause(t.Context())
		d := newDataStream(l)
		l.streams = []*dataStream{d}
		d.s = h.count(&script{r: bytes.NewReader(fill(b))}, "source")
		defer d.s.uncount()
		for _, q := range []wire.PieceRequest{{ID: 1, Count: 2, Proof: true}, {ID: 2, First: 4, Count: 12}, {ID: 3, Count: 16, Proof: true}, {ID: 4, Piece: 2, Count: 1}} {
			if !l.Request(q) {
				t.Fatal("request refused")
			}
			sink.asked[q.ID] = q
		}
		d.take(d.s, nil)
		l.Cancel(3)
		delete(sink.asked, 3)
		err := d.read(d.s)
		if err != nil && !errors.Is(err, peers.ErrProtocol) && !errors.Is(err, io.ErrUnexpectedEOF) && err.Error() != hungUp+owing {
			t.Fatal(err)
		}
		if err == nil && len(d.sent) > 0 {
			t.Fatal("a good end with replies owed")
		}
		owed := 0
		for _, q := range d.sent {
			owed += q.owed
		}
		if err == nil && (owed != 0 || d.owed != 0 || len(l.reqs) != 0) {
			t.Fatal(owed, d.owed, "bytes are owed at the end")
		}
		if d.owed < 0 || err != nil && d.owed < owed {
			t.Fatal(d.owed, "bytes are owed, and", owed, "by request")
		}
	})
}
