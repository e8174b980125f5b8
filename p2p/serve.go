package p2p

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// Blocks is what a node serves. Its methods are called from many
// goroutines. A reply other than OK is passed on to the child.
type Blocks interface {
	// Manifest returns the encoded manifest of a share. It is not changed.
	Manifest(id share.ID) ([]byte, wire.Reply)

	// Check returns how many bytes the n blocks of p from first on have, and
	// whether they could be served now. It is called first for each request.
	Check(id share.ID, p share.Piece, first share.Block, n int) (bytes int, r wire.Reply)

	// Proof returns the hashes of all blocks of p.
	Proof(id share.ID, p share.Piece) ([]share.Hash, wire.Reply)

	// ReadRun reads the n blocks of p from first on into dst, which holds them
	// exactly, and returns how many bytes it read.
	ReadRun(id share.ID, p share.Piece, first share.Block, n int, dst []byte) (int, wire.Reply)
}

// Admit decides who is served when.
type Admit interface {
	// Admit is called once per request, with the bytes it will take, and may
	// wait, for less than the asker does (Timeouts.Reply) and never
	// beyond ctx. If the reply is OK, done is called when the request has been
	// served or given up, with the bytes of content that were sent. Before that, park is called, at most once, if the
	// child reads next to nothing for Timeouts.Park, with the bytes that are left. A parked request goes
	// on with what is in memory of it; for the rest Admit is called again, after done.
	Admit(ctx context.Context, child peers.ID, id share.ID, q wire.PieceRequest, bytes int) (done func(sent int), park func(left int), r wire.Reply)
}

// Lists decides who is sent a list of files. An Admit need not be one: then everybody is.
type Lists interface {
	// List is called once for each request for a list of files that the asker may have. It may
	// wait, but not long. If the reply is not OK, it is sent in place of the list.
	List(ctx context.Context, child peers.ID, q wire.ManifestRequest) wire.Reply
}

// Serve starts answering children: each gets manifests and blocks from what to returns
// for it, when a admits it.
func (h *Host) Serve(to func(child peers.ID) Blocks, a Admit) {
	h.handle(wire.ManifestProtocol, func(s *counted, from peers.ID) error { return h.serveManifest(to(from), a, s, from) })
	h.handle(wire.PieceProtocol, func(s *counted, from peers.ID) error {
		k := h.kids.join(from, h.cfg.ServeBytes)
		defer h.kids.leave(k)
		c := &child{h: h, kid: k, blocks: to(from), admit: a, id: from, s: s, ready: make(chan struct{}, 1), room: make(chan struct{}, 1)}
		return c.serve()
	})
}

// runBlocks is how many blocks go behind one header.
const runBlocks = wire.MaxRun / share.BlockSize

// child is one data stream of a peer that fetches from us. One goroutine reads
// requests into a bounded queue, so that a CANCEL overtakes its request;
// another answers them in order.
type child struct {
	h      *Host
	kid    *kid
	blocks Blocks
	admit  Admit
	id     peers.ID
	s      *counted

	ready chan struct{} // the queue has something, or ended
	room  chan struct{} // the queue has room

	reading     context.Context // ends when no request will be added
	stopReading context.CancelFunc

	mu    sync.Mutex
	queue []*job
	now   *job // being answered
	ended bool // no request will be added

	cut context.CancelFunc // resets the stream, and does not wait

	// What follows belongs to the goroutine that answers.
	header, frame []byte    // scratch of write
	turn          turn      // of the request that is being answered
	gathered      *gathered // nil: no replies are
}

// turn is the permission to serve one request.
type turn struct {
	done   func(sent int) // nil: there is none
	park   func(left int) // nil: it is parked
	behind int            // bytes of the request after the run that is being sent
	sent   int            // bytes of the request that were sent
}

