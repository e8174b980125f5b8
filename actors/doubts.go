package actors

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// A member is believed what it says it has, until another member could not get it
// there. Such a report concerns the reporter alone: it may then fetch the piece from
// outside, as it could anyhow, and nobody else may. So who says that nobody has
// anything makes no other member fetch anything twice.

// doubts are what one member could not get from others that say they have it.
type doubts struct {
	all     map[peers.ID]bool       // nothing can be had of these
	some    map[peers.ID]*share.Set // these pieces cannot
	trusted []uint16                // of each piece: the members that have it and are not doubted
	free    *share.Set              // pieces that some have, all of them doubted
}

func (d *doubts) about(id peers.ID, p share.Piece) bool {
	return d.all[id] || d.some[id] != nil && d.some[id].Has(p)
}

// judge says anew whether a piece that so many have is free.
func (d *doubts) judge(p share.Piece, copies uint16) {
	if copies > 0 && d.trusted[p] == 0 {
		d.free.Add(p)
	} else {
		d.free.Remove(p)
	}
}

// missing takes what a member could not get from one other, or from any.
func (c *coordinator) missing(ctx actor.Context, mb *member, m wire.SourceDown) {
	if len(m.Pieces) == 0 {
		c.doubtAll(ctx, mb, m.Source)
		return
	}
	about := []peers.ID{m.Source}
	if m.Source == "" {
		about = about[:0]
		for _, o := range c.order {
			about = append(about, o.peer)
		}
	}
	for _, id := range about {
		for _, p := range m.Pieces {
			c.doubt(ctx, mb, id, share.Piece(p))
		}
	}
}

// doubts are those of a member about a peer that may be one; nil: it may not.
func (c *coordinator) doubts(mb *member, about peers.ID) *doubts {
	if about == mb.peer || !c.allowed[about] {
		return nil
	}
	if mb.doubts == nil {
		c.doubters++
		mb.doubts = &doubts{map[peers.ID]bool{}, map[peers.ID]*share.Set{}, slices.Clone(c.copies), share.NewSet(mb.have.Len())}
	}
	return mb.doubts
}

// doubt notes that a member did not get a piece from another. That holds for as long
// as it is a member, whatever the other says later.
func (c *coordinator) doubt(ctx actor.Context, mb *member, about peers.ID, p share.Piece) {
	d := c.doubts(mb, about)
	if d == nil || d.about(about, p) {
		return
	}
	if d.some[about] == nil {
		d.some[about] = share.NewSet(mb.have.Len())
	}
	if d.some[about].Add(p) {
		c.distrust(ctx, d, about, p)
	}
}

// doubtAll notes that a member can get nothing from another.
func (c *coordinator) doubtAll(ctx actor.Context, mb *member, about peers.ID) {
	d := c.doubts(mb, about)
	if d == nil || d.all[about] {
		return
	}
	if of := c.members[about]; of != nil {
		for p := range of.have.All() {
			if !d.about(about, p) {
				c.distrust(ctx, d, about, p)
			}
		}
	}
	d.all[about] = true
}

func (c *coordinator) distrust(ctx actor.Context, d *doubts, about peers.ID, p share.Piece) {
	of := c.members[about]
	if of == nil || !of.have.Has(p) {
		return
	}
	if !of.doubted {
		of.doubted = true
		c.notify(about, MemberDoubted)
	}
	c.weigh(ctx, p, func() { d.trusted[p]-- })
}

// believe ends what a member doubts.
func (c *coordinator) believe(ctx actor.Context, mb *member) {
	d := mb.doubts
	if d == nil {
		return
	}
	for p := range d.free.Clone().All() {
		c.weigh(ctx, p, func() { d.trusted[p]++ })
	}
	mb.doubts = nil
	c.doubters--
}

// claim notes that a member has a piece now, or has it no more, and under which lease
// it came if that is known.
func (c *coordinator) claim(ctx actor.Context, mb *member, p share.Piece, has bool, tokens ...share.Token) {
	n := uint16(1)
	if !has {
		n = ^uint16(0)
	}
	c.weigh(ctx, p, func() {
		c.copies[p] += n
		for _, o := range c.doubting() {
			if !o.doubts.about(mb.peer, p) {
				o.doubts.trusted[p] += n
			}
		}
	}, tokens...)
}

// weigh changes who has a piece, or whom somebody doubts. What a member has is leased
// to nobody, and what all that have it are doubted to have to those who doubt them.
func (c *coordinator) weigh(ctx actor.Context, p share.Piece, change func(), tokens ...share.Token) {
	was := c.fetchers(p)
	change()
	for _, mb := range c.doubting() {
		mb.doubts.judge(p, c.copies[p])
	}
	is := c.fetchers(p)
	if c.copies[p] > 0 && is == nil {
		c.do(ctx, c.m.Verified(p, c.s.Now(), tokens...))
	}
	for _, mb := range c.order {
		if before, now := was == nil || was[mb.peer], is == nil || is[mb.peer]; before != now {
			c.lend(ctx, mb, p, now)
		}
	}
	if c.copies[p] == 0 || is != nil {
		c.do(ctx, c.m.Unverified(p, c.s.Now()))
	}
}

// lend lets a member fetch a piece from its sources that have it, or no longer.
func (c *coordinator) lend(ctx actor.Context, mb *member, p share.Piece, may bool) {
	for _, o := range mb.outlets {
		switch one := []share.Piece{p}; {
		case !o.has.Has(p):
		case may:
			c.do(ctx, c.m.Have(o.id, one, c.s.Now()))
		default:
			c.do(ctx, c.m.HaveNot(o.id, one, c.s.Now()))
		}
	}
}

// doubting are the members that doubt others.
func (c *coordinator) doubting() (out []*member) {
	if c.doubters == 0 {
		return nil
	}
	for _, mb := range c.order {
		if mb.doubts != nil {
			out = append(out, mb)
		}
	}
	return out
}

// fetchers are the members for which a piece is free; nil: it is for none, and all
// may fetch it, once it is wanted.
func (c *coordinator) fetchers(p share.Piece) (out map[peers.ID]bool) {
	for _, mb := range c.doubting() {
		if mb.doubts.free.Has(p) {
			if out == nil {
				out = map[peers.ID]bool{}
			}
			out[mb.peer] = true
		}
	}
	return out
}

// may is what a member may fetch of pieces if they are wanted.
func (c *coordinator) may(mb *member, pieces *share.Set) *share.Set {
	if c.doubters == 0 {
		return pieces
	}
	others := share.NewSet(pieces.Len())
	for _, o := range c.doubting() {
		others.Union(o.doubts.free)
	}
	if mb.doubts != nil {
		others = others.Minus(mb.doubts.free)
	}
	return pieces.Minus(others)
}
