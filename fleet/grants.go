package fleet

import (
	"slices"
	"time"

	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// This file is what a Coordinator grants to members, and what it hears of these leases.

// refusals maps the reasons of the lease manager to their wire codes. A coordinator neither pauses
// its leases nor has readers.
var refusals = map[leasemgr.Why]wire.Code{
	leasemgr.UnknownSource: wire.CodeNoSource,
	leasemgr.AllVerified:   wire.CodeWhole,
	leasemgr.IsBanned:      wire.CodeBanned,
	leasemgr.AtCapacity:    wire.CodeAtCapacity,
	leasemgr.NoneHere:      wire.CodeNothing,
	leasemgr.AllLeased:     wire.CodeAllLeased,
	leasemgr.Spared:        wire.CodeSpared,
}

// returns are the wire codes of the reasons for which leases end.
var returns = [...]wire.Code{
	leasemgr.GaveBack:  wire.CodeGaveBack,
	leasemgr.BadData:   wire.CodeBadData,
	leasemgr.Missed:    wire.CodeMissed,
	leasemgr.NotFound:  wire.CodeNotFound,
	leasemgr.Lost:      wire.CodeLost,
	leasemgr.Disk:      wire.CodeDisk,
	leasemgr.Elsewhere: wire.CodeElsewhere,
}

// reasonOf is the reason with a code: GaveBack if there is none.
func reasonOf(code wire.Code) leasemgr.Reason {
	return leasemgr.Reason(max(0, slices.Index(returns[:], code)))
}

// LeaseRequest is answered with one LeaseResponse if a member sent it.
func (c *Coordinator) LeaseRequest(by From, m wire.LeaseRequest, now time.Time) {
	mb := c.member(by, m.Share, now)
	if mb == nil {
		return
	}
	answer := wire.LeaseResponse{Share: m.Share, Source: m.Source}
	o := c.outlets[outletID(mb.peer, m.Source)]
	if o == nil { // the source may have become a member a moment ago
		answer.Refused, answer.Never = wire.Why(wire.CodeNoSource), true
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
	if why := c.waiting(mb); why != 0 {
		o.parked = true
		answer.Refused = wire.Why(why)
	} else {
		more, no := c.m.Acquire(o.id, int(min(m.Max, wire.MaxLeases-uint32(len(leases)))), now)
		leases = append(leases, more...)
		o.idle = len(leases) == 0
		answer.Refused, answer.Never = wire.Why(refusals[no.Reason]), no.Never
		if !no.Until.IsZero() {
			answer.Until = max(no.Until.Sub(now), time.Millisecond)
		}
	}
	if len(leases) > 0 {
		o.since = now
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
			if i.Bytes > 0 {
				o.got, o.since = now, now
			} else if len(c.outside) > 1 || c.passedOver(o) { // another source may have time: none keeps a piece by saying that it has not
				continue
			}
			c.do(c.m.Progress(o.id, i.Piece, i.Token, i.Bytes, now))
		}
	}
}

// passedFor is how long a source may give a member nothing before others that it serves are leased the member's pieces.
const passedFor = 2 * time.Minute

// passedOver reports whether a source gives a member nothing, and has given something to another that has nothing to do.
func (c *Coordinator) passedOver(o *outlet) bool {
	if c.now.Sub(o.since) < passedFor {
		return false
	}
	for _, x := range c.outlets {
		if x.source == o.source && x.idle && x.got.After(o.since) {
			return true
		}
	}
	return false
}

// LeaseReturned is told that a member gives leases of a source back. A piece that the source did not have is leased from it again
// once the member says that it has it.
func (c *Coordinator) LeaseReturned(by From, m wire.LeaseReturned, now time.Time) {
	if o := c.outlet(by, m.Share, m.Source, now); o != nil {
		for _, i := range m.Items {
			c.do(c.m.Fail(o.id, i.Piece, i.Token, reasonOf(i.Reason.Code), now))
			if i.Reason.Code == wire.CodeNotFound {
				o.has.Remove(i.Piece)
				c.do(c.m.HaveNot(o.id, []share.Piece{i.Piece}, now)) // even if the lease had run out
			}
		}
	}
}
