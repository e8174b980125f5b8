package p2p

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// progressEvery is how often a Sink is told of a run that is still arriving.
const progressEvery = time.Second / 4

// dataStream is one of a link's streams: requests go out, and replies come
// back in the same order. The fields below mu belong to Link.mu.
type dataStream struct {
	l     *Link
	woken chan struct{} // something is unsent, or to be cancelled

	// mu, of the link
	owed    int                 // bytes asked for and not received
	slot    bool                // it has one of the peer's; the first has the link's
	pieces  map[share.Piece]int // requests of each piece that have not ended
	unsent  []*request          // queued, in order
	cancels []uint64            // of requests that were sent
	sent    []*request          // written, in the order of their replies
	s       *counted            // nil: not open
	armed   time.Time           // the read deadline is Timeouts.Reply after it; zero: there is none
	since   time.Time           // since when something is owed without a pause

	last time.Time // when bytes last came; the reader's
}

func newDataStream(l *Link) *dataStream {
	return &dataStream{l: l, woken: make(chan struct{}, 1), pieces: map[share.Piece]int{}}
}

func (d *dataStream) wake() {
	select {
	case d.woken <- struct{}{}:
	default:
	}
}

// takeSlot takes a slot for the stream, if it has none, and says whether it has one.
// l.mu is held.
func (d *dataStream) takeSlot() bool {
	if !d.slot && !d.l.left {
		d.slot = d.l.h.more.tryTake(d.l.to.ID)
	}
	return d.slot
}

// giveSlot gives the slot back. l.mu is held.
func (d *dataStream) giveSlot() {
	if d.slot {
		d.slot = false
		d.l.h.more.give(d.l.to.ID)
	}
}

// unsend takes a request out of the queue, if it is still in it.
func (d *dataStream) unsend(q *request) bool {
	i := slices.Index(d.unsent, q)
	if i >= 0 {
		d.unsent = slices.Delete(d.unsent, i, i+1)
	}
	return i >= 0
}

// open opens the stream.
func (d *dataStream) open() (*counted, error) {
	s, err := d.l.h.open(d.l.ctx, d.l.peer, d.l.to.ID, wire.PieceProtocol)
	if err != nil {
		return nil, err
	}
	d.l.mu.Lock()
	d.s, d.armed = s, time.Time{}
	d.l.mu.Unlock()
	return s, nil
}

// run writes what is queued until the link ends or the stream fails. s is the
// stream if it is open already. While it is open, a reader runs too.
func (d *dataStream) run(s *counted) error {
	var reader sync.WaitGroup
	defer reader.Wait()
	if s != nil {
		d.startReader(&reader, s)
	}
	var buf []byte
	for {
		select {
		case <-d.l.ctx.Done():
			return nil
		case <-d.woken:
		}
		var open bool
		if buf, open = d.take(s, buf[:0]); !open {
			var err error
			if s, err = d.open(); err != nil {
				return err
			}
			d.startReader(&reader, s)
			buf, _ = d.take(s, buf[:0])
		}
		if len(buf) == 0 {
			continue
		}
		if err := writeAll(s, buf, d.l.h.cfg.Timeouts.Stall); err != nil {
			return err
		}
	}
}

// startReader reads s until it ends, and ends the link if it ended with an error.
func (d *dataStream) startReader(wg *sync.WaitGroup, s *counted) {
	wg.Go(func() {
		defer s.uncount()
		defer s.Reset() // no effect after Close
		defer context.AfterFunc(d.l.ctx, func() { s.Reset() })()
		if err := d.l.h.caught(func() error { return d.read(s) }); err != nil {
			d.l.end(d.l.why(err))
			return
		}
		s.Close()
	})
}

// take appends every queued frame to buf, and counts the requests among them
// as sent. open is false, and nothing is taken, when there is something to send
// and s is not the open stream.
func (d *dataStream) take(s *counted, buf []byte) (frames []byte, open bool) {
	l := d.l
	var frame [128]byte
	l.mu.Lock()
	defer l.mu.Unlock()
	if s == nil || d.s != s {
		d.cancels = d.cancels[:0] // their requests ended with the stream
		return buf, len(d.unsent) == 0
	}
	if len(d.unsent) > 0 {
		if len(d.sent) == 0 {
			d.since = time.Now()
		}
		d.arm()
	}
	for _, q := range d.unsent {
		buf = wire.AppendFrame(buf, wire.AppendPieceRequest(frame[:0], l.share, q.PieceRequest))
	}
	d.sent = append(d.sent, d.unsent...)
	clear(d.unsent)
	d.unsent = d.unsent[:0]
	for _, id := range d.cancels {
		buf = wire.AppendFrame(buf, wire.AppendCancel(frame[:0], id))
	}
	d.cancels = d.cancels[:0]
	return buf, true
}

