package fetchpool

import (
	"math"
	"slices"
)

// forget ends a request, however much of it has arrived.
func (p *Pool) forget(r *request) {
	l := r.lease
	p.inFlight -= r.Bytes - r.got
	delete(p.requests, r.ID)
	l.reqs = slices.DeleteFunc(l.reqs, func(x *request) bool { return x == r })
	if r.Proof && l.proof == asked {
		l.proof = unasked
	}
	p.todo.Ended = append(p.todo.Ended, r.Request)
}

func (p *Pool) cancel(r *request) {
	p.forget(r)
	p.todo.Cancel = append(p.todo.Cancel, r.ID)
}

// settle ends a lease that has nothing left to ask for or to wait for.
func (p *Pool) settle(l *lease) {
	if !l.over && len(l.reqs) == 0 && l.todo.Empty() {
		p.drop(l, false)
	}
}

// drop ends a lease and its requests. If nothing is left to wait for then, the silence goes on with
// the next request, but for a round trip: no answer could have come before.
func (p *Pool) drop(l *lease, cancel bool) {
	if cancel && len(l.reqs) > 0 && len(l.reqs) == len(p.requests) {
		p.mute, p.idle = max(0, p.now.Sub(p.heard)-p.win.rtt), p.now
	}
	for len(l.reqs) > 0 {
		if r := l.reqs[0]; cancel {
			p.cancel(r)
		} else {
			p.forget(r)
		}
	}
	l.prev.next, l.next.prev = l.next, l.prev
	delete(p.leases, l.Piece)
	p.ahead -= l.bytes
	l.over = true
}

// dropAll returns every lease; those with requests in flight for one reason, the others for another.
func (p *Pool) dropAll(busy, others Reason) {
	for p.list.next != &p.list {
		l := p.list.next
		why := others
		if len(l.reqs) > 0 {
			why = busy
		}
		p.drop(l, false)
		p.giveBack(l.Work, why)
	}
	p.queue = nil
}

// returnAll gives back every lease, and withdraws what was asked for.
func (p *Pool) returnAll(why Reason) {
	for p.list.next != &p.list {
		l := p.list.next
		p.drop(l, true)
		p.giveBack(l.Work, why)
	}
}

// trim gives back leases beyond those that the source can begin soon, because it turned
// out slower or is busy.
func (p *Pool) trim() {
	if p.now.Before(p.pause) && p.wait > p.cfg.HoldBusy {
		p.returnIdle(0, SourceBusy)
	}
	if enough := p.size() + int(p.piece); p.ahead > 4*enough {
		p.returnIdle(enough, Unneeded)
	}
}

// returnIdle gives back leases that were not begun, the newest first, as long as at
// least keep bytes are still to be asked for: a single lease may be more than that,
// and would come back at once.
func (p *Pool) returnIdle(keep int, why Reason) {
	for l := p.list.prev; l != &p.list; {
		prev := l.prev
		if len(l.reqs) == 0 && p.ahead-l.bytes >= keep {
			p.drop(l, false)
			p.giveBack(l.Work, why)
		}
		l = prev
	}
}

// want is how many more pieces keep the window filled with another one waiting.
func (p *Pool) want() int {
	held, size := p.inFlight+p.ahead, p.size()
	switch {
	case p.state != Ready || p.now.Before(p.pause):
		return 0
	case p.refused && (p.askAt.IsZero() || p.now.Before(p.askAt)):
		return 0
	case held >= size+size/2:
		return 0
	}
	n := math.Ceil(float64(2*size-held) / p.piece)
	return max(min(int(min(n, math.MaxInt32)), 2*p.pipeline-len(p.leases), p.cfg.MaxLeases-len(p.leases)), 0)
}
