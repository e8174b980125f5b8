package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

// This file is what the Seeder does for active, passive and tracked children: how soon each
// hears of new pieces, and who is served first. peers.Tiers decides which child is which.

// flushHave is how long new pieces are gathered before the children of a set hear of
// them. Tracked children are told so seldom that it costs next to nothing, but not never:
// one that knows no other source would wait for ever.
var flushHave = [...]time.Duration{peers.Active: 100 * time.Millisecond, peers.Passive: time.Second, peers.Tracked: 30 * time.Second}

// flushEach is how long pieces are gathered for each active child of a share, so that this node sends them at most 200 messages a second,
// or one a second to each.
// Where they are few they may hear sooner: a piece that their neighbour lacks is soon one that they ask the source for.
const flushEach = 5 * time.Millisecond

// measureEvery is how often the round trip of a child is read.
const measureEvery = time.Second

// available tells the children of a new piece, unless they know that this node has the whole share.
func (d *seeder) available(m PieceAvailable) {
	o := d.audiences[m.Share]
	if !m.Soon { // children that come later may be members
		o = d.audience(m.Share)
	}
	if o == nil {
		return
	}
	if o.fleet = !m.Soon; len(o.children) == 0 {
		return
	}
	if _, whole := d.catalog.Whole(m.Share); whole {
		return
	}
	o.heard(m.Piece)
	for s := range flushHave {
		d.flushSoon(peers.Set(s))
	}
	if m.Soon {
		d.flushSooner()
	}
}

func (d *seeder) flushSoon(s peers.Set) {
	if d.tiers.Len(s) > 0 && d.flushAt[s].IsZero() {
		wait := flushHave[s]
		if s == peers.Active {
			wait = max(wait, d.gather())
		}
		d.flushAt[s] = d.s.Now().Add(wait)
	}
}

// flushSooner makes a flush of the active children, if one is due, come sooner where they are few.
func (d *seeder) flushSooner() {
	if d.tiers.Len(peers.Active) > int(flushHave[peers.Active]/flushEach) {
		return
	}
	if at := d.s.Now().Add(d.gather()); at.Before(d.flushAt[peers.Active]) {
		d.flushAt[peers.Active] = at
	}
}

// gather is how long news are gathered for the active children, as what each of them hears of each share is a message.
func (d *seeder) gather() time.Duration {
	n := 0
	for _, o := range d.audiences {
		for _, c := range o.children {
			if c.set == peers.Active {
				n++
			}
		}
	}
	return min(time.Duration(n)*flushEach, flushHave[peers.Passive])
}

// flush tells the children of a set what is new, in an order that depends on their history
// alone. A child whose connection takes nothing now is told later.
func (d *seeder) flush(s peers.Set) {
	for _, id := range sortedShares(d.audiences) {
		o := d.audiences[id]
		for _, c := range o.children {
			if c.set != s {
				continue
			}
			switch news, ok := o.untold(c); {
			case !ok:
				d.sendMap(id, c)
			case len(news) == 0:
			case d.s.Send(c.pid, wire.Have{Share: id, Pieces: news}):
				c.told = o.end()
			default:
				d.flushSoon(s)
			}
		}
	}
}

// moved applies the moves of children between sets.
func (d *seeder) moved(ctx actor.Context) {
	moves := d.tiers.Moves()
	if len(moves) == 0 {
		return
	}
	shares := sortedShares(d.audiences)
	for _, m := range moves {
		d.isIn(m)
		for _, id := range shares {
			c := d.audiences[id].byPeer[m.ID]
			switch {
			case c == nil:
			case m.To == peers.Outside:
				ctx.Send(c.pid, wire.Goodbye{Share: id}) // it may come again
				d.drop(ctx, id, m.ID)
			default:
				c.set = m.To
				d.flushSoon(m.To)
			}
		}
	}
}

// isIn notes that a child is in another set: its requests that wait are served as it is.
func (d *seeder) isIn(m peers.Move) {
	if m.From == m.To {
		return
	}
	d.goAhead(d.uploads.Moved(m.ID, m.To, d.s.Now()))
	if d.tellMove != nil {
		d.tellMove(m)
	}
}

// children returns the children that take something at present.
func (d *seeder) children() ChildList {
	all := d.taken.list()
	for i := range all {
		all[i].Standing, _ = d.tiers.Standing(all[i].Peer, d.s.Now())
	}
	return all
}

// forsaken takes a peer that is no longer a child out of the tiers.
func (d *seeder) forsaken(peer peers.ID) {
	for _, o := range d.audiences {
		if o.byPeer[peer] != nil {
			return
		}
	}
	was := d.tiers.Set(peer)
	d.tiers.Close(peer, d.s.Now())
	d.isIn(peers.Move{ID: peer, From: was, To: peers.Outside})
}

// served records what a child has taken, and starts serving the next.
func (d *seeder) served(m ServeDone) {
	now := d.s.Now()
	if a, took := d.taken.served(m.Job, m.Sent); a != nil {
		d.tiers.Flowed(a.Peer, m.Sent, took, now)
		if now.Sub(a.measured) >= measureEvery {
			a.measured = now
			d.tiers.Measured(a.Peer, d.net.RoundTrip(a.Peer), now)
		}
	}
	d.goAhead(d.uploads.Done(m.Job, now))
}