// arm sets the read deadline Timeouts.Reply ahead, unless that was done a moment ago:
// it costs a timer. l.mu must be held; setting a deadline does not block.
func (d *dataStream) arm() {
	reply := d.l.h.cfg.Timeouts.Reply
	if now := time.Now(); d.armed.IsZero() || now.Sub(d.armed) > reply/8 {
		d.armed = now
		d.s.SetReadDeadline(now.Add(reply))
	}
}

// patient says whether to go on waiting for the source when the read deadline has
// passed, and sets a new one then: nothing is owed, or the last byte came less than
// Timeouts.Reply ago.
func (d *dataStream) patient() bool {
	d.l.mu.Lock()
	defer d.l.mu.Unlock()
	switch {
	case d.s == nil:
		return false
	case len(d.sent) == 0:
		d.armed = time.Time{}
		d.s.SetReadDeadline(time.Time{})
		return true
	}
	if d.armed = d.since; d.last.After(d.since) {
		d.armed = d.last
	}
	end := d.armed.Add(d.l.h.cfg.Timeouts.Reply)
	d.s.SetReadDeadline(end)
	return time.Now().Before(end)
}

// read reads replies until the source closes the stream with nothing owed.
func (d *dataStream) read(s *counted) error {
	l := d.l
	br := bufio.NewReaderSize(s, 4<<10) // headers; payloads are read past it
	var frame []byte
	for {
		for br.Buffered() == 0 {
			_, err := br.Peek(1)
			switch {
			case err == nil:
				d.came()
			case err == io.EOF && d.ended():
				return nil
			case !timedOut(err) || !d.patient():
				return d.lost(err)
			}
		}
		var err error
		if frame, err = wire.ReadFrame(br, wire.MaxHeader, frame); err != nil {
			return d.lost(err)
		}
		h, err := wire.ParseHeader(frame)
		if err != nil {
			return err
		}
		q, size, err := d.match(&h)
		if err != nil {
			return err
		}
		if len(h.Proof) > 0 && d.wanted(q) {
			l.sink.Proof(q.ID, h.Proof)
		}
		if size > 0 {
			if err := d.readRun(br, q, h.First, size); err != nil {
				return d.lost(err)
			}
			q.next += share.Block(h.Count)
		}
		if !h.Last {
			continue
		}
		wanted := d.wanted(q)
		l.mu.Lock()
		d.sent[0] = nil
		d.sent = d.sent[1:]
		l.forget(q)
		l.mu.Unlock()
		switch {
		case !wanted:
		case h.Status != wire.OK:
			l.sink.Status(q.ID, h.Reply())
		default:
			l.sink.Finished(q.ID)
		}
	}
}

// came notes that bytes of a header have come; the rest of it has until
// the read deadline.
func (d *dataStream) came() {
	d.last = time.Now()
	d.l.mu.Lock()
	defer d.l.mu.Unlock()
	if d.s != nil {
		d.arm()
	}
}

// ended notes that the source closed the stream, if nothing is owed on it.
func (d *dataStream) ended() bool {
	d.l.mu.Lock()
	defer d.l.mu.Unlock()
	if len(d.sent) > 0 {
		return false
	}
	d.s = nil
	if len(d.unsent) == 0 {
		d.giveSlot()
	}
	return true
}

// lost is a read error in our words.
func (d *dataStream) lost(err error) error {
	switch {
	case timedOut(err):
		return said{"no byte of a reply for " + words.Duration(d.l.h.cfg.Timeouts.Reply), peers.ErrLost, err}
	case errors.Is(err, io.EOF):
		return said{hungUp + owing, peers.ErrLost, err}
	}
	return err
}

