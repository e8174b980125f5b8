package fetchpool

import (
	"slices"
	"time"

	"github.com/piecelease/fetcher/internal/times"
	"github.com/piecelease/fetcher/share"
)

// Grant gives the pool leases. Those it cannot use come back at once; one for a piece
// that is held already replaces the older lease, whose requests are cancelled.
func (p *Pool) Grant(work []Work, now time.Time) {
	if len(work) > 0 {
		p.refused, p.refusal = false, ""
	}
	p.GrantLate(work, now)
}

// GrantLate is Grant of leases that came with an answer whose end is known: what it refused stands.
func (p *Pool) GrantLate(work []Work, now time.Time) {
	p.now = now
	for _, w := range work {
		p.grant(w)
	}
}

func (p *Pool) grant(w Work) {
	if l := p.leases[w.Piece]; l != nil {
		if w.Token <= l.Token {
			p.giveBack(w, Unneeded)
			return
		}
		p.drop(l, true)
	}
	switch {
	case p.state == Gone:
		p.giveBack(w, Stopped)
		return
	case p.state != Ready:
		p.giveBack(w, LinkLost)
		return
	case !p.layout.Valid(w.Piece) || len(p.leases) >= p.cfg.MaxLeases || p.now.Before(p.absent[w.Piece]):
		p.giveBack(w, Unneeded)
		return
	}
	l := &lease{Work: w}
	n := p.layout.Blocks(w.Piece)
	for b := range n {
		if b >= len(w.Have) || !w.Have[b] {
			l.todo.Add(share.Block(b), 1)
			l.bytes += p.layout.BlockLen(w.Piece, share.Block(b))
		}
	}
	l.Have = nil
	p.piece += (float64(p.layout.PieceLen(w.Piece)) - p.piece) / pieceMemory
	if w.Proven || n == 1 {
		l.proof = known
	}
	if l.bytes == 0 {
		return // finished before it began: its last blocks are on their way to the disk
	}
	p.leases[w.Piece] = l
	l.prev, l.next = p.list.prev, &p.list
	l.prev.next, l.next.prev = l, l
	p.ahead += l.bytes
	p.enqueue(l)
}

// pieceMemory is the number of leases over which the size of a piece is averaged.
const pieceMemory = 8

func (p *Pool) enqueue(l *lease) {
	switch {
	case l.queued:
	case l.Urgent:
		p.queue = slices.Insert(p.queue, 0, l)
	default:
		p.queue = append(p.queue, l)
	}
	l.queued = true
}

// Hurry says that a lease has become urgent: it is asked for next.
func (p *Pool) Hurry(piece share.Piece, token share.Token, now time.Time) {
	p.now = now
	l := p.leases[piece]
	if l == nil || l.Token != token {
		return
	}
	l.Urgent = true
	if l.queued {
		p.queue = slices.DeleteFunc(p.queue, func(x *lease) bool { return x == l })
		l.queued = false
		p.enqueue(l)
	}
}

func (p *Pool) giveBack(w Work, why Reason) {
	p.todo.Return = append(p.todo.Return, Return{Work: w, Why: why})
}

// Refused says that there are no leases for this pool until a time, or if that is zero
// until Grant or Available. why is for people.
func (p *Pool) Refused(why string, until, now time.Time) {
	p.now = now
	p.refused, p.askAt, p.refusal = true, until, why
}

// Available says that there may be leases again.
func (p *Pool) Available(now time.Time) {
	p.now = now
	p.refused = false
}

// Announced says that the source now claims these pieces, or if there are none that it
// sent a whole have-map. An earlier NOT_FOUND is forgotten.
func (p *Pool) Announced(pieces []share.Piece, now time.Time) {
	p.now = now
	if len(pieces) == 0 {
		clear(p.absent)
	}
	for _, piece := range pieces {
		delete(p.absent, piece)
	}
	p.findAbsent()
	p.misses = 0
}

// Revoke takes a lease away: its requests are cancelled and it does not come
// back in Todo.Return. With another token than the lease's it changes nothing.
func (p *Pool) Revoke(piece share.Piece, token share.Token, now time.Time) {
	p.now = now
	if l := p.leases[piece]; l != nil && l.Token == token {
		p.drop(l, true)
	}
}

// Verified says that n blocks of a piece from first on are here, whoever sent them:
// they are no longer asked for, and a request that lacks nothing else is cancelled.
// It makes hedges cheap; without it they fetch a little more.
func (p *Pool) Verified(piece share.Piece, first share.Block, n int, now time.Time) {
	p.now = now
	l := p.leases[piece]
	if l == nil || !p.layout.ValidRun(piece, first, n) {
		return
	}
	for b := first; b < first+share.Block(n); b++ {
		if l.todo.Has(b) {
			p.unqueue(l, b, 1)
		}
	}
	for _, r := range slices.Clone(l.reqs) {
		if r.First >= first && int(r.First)+r.Count <= int(first)+n && r.got == 0 {
			p.cancel(r)
		}
	}
	p.settle(l)
}

