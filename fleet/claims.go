package fleet

import (
	"slices"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// What a member says it has is believed until another member could not get it
// there. Such a report concerns the reporter alone: it may then fetch the piece from
// outside, as it could anyhow, and nobody else may. So a member that claims that
// nobody has anything makes no other member fetch anything twice.

// claims counts the members that say they have each piece, and knows who doubts them.
type claims struct {
	copies   []uint16 // of each piece: members that say they have it
	doubting []*member
}

// doubts are what one member could not get from others that say they have it.
type doubts struct {
	all     map[peers.ID]bool       // nothing can be had from these
	some    map[peers.ID]*share.Set // these pieces cannot be had
	trusted []uint16                // of each piece: the members that have it and are not doubted
	free    *share.Set              // pieces that some have, all of them doubted
}

func (d *doubts) about(id peers.ID, p share.Piece) bool {
	return d.all[id] || d.some[id] != nil && d.some[id].Has(p)
}

// of returns the doubts of a member, made if it had none.
func (c *claims) of(mb *member) *doubts {
	if mb.doubts == nil {
		mb.doubts = &doubts{map[peers.ID]bool{}, map[peers.ID]*share.Set{}, slices.Clone(c.copies), share.NewSet(mb.have.Len())}
		c.doubting = append(c.doubting, mb)
	}
	return mb.doubts
}

// end ends the doubts of a member; no piece is free for it any more.
func (c *claims) end(mb *member) {
	c.doubting = slices.DeleteFunc(c.doubting, func(o *member) bool { return o == mb })
	mb.doubts = nil
}

// count notes that a member says that it has a piece, or no longer has it.
func (c *claims) count(mb *member, p share.Piece, has bool) {
	n := uint16(1)
	if !has {
		n = ^uint16(0)
	}
	c.copies[p] += n
	for _, o := range c.doubting {
		if !o.doubts.about(mb.peer, p) {
			o.doubts.trusted[p] += n
		}
	}
}

// judge works out anew for which members a piece is free.
func (c *claims) judge(p share.Piece) {
	for _, mb := range c.doubting {
		if d := mb.doubts; c.copies[p] > 0 && d.trusted[p] == 0 {
			d.free.Add(p)
		} else {
			d.free.Remove(p)
		}
	}
}

// fetchers returns the members for which a piece is free; nil: none, and all may
// fetch it if nobody has it.
func (c *claims) fetchers(p share.Piece) (out map[*member]bool) {
	for _, mb := range c.doubting {
		if mb.doubts.free.Has(p) {
			if out == nil {
				out = map[*member]bool{}
			}
			out[mb] = true
		}
	}
	return out
}

// may is what a member may fetch of pieces if they are wanted.
func (c *claims) may(mb *member, pieces *share.Set) *share.Set {
	if len(c.doubting) == 0 {
		return pieces
	}
	others := share.NewSet(pieces.Len())
	for _, o := range c.doubting {
		others.Union(o.doubts.free)
	}
	if mb.doubts != nil {
		others = others.Minus(mb.doubts.free)
	}
	return pieces.Minus(others)
}
