package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/piecelease/fetcher/internal/times"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// This file is what a Member does about leases: those of the lease manager of its
// node, and those of the fleet.

// question is a question to the lease manager, which answers in order: from a pool for
// leases, or from anybody for the plan.
type question struct {
	from Port
	src  *origin // nil: for the plan, or for a source inside the fleet
	max  int
}

// ask passes a question on to the lease manager.
func (m *Member) ask(q question) {
	m.asked = append(m.asked, q)
	m.then(Question{})
}

// answered is the question that the lease manager has answered.
func (m *Member) answered() (q question) {
	if len(m.asked) > 0 {
		q, m.asked = m.asked[0], m.asked[1:]
	}
	return q
}

// Request is told that a pool asks for up to max leases of a source, of which it
// measured rate, in bytes per second, 0 if it has not, and the round trip.
func (m *Member) Request(from Port, source peers.ID, max int, rate float64, trip time.Duration, now time.Time) {
	m.now = now
	src := m.byID[source]
	if src != nil && rate > 0 {
		src.rate, src.trip = rate, trip
	}
	m.ask(question{from, src, max})
}

// Granted is told what the lease manager answered to a Request. It returns the pool that
// gets the answer, and the refusal for it. It asks for more if there were too few leases.
func (m *Member) Granted(leases []leasemgr.Lease, no leasemgr.Refusal, now time.Time) (Port, leasemgr.Refusal) {
	m.now = now
	q := m.answered()
	src := q.src
	if src == nil { // inside the fleet
		return q.from, no
	}
	for _, l := range leases {
		h := src.held[l.Piece]
		if h == nil && m.alone {
			h = &hold{}
			src.held[l.Piece] = h
		}
		if h != nil {
			h.lease = l.Token
		}
	}
	src.want = 0
	switch no.Reason {
	case leasemgr.NoneHere, leasemgr.AllLeased, leasemgr.Spared: // it gave pieces to others, and may have more
		src.want = q.max - len(leases)
		if !m.alone {
			no.Fleet = m.refusal(src)
		}
	}
	return q.from, no
}

// Progress is told that n bytes came in under a lease; 0 means that nothing did, and that the source is not to blame.
func (m *Member) Progress(source peers.ID, p share.Piece, lease share.Token, n int, now time.Time) {
	m.now = now
	m.then(Forward{})
	src := m.byID[source]
	if src == nil {
		return
	}
	if h := src.held[p]; h != nil && h.lease == lease {
		h.bytes += n
		h.alive = true
		if m.seat.state == seated {
			within(&m.news.bytesAt, now, gatherBytes)
		}
		if n > 0 {
			m.alive(src, lease)
		}
	}
}

// Busy is told that a source asks us to come again later, or that this node itself holds it up.
func (m *Member) Busy(source peers.ID, now time.Time) {
	m.now = now
	m.then(Forward{})
	if src := m.byID[source]; src != nil {
		m.alive(src, 0)
	}
}

// alive notes that a source outside sent bytes under a lease, or 0: that it is busy. What is leased from it is leased to nobody else, whatever the
// other members have. So if no other is outside, nobody could be asked in its place, and to cancel requests that wait in its queue
// would only cost the fleet what it has begun to send: no lease is late then, in whatever order it answers. The first
// lease in the queue of the coordinator, and the first in that of the lease manager, stand for those behind them. The pool gives back
// what it waits for in vain.
func (m *Member) alive(src *origin, lease share.Token) {
	if slices.ContainsFunc(m.order, func(o *origin) bool { return o != src && o.have != nil }) {
		return
	}
	var there *hold
	first := NotLate{Source: src.id}
	for p, h := range src.held {
		if h.token != 0 && (there == nil || h.token < there.token) {
			there = h
		}
		if h.lease != 0 && (first.Lease == 0 || h.lease < first.Lease) {
			first.Piece, first.Lease = p, h.lease
		}
	}
	if there != nil && m.seat.state == seated {
		there.alive = true
		within(&m.news.bytesAt, m.now, gatherBytes)
	}
	if first.Lease != lease {
		m.then(first)
	}
}

// Returned is told that a lease of a source has ended, and why.
func (m *Member) Returned(source peers.ID, p share.Piece, lease share.Token, why leasemgr.Reason, now time.Time) {
	m.now = now
	if f := m.fellows[source]; f != nil && (why == leasemgr.NotFound || why == leasemgr.BadData) {
		m.missed(f, source, p)
	}
	src := m.byID[source]
	if src == nil {
		return
	}
	if h := src.held[p]; h == nil || h.lease != lease {
		return // no longer valid
	}
	if why == leasemgr.NotFound && src.have != nil {
		src.have.Remove(p)
	}
	m.giveBack(src, []share.Piece{p}, why)
	delete(src.held, p)
}

// Verified is told that a piece is here.
func (m *Member) Verified(p share.Piece, now time.Time) {
	m.now = now
	m.then(Forward{})
	m.cfg.Mine.Add(p)
	leased := false
	for _, src := range m.order {
		h := src.held[p]
		if h == nil {
			continue
		}
		delete(src.held, p)
		if h.token != 0 && !leased {
			leased = true
			m.news.done = append(m.news.done, wire.PieceDone{Share: m.cfg.Share, Piece: p, Token: h.token})
		}
	}
	if !leased {
		m.news.more = append(m.news.more, p)
	}
	if m.seat.state != seated {
		m.news.done, m.news.more = nil, nil // the next HaveMap has it
		return
	}
	within(&m.news.tellAt, now, gatherDone)
}

// ---- leases of the fleet ----

