package simnet

import (
	"fmt"
	"slices"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/simnet/model"
	"github.com/piecelease/fetcher/wire"
)

// This file models p2p.Link and p2p's serving: requests one way and replies
// in the same order the other, on two streams. It decides nothing: the Seeder of
// the other node admits, and its store answers.

const (
	streams       = 2                // of a link, as p2p's default
	maxLinks      = 20               // to one peer, as p2p's default
	linkQueue     = 4096             // requests outstanding on a link
	replyTimeout  = 30 * time.Second // as p2p.Timeouts.Reply
	progressEvery = time.Second / 4
	stallTimeout  = 30 * time.Second // as p2p.Timeouts.Stall
	parkTimeout   = 2 * time.Second  // as p2p.Timeouts.Park
	window        = 1 << 20          // bytes of a stream that a node takes without reading them
	minParcel     = 64               // bytes of a request, a header, a status
	runBlocks     = wire.MaxRun / share.BlockSize
)

// link is one node's way to one source of a share.
type link struct {
	x       *Node
	to      peers.ID
	share   share.ID
	layout  *share.Layout
	sink    actors.Sink
	c       *conn // nil: not up
	life    int
	closed  bool
	streams [streams]*stream
	asks    map[uint64]*ask
	peak    int // most requests outstanding
}

// stream is one of its data streams. The fields below the line are the source's.
type stream struct {
	l      *link
	owed   int                 // bytes
	pieces map[share.Piece]int // requests outstanding of each
	sent   []*ask              // in the order of replies
	heard  time.Duration
	timing bool

	y     *Node
	life  int
	queue []*ask
	now   *ask
	flow  *model.Flow
	taken int // bytes
}

// ask is one request, at both ends.
type ask struct {
	wire.PieceRequest
	on        *stream
	cancelled bool // at the asker
	owed      int
	came      int
	told      time.Duration
	untold    int

	stop bool // at the source
	job  peers.Job
	held bool // job is held
	size int
	sent int // of it
}

// Open implements actors.Network.
func (x *Node) Open(to peers.Addr, id share.ID, layout *share.Layout, sink actors.Sink) actors.Link {
	return x.link(to, id, layout, sink, (*link).queue)
}

// link is Open that calls then when the nodes are connected.
func (x *Node) link(to peers.Addr, id share.ID, layout *share.Layout, sink actors.Sink, then func(*link, *conn)) *link {
	l := &link{x: x, to: to.ID, share: id, layout: layout, sink: sink, life: x.life, asks: map[uint64]*ask{}}
	x.net.links++
	x.connectAt(to, l.connected(then))
	return l
}

// connected continues with then, if there is a connection and the link is still wanted.
func (l *link) connected(then func(*link, *conn)) func(*conn, error) {
	return func(c *conn, err error) {
		switch {
		case l.closed:
		case err != nil:
			l.down(err)
		default:
			then(l, c)
		}
	}
}

// queue opens the link when fewer than the maximum are open to the same peer.
func (l *link) queue(c *conn) {
	line := append(l.x.lines[l.to], l)
	l.x.lines[l.to] = line
	if len(line) > maxLinks {
		l.sink.Waits("waits for other links")
		return
	}
	l.open(c)
}

// leave gives up the place of a link in line.
func (l *link) leave() {
	line := l.x.lines[l.to]
	i := slices.Index(line, l)
	if i < 0 {
		return
	}
	l.x.lines[l.to] = slices.Delete(line, i, i+1)
	if i >= maxLinks || len(line) <= maxLinks {
		return
	}
	next := line[maxLinks-1]
	next.x.connect(next.to, next.connected((*link).open))
}

// open opens the first stream.
func (l *link) open(c *conn) {
	i := c.side(l.x)
	y := c.ends[1-i]
	c.users[i] = append(c.users[i], l)
	l.c = c
	for k := range l.streams {
		l.streams[k] = &stream{l: l, pieces: map[share.Piece]int{}, y: y, life: y.life, flow: &model.Flow{Up: y.up, Pace: y.acts.Rate}}
		c.users[1-i] = append(c.users[1-i], l.streams[k])
	}
	l.sink.Up(l.x.net.rtt(l.x, y)) // what a stream is for travels with its first request
}

// broken implements user.
func (l *link) broken(err error) {
	if !l.closed {
		l.down(fmt.Errorf("%s: %w", l.to.Short(), err))
	}
}

func (l *link) down(err error) {
	l.Close()
	l.sink.Down(err)
}

// Close implements actors.Link.
func (l *link) Close() {
	if l.closed {
		return
	}
	l.closed = true
	if l.life == l.x.life {
		l.leave()
	}
	if l.c == nil {
		return
	}
	i := l.c.side(l.x)
	l.c.users[i] = slices.DeleteFunc(l.c.users[i], func(u user) bool { return u == l })
	if !l.c.believes(l.x) {
		return
	}
	l.c.ways[i].control(func() { // the streams are reset
		for _, s := range l.streams {
			l.c.users[1-i] = slices.DeleteFunc(l.c.users[1-i], func(u user) bool { return u == s })
			s.broken(nil)
		}
	})
}