// job is one request.
type job struct {
	wire.PieceFrame
	ctx    context.Context // ends when the child takes the request back, or is gone
	cancel context.CancelFunc
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// serve answers until the child closes the stream, or breaks it.
func (c *child) serve() error {
	conns := c.h.host.ConnManager()
	peer := c.s.Conn().RemotePeer()
	conns.UpsertTag(peer, "child", func(n int) int { return n + 1 }) // trimmed after those without a stream
	defer conns.UpsertTag(peer, "child", func(n int) int { return n - 1 })

	ctx, cancel := context.WithCancel(c.h.ctx)
	defer cancel()
	cut, stop := context.WithCancel(c.h.ctx)
	defer stop()
	c.cut = stop
	c.reading, c.stopReading = context.WithCancel(ctx)
	defer context.AfterFunc(cut, func() { c.s.Reset() })()
	// When the host closes, no more requests are read, and the one that is being
	// answered is finished.
	defer context.AfterFunc(c.h.drain, func() { c.s.SetReadDeadline(time.Now()); c.end(true) })()

	var answering sync.WaitGroup
	defer answering.Wait()
	var answered error
	answering.Go(func() {
		answered = c.h.caught(c.answer)
		if answered != nil {
			c.s.Reset() // frees the reader
		}
	})
	err := c.read(ctx)
	switch {
	case c.h.drain.Err() != nil:
		err = nil
		answering.Wait()
		linger(c.s)
	case err != nil:
		cancel()
		c.end(true)
		c.s.Reset() // frees the writer
	default:
		c.end(false)
	}
	answering.Wait()
	return errors.Join(err, answered)
}

// end says that no request will be added. With drop, queued requests are forgotten.
func (c *child) end(drop bool) {
	c.mu.Lock()
	c.ended = true
	if drop {
		for _, j := range c.queue {
			c.finished(j)
		}
		c.queue = nil
	}
	c.mu.Unlock()
	c.stopReading()
	signal(c.ready)
}

// finished releases what a queued job held.
func (c *child) finished(j *job) {
	j.cancel()
	c.kid.queue.Release(1)
}

// read queues requests. nil: the child closed its side, or was idle.
func (c *child) read(ctx context.Context) error {
	t := c.h.cfg.Timeouts
	br := bufio.NewReaderSize(c.s, 2<<10)
	var buf []byte
	var armed time.Time
	for {
		if br.Buffered() == 0 {
			if err := c.await(br); err != nil {
				if err == io.EOF {
					return nil
				}
				return err
			}
			armed = time.Time{}
		}
		armed = frameWithin(c.s, t.Request, armed)
		var err error
		if buf, err = wire.ReadFrame(br, wire.MaxRequest, buf); err != nil {
			return err
		}
		f, err := wire.ParsePieceFrame(buf)
		if err != nil {
			return err
		}
		if f.Cancel {
			c.take(f.ID)
		} else if err := c.add(ctx, f); err != nil {
			return err
		}
	}
}

// await waits for the first byte of a request. io.EOF: there will be none.
func (c *child) await(br *bufio.Reader) error {
	for {
		c.s.SetReadDeadline(time.Now().Add(c.h.cfg.Timeouts.Idle))
		if c.h.drain.Err() != nil { // checked after the deadline is set, so that it is not missed
			return io.EOF
		}
		_, err := br.Peek(1)
		if err == nil || !timedOut(err) {
			return err
		}
		if c.idle() {
			return io.EOF
		}
	}
}

// idle says whether nothing is queued or being answered.
func (c *child) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.queue) == 0 && c.now == nil
}

// add queues a request, waiting while the queue is full. The error is that of
// c.reading.
func (c *child) add(ctx context.Context, f wire.PieceFrame) error {
	if !c.kid.queue.TryAcquire(1) {
		if err := c.kid.queue.Acquire(c.reading, 1); err != nil {
			return err
		}
	}
	j := &job{PieceFrame: f}
	j.ctx, j.cancel = context.WithCancel(ctx)
	for {
		c.mu.Lock()
		if !c.ended && len(c.queue) < pipeline {
			c.queue = append(c.queue, j)
			c.mu.Unlock()
			signal(c.ready)
			return nil
		}
		c.mu.Unlock()
		select {
		case <-c.room:
		case <-c.reading.Done():
			c.finished(j)
			return c.reading.Err()
		}
	}
}

// take cancels a request, if it has not been answered.
func (c *child) take(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now != nil && c.now.ID == id {
		c.now.cancel()
		return
	}
	for _, j := range c.queue {
		if j.ID == id {
			j.cancel()
			return
		}
	}
}

// next returns the next request; nil when there will be none.
func (c *child) next() *job {
	for {
		if c.h.drain.Err() != nil {
			c.end(true)
		}
		c.mu.Lock()
		c.now = nil
		if len(c.queue) > 0 {
			c.now = c.queue[0]
			c.queue[0] = nil
			c.queue = c.queue[1:]
		}
		j, ended := c.now, c.ended
		c.mu.Unlock()
		if j != nil {
			signal(c.room)
			return j
		}
		if ended {
			return nil
		}
		<-c.ready
	}
}

// answer answers requests in order.
func (c *child) answer() error {
	defer c.end(true) // frees the reader if it waits for room
	for j := c.next(); j != nil; j = c.next() {
		err := c.reply(j)
		c.finished(j)
		if err != nil {
			return err
		}
	}
	return c.flush(0)
}

