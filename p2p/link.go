package p2p

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// A Sink is told what a Link receives. Its methods are called from the link's
// goroutines, one for each data stream, so several may run at once; calls about
// one request come in order. None may block: the stream reads nothing more until
// the call returns.
type Sink interface {
	// Waits says that the link has to wait for other links to the same peer to end, as the
	// peer accepts only so many streams from us. why is for people. Nothing is
	// wrong with the source. It comes before Up, if at all.
	Waits(why string)

	// Up says that the source is connected; requests may be made before, and
	// wait for it. rtt is a first measurement of the round trip, 0 if there is
	// none. It is the first call, except for Waits.
	Up(rtt time.Duration)

	// Proof gives the hashes of all blocks of the request's piece, not checked
	// against the manifest. It comes before the request's first Blocks, if and
	// only if it was asked for.
	Proof(req uint64, values []share.Hash)

	// Blocks gives one run of whole blocks from first on, at most wire.MaxRun
	// bytes, not verified. The runs of a request come in order and without
	// gaps. data is the receiver's until it calls release, once, from any
	// goroutine; it counts against Config.FetchBytes until then.
	Blocks(req uint64, first share.Block, data []byte, release func())

	// Progress says that some more bytes of a run have arrived, but not yet all:
	// at most four times a second for each stream. It is for deadlines; the same
	// bytes come again in Blocks.
	Progress(req uint64, bytes int)

	// Finished says that all blocks of the request have been handed over.
	Finished(req uint64)

	// Status says that the request ended with a reply other than OK. Blocks
	// that came before it count.
	Status(req uint64, r wire.Reply)

	// Down is the last call, unless Close was called: the link is gone, and every
	// request with it. err says why, for people. It wraps peers.ErrUnreachable if nothing
	// accepted a connection, peers.ErrProtocol if the source broke the protocol, else
	// peers.ErrLost.
	Down(err error)
}

// A Link is the way to one source of one share: a few data streams, each with
// requests in flight and their replies in the same order.
//
//	opening --Up--> up --Down--> gone
//	   └───────────Down───────────┘      Close leads to gone from anywhere, without Down
//
// A link has one stream for as long as it lives, and others where the peer accepts
// them. Each stream has a goroutine that writes requests, everything queued at
// once, and one that reads replies. A stream is opened when it gets its first
// request, and again after the source closed it because it was idle.
type Link struct {
	h      *Host
	to     peers.Addr
	share  share.ID
	layout *share.Layout
	sink   Sink
	tag    string // protects the connection from being trimmed

	ctx    context.Context
	end    context.CancelCauseFunc
	closed atomic.Bool // no further call of the sink begins

	peer peer.ID // set before the streams run

	mu      sync.Mutex
	streams []*dataStream
	reqs    map[uint64]*request // not ended; those cancelled stay until their bytes have come
	left    bool                // no stream takes a slot any more
}

// request is one request, from Request to the end of its reply. Its fields are
// guarded by Link.mu, except for those that never change.
type request struct {
	wire.PieceRequest
	on        *dataStream
	owed      int // bytes not yet received
	cancelled bool

	// The rest is the reader's, once the request is written.
	next  share.Block // block that must come next
	begun bool        // a header has come
}

// Open makes a link to a source and returns at once; it dials in the
// background, one attempt, and tells sink the result. libp2p's own
// back-off is cleared: how long to wait between attempts is the caller's decision.
// The addresses of to are tried besides those already known.
func (h *Host) Open(to peers.Addr, id share.ID, layout *share.Layout, sink Sink) *Link {
	l := &Link{
		h: h, to: to, share: id, layout: layout, sink: sink,
		tag:  fmt.Sprint("link", h.links.Add(1)),
		reqs: map[uint64]*request{},
	}
	l.ctx, l.end = context.WithCancelCause(h.drain)
	for range h.cfg.Streams {
		l.streams = append(l.streams, newDataStream(l))
	}
	if !h.start(l.run) {
		l.end(errClosed)
		go l.down() // the host is closing, and does not wait for it
	}
	return l
}

// Request queues a request and never blocks. false: the queue is full, the
// link is gone, or the piece has no such blocks.
func (l *Link) Request(r wire.PieceRequest) bool {
	p, first := r.Piece, r.First
	if !l.layout.ValidRun(p, first, r.Count) || l.ctx.Err() != nil {
		return false
	}
	q := &request{PieceRequest: r, owed: l.layout.RunSpan(p, first, r.Count).Len, next: r.First}
	l.mu.Lock()
	if len(l.reqs) >= linkQueue || l.reqs[r.ID] != nil {
		l.mu.Unlock()
		return false
	}
	on := l.streamFor(r.Piece)
	q.on = on
	l.reqs[r.ID] = q
	on.pieces[r.Piece]++
	on.owed += q.owed
	on.unsent = append(on.unsent, q)
	l.mu.Unlock()
	on.wake()
	return true
}