// Request implements actors.Link.
func (l *link) Request(r wire.PieceRequest) bool {
	p, first := r.Piece, r.First
	if l.closed || len(l.asks) >= linkQueue || l.asks[r.ID] != nil || !l.layout.ValidRun(p, first, r.Count) {
		return false
	}
	if l.c == nil { // p2p queues; a pool does not ask before the link is up
		return false
	}
	s := l.streamFor(r.Piece)
	a := &ask{PieceRequest: r, on: s, owed: l.layout.RunSpan(p, first, r.Count).Len}
	l.asks[r.ID] = a
	l.peak = max(l.peak, len(l.asks))
	s.pieces[r.Piece]++
	s.owed += a.owed
	if len(s.sent) == 0 {
		s.heard = l.x.net.Elapsed()
		s.time()
	}
	s.sent = append(s.sent, a)
	l.c.ways[l.c.side(l.x)].control(func() { s.receive(a) })
	return true
}

// streamFor is p2p's choice: the stream with requests for the piece, or the one that owes least.
func (l *link) streamFor(piece share.Piece) *stream {
	on := l.streams[0]
	for _, s := range l.streams {
		if s.pieces[piece] > 0 {
			return s
		}
		if s.owed < on.owed {
			on = s
		}
	}
	return on
}

// Cancel implements actors.Link.
func (l *link) Cancel(req uint64) {
	a := l.asks[req]
	if a == nil || a.cancelled || l.closed {
		return
	}
	a.cancelled = true
	l.c.ways[l.c.side(l.x)].control(func() { a.stop = true })
}

// time gives the link up when a source that owes bytes sends none.
func (s *stream) time() {
	if s.timing {
		return
	}
	s.timing = true
	n := s.l.x.net
	n.After(max(0, s.heard+replyTimeout-n.Elapsed()), func() {
		s.timing = false
		switch {
		case s.l.closed || len(s.sent) == 0 || s.l.x.life != s.l.life:
		case n.Elapsed() >= s.heard+replyTimeout:
			s.l.down(fmt.Errorf("%s: no byte of a reply for %v: %w", s.l.to.Short(), replyTimeout, peers.ErrLost))
		default:
			s.time()
		}
	})
}

// ---- at the source ----

// broken implements user: the child is gone, or has reset its streams.
func (s *stream) broken(error) {
	s.queue = nil
	s.flow.Drop()
	if a := s.now; a != nil {
		a.stop = true
		s.done(a)
		s.now = nil
		s.y.net.After(0, s.y.drained) // that may have been the last reply of a node that leaves
	}
	s.life = -1
}

// live says whether the source's end is still open.
func (s *stream) live() bool {
	return s.life == s.y.life && s.y.program != nil && s.l.c.believes(s.y)
}

// done gives the slot of a request back.
func (s *stream) done(a *ask) {
	if a.held {
		a.held = false
		s.y.program.Served(a.job, a.sent)
	}
}

func (s *stream) receive(a *ask) {
	if !s.live() || s.y.acts.mute(s.y) {
		return
	}
	s.queue = append(s.queue, a)
	s.answer()
}

// answer begins the next request.
func (s *stream) answer() {
	if s.now != nil || len(s.queue) == 0 || s.y.state == leaving {
		s.y.drained()
		return
	}
	a := s.queue[0]
	s.queue = s.queue[1:]
	s.now = a
	if a.stop {
		s.refuse(a, wire.Reply{})
		return
	}
	p := a.Piece
	size, r := s.y.offers.Check(s.l.share, p, a.First, a.Count)
	if r.Status != wire.OK {
		s.refuse(a, r)
		return
	}
	a.size = size
	s.admit(a, size, func() { s.prove(a) })
}

// admit asks the Seeder for a turn, and continues with then when it comes.
func (s *stream) admit(a *ask, size int, then func()) {
	p, life := a.Piece, s.y.life
	s.y.program.Request(actors.AdmitRequest{Child: s.l.x.id, Share: s.l.share, Piece: p, Bytes: size, Pressed: a.Pressed, Reply: func(d actors.Admission) {
		a.job, a.held = d.Job, d.Reply.Status == wire.OK
		gone := !s.live() || s.now != a
		if (gone || a.stop) && a.held && s.y.program != nil && s.y.life == life {
			s.y.program.Parked(a.job, size) // none of it goes out
			s.done(a)
		}
		switch {
		case gone:
		case d.Reply.Status != wire.OK:
			s.refuse(a, d.Reply)
		case a.stop:
			s.refuse(a, wire.Reply{})
		default:
			then()
		}
	}})
}