// unqueue takes n blocks out of what is to be asked for.
func (p *Pool) unqueue(l *lease, first share.Block, n int) (bytes int) {
	l.todo.Remove(first, n)
	bytes = p.layout.RunSpan(l.Piece, first, n).Len
	l.bytes -= bytes
	p.ahead -= bytes
	return bytes
}

// ask sends what the window, the pipeline and the budget allow.
func (p *Pool) ask(take func(int) Permission) {
	p.count()
	p.starved, p.paced = false, false
	if p.state != Ready || p.now.Before(p.pause) {
		return
	}
	p.win.turn(p.now)
	size := p.request()
	for {
		l := p.head()
		if l == nil || len(p.requests) >= p.pipeline {
			if p.inFlight < p.win.limit() {
				p.win.lacked(p.inFlight)
			}
			return
		}
		first, count := l.run(size / share.BlockSize)
		bytes := p.layout.RunSpan(l.Piece, first, count).Len
		if p.inFlight+bytes > p.win.limit() {
			return
		}
		if may := take(bytes); may != Granted {
			p.starved, p.paced = may == NoMemory, may == TooSoon
			if p.win.lacked(p.inFlight); p.paced {
				p.win.slowed()
			}
			return
		}
		p.send(l, first, count)
	}
}

// count adds up how long the pool waited for the limit lately.
func (p *Pool) count() {
	if past := p.now.Sub(p.looked); !p.looked.IsZero() {
		if p.span += past; p.paced {
			p.waited += past
		}
	}
	if p.looked = p.now; p.span > time.Second {
		p.waited, p.span = time.Duration(float64(p.waited)*float64(time.Second)/float64(p.span)), time.Second
	}
}

// Paced says whether the limit is what holds the pool up, and not its source: most of the last second it waited for that.
func (p *Pool) Paced() bool { return p.most > 0 && p.waited > time.Second/2 }

// limitTime bounds one request, as time at the node's limit.
const limitTime = 50 * time.Millisecond

// request is the bytes to ask for in one request: whole blocks, and no more than the
// limit lets through in limitTime, so that all sources get their turn.
func (p *Pool) request() int {
	n := p.win.request()
	if p.most > 0 {
		n = min(n, max(int(p.most*limitTime.Seconds())/share.BlockSize, 1)*share.BlockSize)
	}
	return n
}

// size is the bytes that are worth asking for and leasing: the window, or what the
// node's limit lets through in half a second.
func (p *Pool) size() int {
	if p.most > 0 {
		return min(p.win.size, max(int(p.most/2), p.cfg.MinWindow))
	}
	return p.win.size
}

// head is the lease whose turn it is.
func (p *Pool) head() *lease {
	for len(p.queue) > 0 {
		l := p.queue[0]
		if !l.over && !l.todo.Empty() {
			return l
		}
		l.queued = false
		p.queue[0] = nil
		if p.queue = p.queue[1:]; len(p.queue) == 0 {
			p.queue = nil
		}
	}
	return nil
}

func (p *Pool) send(l *lease, first share.Block, count int) {
	p.id++
	r := &request{
		Request: Request{ID: p.id, Piece: l.Piece, First: first, Count: count, Token: l.Token, Pressed: l.Pressed, Bytes: p.unqueue(l, first, count)},
		lease:   l,
		sent:    p.win.send(p.inFlight, p.now),
	}
	if l.proof == unasked {
		l.proof, r.Proof = asked, true
	}
	if len(p.requests) == 0 {
		if p.now.Sub(p.idle) > p.grace() {
			p.mute = 0 // how it was so long ago says nothing about now
		}
		p.heard, p.check = p.now.Add(-p.mute), time.Time{}
		if p.mute == 0 {
			p.pace = p.win.rate
		}
	}
	p.inFlight += r.Bytes
	if len(l.reqs) == 0 {
		l.deadline, l.guessed = p.now.Add(p.allowed(p.inFlight)), p.win.rate == 0
	}
	l.reqs = append(l.reqs, r)
	p.requests[r.ID] = r
	p.check = times.Earliest(p.check, l.deadline)
	p.check = times.Earliest(p.check, p.silentAt())
	p.todo.Requests = append(p.todo.Requests, r.Request)
}

// Arrived says that bytes of the blocks of a request came in, besides those reported
// before. The proof does not count.
func (p *Pool) Arrived(req uint64, bytes int, now time.Time) {
	p.now = now
	if r := p.requests[req]; r != nil {
		p.arrived(r, bytes)
	}
}