// askAll asks for leases for each source that wants some and could get them.
func (m *Member) askAll() (next time.Time) {
	if m.seat.state != seated {
		return next
	}
	for _, src := range m.order {
		switch {
		case !src.asking.IsZero():
			if late := src.asking.Add(answerIn); late.After(m.now) {
				next = times.Earliest(next, late)
			} else {
				m.lost("it does not answer")
				return m.seat.retry
			}
		case src.want <= 0 || src.have == nil:
		case src.again.After(m.now):
			next = times.Earliest(next, src.again)
		default:
			m.lease(src, nil)
			next = times.Earliest(next, m.now.Add(answerIn))
		}
	}
	return next
}

// LeaseResponse is told what the coordinator leased. Pieces that it did not let us keep end.
func (m *Member) LeaseResponse(by peers.ID, r wire.LeaseResponse, now time.Time) {
	src := m.byID[r.Source]
	switch {
	case !m.hears(by, r.Share, now):
		return
	case m.stale[r.Source] > 0:
		if m.stale[r.Source]--; m.stale[r.Source] == 0 {
			delete(m.stale, r.Source)
		}
		return
	case src == nil || src.asking.IsZero():
		return
	}
	granted := map[share.Piece]bool{}
	var fresh []share.Piece
	var back []wire.Returned
	for _, l := range r.Leases {
		p, token := l.Piece, l.Token
		m.epoch, granted[l.Piece] = epochOf(token), true
		h := src.held[p]
		switch {
		case h != nil:
			h.token = token
		case src.have == nil || !src.have.Has(p) || !m.wants(p) || m.cfg.Mine.Has(p):
			back = append(back, wire.Returned{Piece: l.Piece, Token: l.Token, Reason: wire.Why(wire.CodeGaveBack)})
		default:
			src.held[p] = &hold{token: token}
			fresh = append(fresh, p)
		}
	}
	m.take(src, slices.DeleteFunc(src.keep, func(p share.Piece) bool { return granted[p] || src.held[p] == nil }))
	if len(back) > 0 { // pieces here that it has not been told of would be leased to us again at once
		m.tellAll(m.news.pieces(m.cfg.Share))
		m.tellSeat(wire.LeaseReturned{Share: m.cfg.Share, Source: src.id, Items: back})
	}
	if len(fresh) > 0 {
		m.then(AllowMore{src.id, fresh})
	}
	src.asking, src.keep, src.refused = time.Time{}, nil, r.Refused
	src.want = max(0, src.want-len(fresh))
	if r.Refused != (wire.Reason{}) {
		src.again = now.Add(cmp.Or(r.Until, askAnyway))
	}
}

// LeasesAvailable is told that asking again may now succeed.
func (m *Member) LeasesAvailable(by peers.ID, a wire.LeasesAvailable, now time.Time) {
	if src := m.byID[a.Source]; src != nil && m.hears(by, a.Share, now) {
		src.again, src.refused = time.Time{}, wire.Reason{}
	}
}

// LeaseRevoked is told leases that the coordinator took back.
func (m *Member) LeaseRevoked(by peers.ID, r wire.LeaseRevoked, now time.Time) {
	src := m.byID[r.Source]
	if src == nil || !m.hears(by, r.Share, now) {
		return
	}
	var gone []share.Piece
	for _, i := range r.Items {
		if h := src.held[i.Piece]; h != nil && h.token == i.Token {
			gone = append(gone, i.Piece)
		}
	}
	m.take(src, gone)
}

// ---- for people ----

// Planned is told that the lease manager has answered a PlanQuery. It returns who gets the
// answer, the state of the fleet, and what keeps this node from leasing, if anything does: that
// does not change as time passes.
func (m *Member) Planned(now time.Time) (to Port, line, stuck string) {
	m.now = now
	line, stuck = m.status()
	return m.answered().from, line, stuck
}

// Barred is why the coordinator does not admit this node; "" if it does, or has not said.
func (m *Member) Barred() string {
	if m.seat.barred {
		return m.seat.why
	}
	return ""
}

func (m *Member) status() (line, stuck string) {
	name := "coordinator"
	if m.cfg.Coordinator != "" {
		name += " " + m.cfg.Coordinator.Short()
	}
	if m.seat.state != seated {
		line = fmt.Sprintf("%s: not joined for %s: %s", name, words.Duration(m.now.Sub(m.seat.since)), m.seat.why)
		switch {
		case m.alone:
			return line + "; this node goes on alone", ""
		case !m.stop.IsZero():
			line += fmt.Sprintf("; this node goes on for %s with the pieces that are leased", words.Duration(m.stop.Sub(m.now)))
		}
		if m.seat.state == away && m.cfg.Coordinator != "" {
			line += "; trying again in " + words.Duration(m.seat.retry.Sub(m.now))
		}
		return line, name + ": not joined: " + m.seat.why
	}
	held, waiting, why := 0, 0, ""
	for _, src := range m.order {
		held += len(src.held)
		if src.want > 0 && src.refused != (wire.Reason{}) {
			waiting++
			why = src.refused.String()
		}
	}
	line = fmt.Sprintf("%s: joined with %s; %s may be fetched from %s outside the fleet",
		name, words.Count(len(m.fellows), "other member"), words.Count(held, "piece"), words.Count(len(m.order), "source"))
	if m.alone {
		return line + "; this node goes on alone, because nothing comes", ""
	}
	if waiting > 0 {
		line += "; no more leases for " + words.Count(waiting, "source")
		if waiting > 1 {
			line += "; the reason for one of them"
		}
		line += ": " + why
	}
	if held == 0 && waiting > 0 && waiting == len(m.order) {
		stuck = line
	}
	return line, stuck
}