// reply answers one request: runs, or a status. A cancelled request
// is answered too, with as much as had been sent and a header that ends it: the
// asker matches replies to requests by their order.
func (c *child) reply(j *job) error {
	if j.ctx.Err() != nil {
		return c.refuse(j, wire.Reply{})
	}
	q := j.Request
	p, first, n := q.Piece, q.First, q.Count
	size, r := c.blocks.Check(j.Share, p, first, n)
	if r.Status != wire.OK {
		return c.refuse(j, r)
	}
	if r = c.begin(j, q, size); r.Status != wire.OK {
		return c.refuse(j, r)
	}
	defer c.over()
	h := wire.Header{ID: j.ID}
	if j.ctx.Err() != nil {
		return c.refuse(j, r)
	}
	if q.Proof {
		if h.Proof, r = c.blocks.Proof(j.Share, p); r.Status != wire.OK {
			return c.refuse(j, r)
		}
	}
	for ; n > 0; h.Proof = nil {
		h.First, h.Count = first, min(n, runBlocks)
		h.Bytes = min(size, h.Count*share.BlockSize)
		h.Last = n == h.Count
		if c.turn.park == nil { // it was parked, and others had its turn
			c.over()
			q.First, q.Count, q.Proof = first, n, false
			if r = c.begin(j, q, size); r.Status != wire.OK {
				return c.refuse(j, r)
			}
		}
		size -= h.Bytes
		c.turn.behind = size
		if r, err := c.run(j, h); err != nil || r.Status != wire.OK || j.ctx.Err() != nil && !h.Last {
			if err != nil {
				return err
			}
			return c.refuse(j, r)
		}
		first += share.Block(h.Count)
		n -= h.Count
	}
	return nil
}

// begin waits for the turn of a request, or of what is left of one.
func (c *child) begin(j *job, q wire.PieceRequest, size int) (r wire.Reply) {
	c.turn = turn{}
	c.turn.done, c.turn.park, r = c.admit.Admit(j.ctx, c.id, j.Share, q, size)
	return r
}

// over gives the turn back.
func (c *child) over() {
	t := c.turn
	if c.turn = (turn{}); t.done == nil {
		return
	}
	if t.park == nil {
		c.h.kids.moved(c)
	}
	t.done(t.sent)
}

// silent is called when the child reads next to nothing; left bytes of the run are not taken.
func (c *child) silent(left int) {
	if c.turn.park == nil {
		return
	}
	c.turn.park(min(left, wire.MaxRun) + c.turn.behind)
	c.turn.park = nil
	c.h.kids.park(c)
}

// run reads one run and sends it behind its header, or returns why it did not.
func (c *child) run(j *job, h wire.Header) (wire.Reply, error) {
	size := h.Bytes
	if !c.kid.memory.TryAcquire(int64(size)) {
		if err := c.flush(size); err != nil {
			return wire.Reply{}, err
		}
		c.silent(size)                                                   // it reads nothing on its other streams
		if err := c.kid.memory.Acquire(j.ctx, int64(size)); err != nil { // cancelled while it waited
			return wire.Reply{Status: wire.Refused}, nil
		}
	}
	defer c.kid.memory.Release(int64(size))
	buf := c.h.buffers.tryGet(c.h.serving, size)
	if buf == nil {
		err := c.flush(size) // what is gathered takes memory too
		if err != nil {
			return wire.Reply{}, err
		}
		if buf, err = c.h.buffers.get(j.ctx, c.h.serving, size); err != nil {
			return wire.Reply{Status: wire.Refused}, nil
		}
	}
	defer buf.release()
	n, r := c.blocks.ReadRun(j.Share, j.Request.Piece, h.First, h.Count, buf.payload(size))
	if r.Status != wire.OK {
		return r, nil
	}
	if n != size {
		panic(fmt.Sprintf("p2p: share %s, piece %d: read %d of %d bytes", j.Share.Short(), j.Request.Piece, n, size))
	}
	err := c.write(h, buf, n)
	if err == nil {
		c.turn.sent += n
	}
	return r, err
}

// refuse ends a reply with a status. To a cancelled request it says
// only that nothing more comes.
func (c *child) refuse(j *job, r wire.Reply) error {
	if j.ctx.Err() != nil {
		return c.write(wire.Header{ID: j.ID, Last: true}, nil, 0)
	}
	return c.write(wire.Header{ID: j.ID, Status: r.Status, Retry: r.Retry, Reason: r.Reason, Elsewhere: r.Elsewhere, Last: true}, nil, 0)
}

// write sends a header, and the first n bytes of buf behind it. They are sent in
// one write, unless a long proof needs more than the headroom, or gathered.
func (c *child) write(h wire.Header, buf *buffer, n int) error {
	t := c.h.cfg.Timeouts
	c.header = wire.AppendHeader(c.header[:0], h)
	c.frame = wire.AppendFrame(c.frame[:0], c.header)
	if yes, err := c.gather(buf, n); yes || err != nil {
		return err
	}
	at := headroom - len(c.frame)
	if buf != nil && at >= 0 {
		copy(buf.mem[at:], c.frame)
		return writePatiently(c.s, buf.mem[at:headroom+n], t.Stall, t.Park, c.silent)
	}
	if err := writePatiently(c.s, c.frame, t.Stall, t.Park, func(left int) { c.silent(n) }); err != nil || buf == nil {
		return err
	}
	return writePatiently(c.s, buf.payload(n), t.Stall, t.Park, c.silent)
}
