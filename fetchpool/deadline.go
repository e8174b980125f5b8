package fetchpool

import (
	"time"

	"github.com/piecelease/fetcher/internal/times"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/share"
)

// longest is the most bytes that can come without a sign of life in between: one run on the wire.
const longest = 4 * share.BlockSize

// latest bounds a deadline that was set before the source was measured, and is to be set again.
const latest = time.Minute

// grace is how long a source may send nothing at all. It doubles after each link
// that gave nothing, up to eight times: the next block may really take that long,
// and the measurements may be from better times.
func (p *Pool) grace() time.Duration {
	return p.cfg.Patience.Of(p.win.rate > 0, p.win.rtt) << min(max(p.barren, 0), 3)
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

// silentAt is when the source is taken for dead, unless it gives a sign of life before.
// The rate when it was last heard counts: a source that has stopped is not slow.
func (p *Pool) silentAt() time.Time {
	return p.heard.Add(p.grace() + max(p.takes(min(p.inFlight, longest), p.pace), 2*p.gap))
}

// hear notes a sign of life.
func (p *Pool) hear() {
	p.gap = max(p.gap-p.gap/8, p.now.Sub(p.heard))
	p.heard, p.pace, p.mute = p.now, p.win.rate, 0
}

// alive notes a sign of life in the reply to a request of l. A source that sends what was asked
// for early has time to answer the subscription, which on a slow line comes behind it.
func (p *Pool) alive(l *lease) {
	p.hear()
	if p.early {
		p.until = p.now.Add(p.cfg.SubscribeFor)
	}
	if d := p.now.Add(p.allowed(p.inFlight)); d.After(l.deadline) {
		l.deadline, l.guessed = d, false
	}
}

// overdue gives up what has taken too long. It checks all leases, but only when
// the earliest deadline of the last check has passed.
func (p *Pool) overdue() {
	if p.state != Ready || len(p.requests) == 0 || p.now.Before(p.check) {
		return
	}
	if !p.now.Before(p.silentAt()) {
		p.lose("silent for "+words.Duration(p.now.Sub(p.heard)), MissedDeadline, true)
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

// late returns l if its deadline has passed, else notes when to check again.
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
}

// guessAgain resets a deadline that was set when nothing was known: since then bytes
// that were asked for before those of l have come, and perhaps the rate is known.
func (p *Pool) guessAgain(l *lease) {
	if p.win.rate > 0 {
		l.deadline, l.guessed = p.now.Add(min(p.allowed(p.inFlight), latest)), false
	} else {
		l.deadline = times.Earliest(p.heard.Add(p.grace()), l.reqs[0].sent.at.Add(latest))
	}
}
