package actors

import (
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// This file is what a leaseClient does about the other members of the fleet: it tells
// the coordinator what they say they have and do not give.

// doubtAfter is how long a member waits for a verified byte before it says that it
// gets what it lacks from no other member.
const doubtAfter = 10 * time.Second

// fellow is another member of the fleet: a source inside it.
type fellow struct {
	lacks *share.Set // pieces that it did not give; nil: none
	down  bool       // nothing is fetched from it any more
}

// missed notes what a source inside the fleet did not give, or gave wrong.
func (c *leaseClient) missed(m LeaseReturned) {
	f := c.fellows[m.Source]
	if f == nil {
		return
	}
	for _, r := range m.Leases {
		if r.Why != leasemgr.NotFound && r.Why != leasemgr.BadData {
			continue
		}
		if f.lacks == nil {
			f.lacks = share.NewSet(c.layout.Pieces())
		}
		if f.lacks.Add(r.Piece) && c.state == seated {
			c.lacks = append(c.lacks, wire.SourceDown{Share: c.share, Source: m.Source, Member: true, Pieces: []uint32{uint32(r.Piece)}})
			c.tellSoon()
		}
	}
}

// tellLacks tells what was gathered, neighbours together.
func (c *leaseClient) tellLacks(ctx actor.Context) {
	for len(c.lacks) > 0 {
		m, n := c.lacks[0], 1
		for n < len(c.lacks) && len(m.Pieces) < wire.MaxHave && c.lacks[n].Source == m.Source {
			m.Pieces = append(m.Pieces, c.lacks[n].Pieces...)
			n++
		}
		c.lacks = c.lacks[n:]
		c.tellSeat(ctx, m)
	}
}

// tellAllLacks tells a new coordinator what is known of the others.
func (c *leaseClient) tellAllLacks(ctx actor.Context) {
	for _, id := range slices.Sorted(maps.Keys(c.fellows)) {
		f := c.fellows[id]
		if f.down {
			c.tellSeat(ctx, wire.SourceDown{Share: c.share, Source: id, Member: true})
		} else if f.lacks != nil {
			c.tellMissing(ctx, id, f.lacks.Minus(c.mine))
		}
	}
}

func (c *leaseClient) tellMissing(ctx actor.Context, id peers.ID, lacks *share.Set) {
	for part := range slices.Chunk(slices.Collect(lacks.All()), wire.MaxHave) {
		c.tellSeat(ctx, wire.SourceDown{Share: c.share, Source: id, Member: true, Pieces: convert[uint32](part)})
	}
}

// quiet is told since when no byte has been verified, while none is. A member whose
// coordinator leases it nothing waits for what other members say they have.
func (c *leaseClient) quiet(ctx actor.Context, since time.Time) {
	now := c.s.Now()
	if c.state != seated || since.IsZero() {
		return
	}
	if c.since.After(since) {
		since = c.since
	}
	if c.cfg.Alone > 0 && now.Sub(since) >= c.cfg.Alone {
		c.startAlone(ctx)
	}
	if c.doubted.After(since) {
		since = c.doubted
	}
	if now.Sub(since) >= doubtAfter {
		c.doubted = now
		c.tellMissing(ctx, "", c.unleased())
	}
}

// unleased is some of what is missing here, could be fetched from outside, and is not
// leased: as much as one message holds.
func (c *leaseClient) unleased() *share.Set {
	could, held := share.NewSet(c.layout.Pieces()), share.NewSet(c.layout.Pieces())
	for _, src := range c.order {
		if src.have != nil {
			could.Union(src.have)
		}
		for p := range src.held {
			held.Add(p)
		}
	}
	some, n := share.NewSet(c.layout.Pieces()), 0
	for p := range could.Minus(c.mine).Minus(held).All() {
		if n == wire.MaxHave {
			break
		}
		if c.wants(p) {
			some.Add(p)
			n++
		}
	}
	return some
}
