package fleet

import (
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// This file is what members tell a Coordinator about their pieces and their sources.

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

// Have is told new pieces of a member.
func (c *Coordinator) Have(by From, id share.ID, pieces []share.Piece, now time.Time) {
	if mb := c.member(by, id, now); mb != nil {
		for _, p := range pieces {
			c.gain(mb, p)
		}
	}
}

// PieceDone is told that a leased piece is done. A member that says so with a token of none of its leases has the piece all
// the same: that counts as Have does, and credits no lease.
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

// SourceHasMore is told new pieces of a member's source.
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

// outlet returns the outlet that a member's message is about.
func (c *Coordinator) outlet(by From, id share.ID, source peers.ID, now time.Time) *outlet {
	if mb := c.member(by, id, now); mb != nil {
		return c.outlets[outletID(mb.peer, source)]
	}
	return nil
}