// full says whether the asker accepts no more bytes. One that never reads has a window.
func (s *stream) full(bytes int) bool { return s.l.x.acts.Deaf && s.taken+bytes > window }

// stall handles a reply that is not accepted: its turn goes to others, and in
// the end the stream is reset.
func (s *stream) stall(a *ask, left int) {
	n := s.l.x.net
	still := func() bool { return s.live() && s.now == a }
	n.After(parkTimeout, func() {
		if still() && a.held {
			s.y.program.Parked(a.job, left)
		}
	})
	n.After(stallTimeout, func() {
		if still() && !s.l.closed {
			s.l.down(fmt.Errorf("%s: the stream was reset: %w", s.l.to.Short(), peers.ErrLost))
		}
	})
}

// refuse ends a reply with a status; with OK when the asker cancelled it.
func (s *stream) refuse(a *ask, r wire.Reply) {
	s.done(a)
	s.now = nil
	s.back(minParcel, func() { s.ended(a, r) })
	s.answer()
}

// back sends something to the asker, after what was sent before.
func (s *stream) back(size int, arrive func()) {
	w := s.l.c.ways[s.l.c.side(s.y)]
	s.flow.Send(size, func() {
		s.y.count(s.l.x, size)
		w.launch(travel{size, false, func() {
			if !s.l.closed {
				arrive()
			}
		}})
	})
}

func (s *stream) prove(a *ask) {
	if a.Proof {
		values, r := s.y.blocks(s.l.x.id).Proof(s.l.share, a.Piece)
		if r.Status != wire.OK {
			s.refuse(a, r)
			return
		}
		values = slices.Clone(values)
		s.back(minParcel+32*len(values), func() {
			s.heard = s.l.x.net.Elapsed()
			if !a.cancelled {
				s.l.sink.Proof(a.ID, values)
			}
		})
	}
	s.runs(a, a.First, a.Count, a.size)
}

// runs sends the blocks run by run.
func (s *stream) runs(a *ask, first share.Block, left, size int) {
	n := min(left, runBlocks)
	bytes := min(size, n*share.BlockSize)
	if s.full(bytes) {
		s.stall(a, size)
		return
	}
	s.taken += bytes
	data := s.l.x.net.buffer(bytes)
	if _, r := s.y.blocks(s.l.x.id).ReadRun(s.l.share, a.Piece, first, n, data); r.Status != wire.OK {
		s.refuse(a, r)
		return
	}
	step := s.l.c.ways[s.l.c.side(s.y)].step(s.flow.Pace)
	for off := 0; off < bytes; off += step {
		part := min(step, bytes-off)
		last := off+part == bytes
		w := s.l.c.ways[s.l.c.side(s.y)]
		s.flow.Send(part, func() {
			s.y.count(s.l.x, part)
			w.launch(travel{part, false, func() {
				if !s.l.closed {
					s.arrived(a, first, data, part, last)
				}
			}})
			a.sent += part
			if last && s.live() && s.now == a {
				s.next(a, first+share.Block(n), left-n, size-bytes)
			}
		})
	}
}

// next continues after a run has left.
func (s *stream) next(a *ask, first share.Block, left, size int) {
	switch {
	case left == 0:
		s.done(a)
		s.now = nil
		s.back(0, func() { s.ended(a, wire.Reply{}) })
		s.answer()
	case a.stop:
		s.refuse(a, wire.Reply{})
	default:
		s.runs(a, first, left, size)
	}
}

// ---- back at the asker ----

// arrived is told of n more bytes of a run.
func (s *stream) arrived(a *ask, first share.Block, run []byte, n int, last bool) {
	now := s.l.x.net.Elapsed()
	s.heard = now
	if a.came == 0 {
		a.told = now
	}
	a.came += n
	a.untold += n
	a.owed -= n
	s.owed -= n
	switch {
	case last:
		a.came, a.untold = 0, 0
		if a.cancelled {
			s.l.x.net.wasted(s.l.x, len(run))
			s.l.x.net.free(run)
			return
		}
		s.l.x.net.passed(run)
		s.l.sink.Blocks(a.ID, first, run, func() { s.l.x.net.free(run) })
	case now-a.told >= progressEvery && !a.cancelled:
		a.told = now
		s.l.sink.Progress(a.ID, a.untold)
		a.untold = 0
	}
}

// ended handles the end of a reply.
func (s *stream) ended(a *ask, r wire.Reply) {
	s.heard = s.l.x.net.Elapsed()
	s.sent = slices.DeleteFunc(s.sent, func(x *ask) bool { return x == a })
	delete(s.l.asks, a.ID)
	if s.pieces[a.Piece]--; s.pieces[a.Piece] == 0 {
		delete(s.pieces, a.Piece)
	}
	s.owed -= a.owed
	switch {
	case a.cancelled:
	case r.Status != wire.OK:
		s.l.sink.Status(a.ID, r)
	default:
		s.l.sink.Finished(a.ID)
	}
}
