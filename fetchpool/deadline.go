package fetchpool

import (
	"time"

	"github.com/piecelease/fetcher/internal/times"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
)

// longest is the most bytes that may come without a sign in between: one run of the wire.
const longest = 4 * share.BlockSize

// latest bounds a deadline that was set before the source was measured, and is set again.
const latest = time.Minute

// grace is how long nothing at all may come. A source gets twice the time after
// each link that gave nothing, up to eight times: its next block may really take
// that long, and what was measured may be of better times.
func (p *Pool) grace() time.Duration {
	return p.cfg.Patience.Of(p.win.rate > 0, p.win.rtt) << min(p.redial.failed, 3)
}

// allowed is the time for bytes to come in: the grace, and twice what they take
// at the measured rate, so that a source may slow down to half before it is late.
func (p *Pool) allowed(bytes int) time.Duration { return p.grace() + p.takes(bytes, p.win.rate) }

// takes is twice the time for bytes at a rate, none if it is not known.
func (p *Pool) takes(bytes int, rate float64) time.Duration {
	if rate == 0 {
		return 0
	}
	return time.Duration(min(2*float64(bytes)/rate, 3600) * float64(time.Second))
}

// silentAt is when the source is taken for dead, unless it says something before. What
// counts is how it was when it was heard last: a source that has stopped is not slow.
func (p *Pool) silentAt() time.Time {
	return p.heard.Add(p.grace() + max(p.takes(min(p.inFlight, longest), p.pace), 2*p.gap))
}

// hear notes a sign of life.
func (p *Pool) hear() {
	p.gap = max(p.gap-p.gap/8, p.now.Sub(p.heard))
	p.heard, p.pace, p.mute = p.now, p.win.rate, 0
}

// alive notes a sign of life in the reply to a request of l.
func (p *Pool) alive(l *lease) {
	p.hear()
	if d := p.now.Add(p.allowed(p.inFlight)); d.After(l.deadline) {
		l.deadline, l.guessed = d, false
	}
}

// overdue gives up what has taken too long. It looks at all leases, but only
// when the earliest deadline there was at the last look has passed.
func (p *Pool) overdue() {
	if p.state != Ready || len(p.requests) == 0 || p.now.Before(p.check) {
		return
	}
	if !p.now.Before(p.silentAt()) {
		p.lose("silent for "+words.Duration(p.now.Sub(p.heard)), MissedDeadline)
		return
	}
	p.check = p.silentAt()
	for l := p.list.next; l != &p.list; {
		next := l.next
		if len(l.reqs) > 0 {
			p.late(l)
		}
		l = next
	}
}

// late returns l if its deadline has passed, else notes when to look again.
func (p *Pool) late(l *lease) {
	if !p.now.Before(l.deadline) && l.guessed {
		p.guessAgain(l)
	}
	if p.now.Before(l.deadline) {
		p.check = times.Earliest(p.check, l.deadline)
		return
	}
	w := l.Work
	p.win.late(l.reqs[0].sent, p.now)
	p.drop(l, true)
	p.giveBack(w, MissedDeadline)
	if len(p.requests) == 0 {
		p.mute = p.now.Sub(p.heard)
	}
}

// guessAgain sets a deadline anew that was set when nothing was known: bytes
// that were asked for before those of l have come since, and perhaps a rate.
func (p *Pool) guessAgain(l *lease) {
	if p.win.rate > 0 {
		l.deadline, l.guessed = p.now.Add(min(p.allowed(p.inFlight), latest)), false
	} else {
		l.deadline = times.Earliest(p.heard.Add(p.grace()), l.reqs[0].sent.at.Add(latest))
	}
}