func (p *Pool) arrived(r *request, bytes int) {
	bytes = min(max(bytes, 0), r.Bytes-r.got)
	if bytes == 0 {
		return
	}
	told := min(r.early, bytes)
	r.early -= told
	p.win.arrived(r.sent, bytes, told, r.got == 0, p.now)
	r.got += bytes
	p.inFlight -= bytes
	if r.Proof {
		r.lease.proof = known // it comes before the blocks
	}
	p.reached()
	p.brought, p.barren = p.now, -1
	p.broke = 0
	p.alive(r.lease)
}

// Partial says that some bytes of an incomplete run came in. They extend deadlines,
// and show when the path has become slow; Arrived is told of them again.
func (p *Pool) Partial(req uint64, bytes int, now time.Time) {
	p.now = now
	if r := p.requests[req]; r != nil && bytes > 0 {
		r.early += bytes
		p.win.partial(r.sent, bytes, now)
		p.alive(r.lease)
	}
}

// Finished says that a request is over and all its blocks came in.
func (p *Pool) Finished(req uint64, now time.Time) {
	p.now = now
	r := p.requests[req]
	if r == nil {
		return
	}
	p.arrived(r, r.Bytes-r.got)
	p.win.finished(r.sent, r.Bytes, now)
	p.busy.reset()
	p.misses = 0
	if p.credit++; p.credit >= p.pipeline && p.pipeline < p.cfg.MaxRequests {
		p.pipeline++
		p.credit = 0
	}
	p.forget(r)
	p.settle(r.lease)
}

// Failed says that a request is over without all of its blocks. retry is how
// long a Busy source asks us to wait; 0 leaves it to the back-off. With Elsewhere it
// is for the piece alone: its lease comes back, and the pool goes on with others.
func (p *Pool) Failed(req uint64, how Outcome, retry time.Duration, now time.Time) {
	p.now = now
	r := p.requests[req]
	if r == nil {
		return
	}
	p.hear()
	switch how {
	case Busy:
		p.putBack(r)
		p.rest(retry)
	case Elsewhere:
		p.givenAway(r, retry)
	case NotFound:
		p.notFound(r.lease)
	case NoShare:
		p.end("the source no longer has the share")
	case Refused:
		p.end("the source refuses to serve this node")
	}
}

// givenAway ends a lease whose piece the source has just given to others.
func (p *Pool) givenAway(r *request, retry time.Duration) {
	l := r.lease
	p.forget(r)
	p.drop(l, true)
	p.todo.Return = append(p.todo.Return, Return{l.Work, GivenToOthers, retry})
}

// putBack ends a request whose blocks, except those that came, are to be asked for again.
func (p *Pool) putBack(r *request) {
	l := r.lease
	p.forget(r)
	for b := r.First + share.Block(r.came()); b < r.First+share.Block(r.Count); b++ {
		n := p.layout.BlockLen(l.Piece, b)
		l.todo.Add(b, 1)
		l.bytes += n
		p.ahead += n
	}
	p.enqueue(l)
	p.settle(l)
}

// rest waits for a busy source and asks it for less at a time.
func (p *Pool) rest(retry time.Duration) {
	if p.now.Before(p.pause) {
		return // reported already
	}
	p.wait = p.busy.next(p.rng)
	if retry > 0 {
		p.wait = min(max(retry, 50*time.Millisecond), p.cfg.RedialMax)
	}
	p.pause = p.now.Add(p.wait)
	p.pipeline, p.credit = max((len(p.requests)+1)/2, 1), 0
}

const (
	manyMisses = 8    // NOT_FOUND in a row after which the source rests
	maxAbsent  = 4096 // pieces remembered as not there
)

func (p *Pool) notFound(l *lease) {
	if len(p.absent) >= maxAbsent { // they are believed to be there again at once
		for piece := range p.absent {
			p.absent[piece] = p.now
		}
	}
	p.absent[l.Piece] = p.now.Add(p.cfg.AbsentFor)
	p.findAbsent()
	w := l.Work
	p.drop(l, true)
	p.giveBack(w, NoSuchPiece)
	if p.misses++; p.misses >= manyMisses && !p.now.Before(p.pause) {
		p.wait = p.busy.next(p.rng)
		p.pause = p.now.Add(p.wait)
	}
}

// findAbsent works out when the next absent piece is believed to be there again.
func (p *Pool) findAbsent() {
	p.absentAt = time.Time{}
	for _, until := range p.absent {
		p.absentAt = times.Earliest(p.absentAt, until)
	}
}

// believe lists the pieces that were reported absent long ago, or before many others. The source announced
// them, and its announcements hold until it says otherwise.
func (p *Pool) believe() {
	if p.state != Ready || p.absentAt.IsZero() || p.now.Before(p.absentAt) {
		return
	}
	for piece, until := range p.absent {
		if !p.now.Before(until) {
			delete(p.absent, piece)
			p.todo.Believe = append(p.todo.Believe, piece)
		}
	}
	slices.Sort(p.todo.Believe)
	p.findAbsent()
}