// match finds the request of a header and checks, before anything behind the
// header is read, that the header may come now. size is how many bytes of
// payload follow.
func (d *dataStream) match(h *wire.Header) (q *request, size int, err error) {
	bad := func(format string, args ...any) (*request, int, error) {
		return nil, 0, fmt.Errorf("%w: reply to request %d: %s", peers.ErrProtocol, h.ID, fmt.Sprintf(format, args...))
	}
	l := d.l
	l.mu.Lock()
	if len(d.sent) > 0 {
		q = d.sent[0]
	}
	cancelled := q != nil && q.cancelled
	l.mu.Unlock()
	if q == nil {
		return bad("nothing was asked")
	}
	if h.ID != q.ID {
		return bad("out of order, request %d is next", q.ID)
	}
	if h.Status != wire.OK {
		return q, 0, nil
	}
	p := q.Piece
	left := int(q.First) + q.Count - int(q.next)
	switch want := l.layout.Blocks(p); {
	case !q.begun && q.Proof && len(h.Proof) != want && !(cancelled && h.Last):
		return bad("its proof is for %s, not %d", words.Count(len(h.Proof), "block"), want)
	case (q.begun || !q.Proof) && len(h.Proof) > 0:
		return bad("a proof that was not asked for")
	}
	q.begun = true
	if h.Count == 0 {
		switch {
		case !h.Last && len(h.Proof) == 0:
			return bad("an empty header")
		case h.Last && left > 0 && !cancelled:
			return bad("ended %s early", words.Count(left, "block"))
		}
		return q, 0, nil
	}
	switch {
	case h.Count > left:
		return bad("it has %s too many", words.Count(h.Count-left, "block"))
	case h.First != q.next:
		return bad("it has block %d, and block %d is next", h.First, q.next)
	case h.Last && h.Count < left && !cancelled:
		return bad("ended %s early", words.Count(left-h.Count, "block"))
	}
	size = l.layout.RunSpan(p, h.First, h.Count).Len
	if h.Bytes != size {
		return bad("%d bytes, not %d, for %s", h.Bytes, size, words.Count(h.Count, "block"))
	}
	return q, size, nil
}

// readRun reads the payload of one header and hands it over, or throws it away
// if nobody wants it any more.
func (d *dataStream) readRun(br *bufio.Reader, q *request, first share.Block, size int) error {
	l := d.l
	if !d.wanted(q) {
		if err := d.discard(br, size); err != nil {
			return err
		}
		d.received(q, size)
		l.h.waste.Add(int64(size))
		return nil
	}
	buf, err := l.h.buffers.get(l.ctx, l.h.arrived, size)
	if err != nil {
		return err
	}
	d.last = time.Now() // it was us who waited for memory
	if err := d.fill(br, q, buf.payload(size)); err != nil {
		buf.release()
		return err
	}
	d.received(q, size)
	if !d.wanted(q) {
		buf.release()
		l.h.waste.Add(int64(size))
		return nil
	}
	l.sink.Blocks(q.ID, first, buf.payload(size), buf.free)
	return nil
}

// received counts n bytes of a request as no longer owed.
func (d *dataStream) received(q *request, n int) {
	d.l.mu.Lock()
	defer d.l.mu.Unlock()
	q.owed -= n
	d.owed -= n
}

// fill reads b, reporting progress on the way. It fails when no byte comes
// for Timeouts.Reply, however long all of b takes.
func (d *dataStream) fill(br *bufio.Reader, q *request, b []byte) error {
	at, told := d.last, 0
	for n := 0; n < len(b); {
		m, err := br.Read(b[n:])
		if n += m; m > 0 {
			d.last = time.Now()
		}
		switch {
		case n == len(b):
		case err != nil && !(timedOut(err) && d.patient()):
			return err
		case d.last.Sub(at) >= progressEvery:
			if d.wanted(q) {
				d.l.sink.Progress(q.ID, n-told)
			}
			at, told = d.last, n
		}
	}
	return nil
}

// discard reads size bytes that nobody wants.
func (d *dataStream) discard(br *bufio.Reader, size int) error {
	buf := d.l.h.buffers.take(classOf(size))
	defer d.l.h.buffers.put(buf)
	for size > 0 {
		n, err := br.Read(buf.payload(min(size, classes[buf.class])))
		if size -= n; n > 0 {
			d.last = time.Now()
		}
		if err != nil && size > 0 && !(timedOut(err) && d.patient()) {
			return err
		}
	}
	return nil
}

// wanted says whether the sink still wants to hear of a request.
func (d *dataStream) wanted(q *request) bool {
	if d.l.closed.Load() {
		return false
	}
	d.l.mu.Lock()
	defer d.l.mu.Unlock()
	return !q.cancelled
}