// streamFor returns the stream for a request: behind the others of its piece, so that
// the proof that one of them asked for comes before its blocks; else the
// stream that owes least. mu is held.
func (l *Link) streamFor(piece share.Piece) *dataStream {
	on := l.streams[0]
	for _, s := range l.streams {
		if s.pieces[piece] > 0 {
			return s
		}
	}
	for _, s := range l.streams[1:] {
		if s.owed < on.owed && s.takeSlot() {
			on = s
		}
	}
	return on
}

// leave gives up the slots of all streams but the first.
func (l *Link) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.left = true
	for _, s := range l.streams {
		s.giveSlot()
	}
}

// Cancel takes a request back and never blocks. The sink gets no further call about
// it, except one that was about to be made. Bytes already on their way are read
// and thrown away; the source stops at the end of a run. It is no error if the request has
// ended, or never was.
func (l *Link) Cancel(req uint64) {
	l.mu.Lock()
	q := l.reqs[req]
	if q == nil || q.cancelled {
		l.mu.Unlock()
		return
	}
	q.cancelled = true
	on := q.on
	if on.unsend(q) {
		l.forget(q)
		l.mu.Unlock()
		return
	}
	on.cancels = append(on.cancels, req)
	l.mu.Unlock()
	on.wake()
}

// Close ends the link and does not wait. The sink gets no further call, not even Down,
// except one that was about to be made. Host.Close waits.
func (l *Link) Close() {
	l.closed.Store(true)
	l.end(nil)
}

// forget drops a request that has ended. l.mu must be held.
func (l *Link) forget(q *request) {
	delete(l.reqs, q.ID)
	if q.on.pieces[q.Piece]--; q.on.pieces[q.Piece] == 0 {
		delete(q.on.pieces, q.Piece)
	}
	q.on.owed -= q.owed
	q.owed = 0
}

// run runs the link until it ends.
func (l *Link) run() {
	defer l.down()
	defer l.leave()
	defer l.end(peers.ErrLost) // the first cause counts
	counted, ok := l.await()
	if !ok {
		return
	}
	defer l.h.pace.end(l.share, counted)
	to, err := l.h.connect(l.ctx, l.to)
	if err != nil {
		l.end(err)
		return
	}
	conns := l.h.host.ConnManager()
	conns.Protect(to, l.tag)
	defer conns.Unprotect(to, l.tag)
	l.peer = to
	waited := false
	if err := l.h.first.take(l.ctx, l.to.ID, func() { waited = true; l.waits(noSlotReason) }); err != nil {
		return
	}
	defer l.h.first.give(l.to.ID)
	if waited { // the connection may have gone meanwhile
		if _, err := l.h.connect(l.ctx, l.to); err != nil {
			l.end(err)
			return
		}
	}
	l.h.prove(l.ctx, to, l.to.ID, l.share)
	first, err := l.streams[0].open()
	if err != nil {
		l.end(err)
		return
	}
	if rtt := roundTrip(first.Conn()); !l.closed.Load() {
		l.sink.Up(rtt)
	}
	var streams sync.WaitGroup
	for i, d := range l.streams {
		s := first
		if i > 0 {
			s = nil // when it gets its first request
		}
		streams.Go(func() {
			if err := l.h.caught(func() error { return d.run(s) }); err != nil {
				l.end(l.why(err))
			}
		})
	}
	streams.Wait()
}

func (l *Link) waits(why string) {
	if !l.closed.Load() {
		l.sink.Waits(why)
	}
}

// await waits until this machine has time for another source, if the source is one that a peer
// named. If ok, what is counted must be ended.
func (l *Link) await() (counted *paced, ok bool) {
	counted, ok = l.h.pace.begin(l.share, l.to.By == "")
	if !ok {
		l.waits(paceReason)
		ok = l.h.pace.wait(l.ctx, l.share, counted) == nil
	}
	return counted, ok
}

// why is the error of a stream in our words.
func (l *Link) why(err error) error {
	l.h.log.Debug("link lost", "peer", l.to.ID, "err", err)
	if errors.Is(err, peers.ErrProtocol) {
		return err
	}
	return streamLost(l.h, l.to.ID, err)
}

// down makes the last call.
func (l *Link) down() {
	err := context.Cause(l.ctx)
	if errors.Is(err, context.Canceled) {
		err = errClosed
	}
	if !l.closed.Load() {
		l.sink.Down(err)
	}
}
