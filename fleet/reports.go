package fleet

import (
	"time"

	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// This file is what members tell a Coordinator of what they have, of their sources and
// of their leases.

// HaveMap is told all the pieces that a member has. That makes it ready.
func (c *Coordinator) HaveMap(by From, id share.ID, pieces int, bits []byte, now time.Time) {
	mb := c.member(by, id, now)
	if mb == nil {
		return
	}
	set, err := share.ParseSet(mb.have.Len(), bits)
	if err != nil || pieces != mb.have.Len() {
		c.broken(mb)
		return
	}
	for p := range mb.have.Minus(set).All() {
		mb.have.Remove(p)
		c.claim(mb, p, false)
	}
	for p := range set.All() {
		c.gain(mb, p)
	}
	mb.ready = true
	c.back(mb.peer)
	c.unpark(mb)
}

// Have is told pieces that a member has come to have.
func (c *Coordinator) Have(by From, id share.ID, pieces []share.Piece, now time.Time) {
	if mb := c.member(by, id, now); mb != nil {
		for _, p := range pieces {
			c.gain(mb, p)
		}
	}
}

// PieceDone is told that a piece is done that was leased.
func (c *Coordinator) PieceDone(by From, m wire.PieceDone, now time.Time) {
	if mb := c.member(by, m.Share, now); mb != nil {
		c.gain(mb, m.Piece, m.Token)
	}
}

// SourceHas is told all that a source of a member has.
func (c *Coordinator) SourceHas(by From, m wire.SourceHas, now time.Time) {
	mb := c.member(by, m.Share, now)
	if mb == nil {
		return
	}
	set, err := share.ParseSet(mb.have.Len(), m.Bits)
	if err != nil || int(m.Pieces) != mb.have.Len() {
		c.broken(mb)
		return
	}
	if o := c.open(mb, m.Source); o != nil {
		o.has = set
		c.do(c.m.SetHave(o.id, c.claims.may(mb, set), c.now))
	}
}

// SourceHasMore is told pieces that a source of a member has come to have.
func (c *Coordinator) SourceHasMore(by From, m wire.SourceHasMore, now time.Time) {
	o := c.outlet(by, m.Share, m.Source, now)
	if o == nil {
		return
	}
	var pieces []share.Piece
	for _, p := range m.Pieces {
		if only := c.claims.fetchers(p); o.has.Add(p) && (only == nil || only[o.of]) {
			pieces = append(pieces, p)
		}
	}
	c.do(c.m.Have(o.id, pieces, c.now))
}

// SourceDown is told that a member no longer fetches from a source, or could not get
// pieces from another member.
func (c *Coordinator) SourceDown(by From, m wire.SourceDown, now time.Time) {
	mb := c.member(by, m.Share, now)
	switch {
	case mb == nil:
	case m.Member:
		c.missing(mb, m)
	case c.outlets[outletID(mb.peer, m.Source)] != nil:
		c.close(c.outlets[outletID(mb.peer, m.Source)])
	}
}

// outlet is the one that a message of a member is about.
func (c *Coordinator) outlet(by From, id share.ID, source peers.ID, now time.Time) *outlet {
	if mb := c.member(by, id, now); mb != nil {
		return c.outlets[outletID(mb.peer, source)]
	}
	return nil
}

// ---- leases ----

// LeaseRequest is answered with one LeaseResponse, if a member asks.
func (c *Coordinator) LeaseRequest(by From, m wire.LeaseRequest, now time.Time) {
	mb := c.member(by, m.Share, now)
	if mb == nil {
		return
	}
	answer := wire.LeaseResponse{Share: m.Share, Source: m.Source}
	o := c.outlets[outletID(mb.peer, m.Source)]
	if o == nil { // it may have been introduced a moment ago
		answer.Refused, answer.Never = "this source is no source outside the fleet", true
		c.send(by.Reply, answer)
		return
	}
	if m.Rate > 0 {
		c.do(c.m.Measured(o.id, float64(m.Rate), m.RTT, now))
	}
	var leases []leasemgr.Lease
	for _, p := range m.Keep {
		if l, ok := c.m.Restore(o.id, p, now); ok {
			leases = append(leases, l)
		}
	}
	if why := c.waiting(mb); why != "" {
		o.parked = true
		answer.Refused = why
	} else {
		more, no := c.m.Acquire(o.id, int(min(m.Max, wire.MaxLeases-uint32(len(leases)))), now)
		leases = append(leases, more...)
		answer.Refused, answer.Never = no.String(), no.Never
		if !no.Until.IsZero() {
			answer.Until = max(no.Until.Sub(now), time.Millisecond)
		}
	}
	for _, l := range leases {
		answer.Leases = append(answer.Leases, wire.Lease{Piece: l.Piece, Token: l.Token, Expires: l.Expires.Sub(now), Hedge: l.Hedge, Begun: l.Begun})
	}
	c.send(by.Reply, answer)
}

// LeaseProgress is told what came in under leases of a source.
func (c *Coordinator) LeaseProgress(by From, m wire.LeaseProgress, now time.Time) {
	if o := c.outlet(by, m.Share, m.Source, now); o != nil {
		for _, i := range m.Items {
			c.do(c.m.Progress(o.id, i.Piece, i.Token, i.Bytes, now))
		}
	}
}

// LeaseReturned is told that a member gives leases of a source back.
func (c *Coordinator) LeaseReturned(by From, m wire.LeaseReturned, now time.Time) {
	if o := c.outlet(by, m.Share, m.Source, now); o != nil {
		for _, i := range m.Items {
			c.do(c.m.Fail(o.id, i.Piece, i.Token, leasemgr.ReasonNamed(i.Reason), now))
		}
	}
}
