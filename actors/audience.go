package actors

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// audience is those who have subscribed to one share.
type audience struct {
	children []*child // in order of arrival
	byPeer   map[peers.ID]*child
	nameable int         // children
	turns    peers.Turns // to be named

	news  []share.Piece // the latest pieces that came to be had
	first int           // the number of the oldest of them

	mirrors peers.Mirrors
	words   map[peers.ID]*actor.PID // who said that a mirror is one
}

// child is one subscriber. What it was told is state, not a queue: the rest is
// sent when it is time, however often it grew.
type child struct {
	peer      peers.ID
	pid       *actor.PID
	endpoints []peers.Endpoint // to be named
	nameable  bool
	set       peers.Set
	told      int  // so many of the news
	whole     bool // send a HaveMap
}

// heard takes note of a piece. Only the latest are remembered.
func (o *audience) heard(p share.Piece) {
	if o.news = append(o.news, p); len(o.news) > 2*deltaPieces {
		o.news = slices.Clone(o.news[deltaPieces:]) // others may hold parts of the old
		o.first += deltaPieces
	}
}

// end is how many news there were so far.
func (o *audience) end() int { return o.first + len(o.news) }

// untold is what a child has not heard of; not ok if that is too much to be named.
func (o *audience) untold(c *child) (news []share.Piece, ok bool) {
	if c.whole || c.told < o.first || o.end()-c.told > deltaPieces {
		return nil, false
	}
	return o.news[c.told-o.first:], true
}

// crowd is how many other children could pass a piece on to a child, none if it does
// not know of them; and whether it passes on what it has.
func (o *audience) crowd(peer peers.ID) (others int, spreads bool) {
	c := o.byPeer[peer]
	switch {
	case c == nil:
		return 0, false
	case c.nameable:
		return o.nameable - 1, true
	}
	return o.nameable, false
}

func (o *audience) add(c *child) {
	o.children = append(o.children, c)
	o.byPeer[c.peer] = c
	if c.nameable {
		o.nameable++
	}
}

// child is the one behind a PID; nil if it is another by now, or none.
func (o *audience) child(who *actor.PID) *child {
	if c := o.byPeer[peers.ID(who.Address)]; c != nil && c.pid.Equal(who) {
		return c
	}
	return nil
}

func (o *audience) remove(c *child) {
	i := slices.Index(o.children, c)
	o.children = slices.Delete(o.children, i, i+1)
	delete(o.byPeer, c.peer)
	if c.nameable {
		o.nameable--
	}
}

// name is whom a peer hears of that subscribes, on a connection of this reach: up to
// maxNamed others, half of them mirrors if there are as many.
func (o *audience) name(to peers.ID, reach int) []peers.Addr {
	var out []peers.Addr
	seen := map[peers.ID]bool{to: true}
	take := func(id peers.ID, endpoints []peers.Endpoint) bool {
		addrs := peers.Addrs(peers.Named(endpoints, reach))
		if seen[id] || len(addrs) == 0 {
			return false
		}
		seen[id] = true
		out = append(out, peers.Addr{ID: id, Addrs: addrs})
		return true
	}
	o.mirrors.Pick(maxNamed/2, take)
	o.turns.Pick(len(o.children), maxNamed-len(out), func(i int) bool {
		c := o.children[i]
		return c.nameable && take(c.peer, c.endpoints)
	})
	o.mirrors.Pick(maxNamed-len(out), take)
	return out
}
