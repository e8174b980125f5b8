package p2p

import (
	"context"
	"sync"
	"time"

	"github.com/piecelease/fetcher/share"
)

// A further source is worth its connection only while this machine has time for it: where many
// nodes share a few cores, dials, connections and what is said on them take the time of the
// bytes. So a share has enoughLinks at once, and beyond these the peers that others
// named, connected or not, are fetched from one by one: between two of them passes lateFactor times the time by which
// this machine is late with its work, at most longestPace. A machine with time to spare is not late.
const (
	enoughLinks = 4
	lateFactor  = 128
	longestPace = 5 * time.Second
	paceTick    = time.Millisecond     // how late a timer of this time is shows how late the machine is
	notLate     = 2 * time.Millisecond // what timers are late by anyway
	paceReason  = "waits: this machine is busy, and fetches this share from other sources"
)

// pace holds back the dials of peers that others named while the machine is busy. The zero value is ready.
type pace struct {
	mu   sync.Mutex
	late time.Duration
	each map[share.ID]*paced
}

// paced is the links of one share. Its fields are guarded by pace.mu.
type paced struct {
	links, waiting int
	turn           chan struct{} // holds the one whose turn is next
	left           chan struct{} // a link has ended
}

// begin counts a link of a share, if it may be made at once.
func (p *pace) begin(id share.ID, must bool) (x *paced, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.each == nil {
		p.each = map[share.ID]*paced{}
	}
	if x = p.each[id]; x == nil {
		x = &paced{turn: make(chan struct{}, 1), left: make(chan struct{}, 1)}
		p.each[id] = x
	}
	if ok = must || x.links < enoughLinks; ok {
		x.links++
	} else {
		x.waiting++
	}
	return x, ok
}

// end takes back what begin or wait counted.
func (p *pace) end(id share.ID, x *paced) {
	p.mu.Lock()
	x.links--
	p.forget(id, x)
	p.mu.Unlock()
	signal(x.left)
}

// forget drops the record of a share without links. p.mu is held.
func (p *pace) forget(id share.ID, x *paced) {
	if x.links+x.waiting == 0 {
		delete(p.each, id)
	}
}

// wait waits until a link that begin did not count may be made, and counts it. The error is
// the cause of ctx; then there is nothing to end.
func (p *pace) wait(ctx context.Context, id share.ID, x *paced) (err error) {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if x.waiting--; err == nil {
			x.links++
		}
		p.forget(id, x)
	}()
	select {
	case x.turn <- struct{}{}:
		defer func() { <-x.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if p.room(x) {
		return nil
	}
	pause := paceTick + p.pause()
	began := time.Now()
	due := time.NewTimer(pause)
	defer due.Stop()
	for {
		select {
		case <-due.C:
			p.saw(time.Since(began) - pause)
			return nil
		case <-x.left:
			if p.room(x) {
				return nil
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// room reports whether a share has room for a link without a wait.
func (p *pace) room(x *paced) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return x.links < enoughLinks
}

// saw notes how late a timer was. However long the machine slept, it is soon awake again.
func (p *pace) saw(late time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late = min(max(late-notLate, p.late/2), longestPace/lateFactor)
}

// pause is the time between two dials.
func (p *pace) pause() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return min(lateFactor*p.late, longestPace)
}
