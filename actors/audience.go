package actors

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// audience is the set of subscribers of one share.
type audience struct {
	children []*child // in order of arrival
	byPeer   map[peers.ID]*child
	fleet    bool        // this node fetches the share in one
	nameable int         // children
	turns    peers.Turns // to be named

	news  []share.Piece // the pieces that arrived last
	first int           // the number of the oldest of them

	coming []comer // in order

	mirrors peers.Mirrors
	words   map[peers.ID]*actor.PID // the actor that announced each mirror
	last    peers.ID                // the last child to be done, if it was helped
	helped  bool                    // mirrors helped a child that stays
}

// child is one subscriber. What it was told is kept as state, not as a queue: the rest is
// sent when it is time, however often it grew.
type child struct {
	peer      peers.ID
	pid       *actor.PID
	endpoints []peers.Endpoint // to be named
	nameable  bool
	member    bool // says that it is one of a fleet
	set       peers.Set
	told      int  // how many of the news it has been told
	whole     bool // send a HaveMap
	// When it was first and last sent to mirrors without a pause, and that it is no more.
	fedSince, fedLast time.Time
	unfed             bool
}

// heard records a new piece. Only the latest are remembered.
func (o *audience) heard(p share.Piece) {
	if o.news = append(o.news, p); len(o.news) > 2*deltaPieces {
		o.news = slices.Clone(o.news[deltaPieces:]) // others may hold parts of the old
		o.first += deltaPieces
	}
}

// end is the number of news so far.
func (o *audience) end() int { return o.first + len(o.news) }

// untold returns the news that a child has not heard; ok is false if there are too many to name.
func (o *audience) untold(c *child) (news []share.Piece, ok bool) {
	if c.whole || c.told < o.first || o.end()-c.told > deltaPieces {
		return nil, false
	}
	return o.news[c.told-o.first:], true
}

// crowd returns how many other children and mirrors could pass a piece on to a child (none if
// it does not know of them), whether it passes on what it has, and whether it is of a fleet as this node is.
func (o *audience) crowd(peer peers.ID) (others int, spreads, member bool) {
	c := o.byPeer[peer]
	if c == nil {
		return 0, false, false
	}
	if others = o.nameable + o.mirrors.Len(); c.nameable {
		others--
	}
	return others, c.nameable, c.member && o.fleet
}

// When those who stay and have the whole share are enough to fill a newcomer's line, it is given a little less than an
// even share here: it takes that before it has found them. They are believed as long as they
// helped the one before it that stayed. A child that says that it gets too little from them, or asks on
// for fedFor, is not sent to them again.
const (
	enoughMirrors = 3
	evenPart      = 0.75
	helpedPart    = 0.6 // a child that was given less of the share here was helped by others
	fedFor        = 4 * time.Second
	askedOn       = 3 * time.Second // less passes between two requests of a child that asks on
)

// fed reports whether a child that was given so many of all bytes has had its part here.
func (o *audience) fed(peer peers.ID, given, all int64, pressed bool, now time.Time) bool {
	c, k := o.byPeer[peer], o.mirrors.Whole()
	if c == nil || c.unfed || !o.helped || k < enoughMirrors || float64(given)*float64(1+k) < evenPart*float64(all) {
		return false
	}
	if now.Sub(c.fedLast) >= askedOn {
		c.fedSince = now
	}
	c.fedLast = now
	c.unfed = pressed || now.Sub(c.fedSince) >= fedFor
	return !c.unfed
}

// done takes note of a child that has all that it wanted, and was given so many of all bytes here.
func (o *audience) done(peer peers.ID, given, all int64) {
	if o.byPeer[peer] == nil {
		return
	}
	o.last = ""
	little := float64(given) < helpedPart*float64(all)
	if o.helped = o.helped && little; little {
		o.last = peer
	}
}

// stays takes note of a child that was done, and has become a mirror with the whole share: others gave it that.
func (o *audience) stays(peer peers.ID) {
	o.helped = o.helped || o.last == peer
}

func (o *audience) add(c *child) {
	o.children = append(o.children, c)
	o.byPeer[c.peer] = c
	if c.nameable {
		o.nameable++
	}
}

// child returns the child behind a PID; nil if there is none, or another by now.
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

// name returns the peers that a new subscriber is told of, on a connection of this reach:
// up to maxNamed others, half of them mirrors if there are that many, or mirrors alone. One that was told of some
// instead of the list of files is told of fewer.
func (o *audience) name(to peers.ID, reach, told int, mirrorsOnly bool) []peers.Addr {
	most, children := maxNamed, o.children
	if told > 0 {
		most = maxNamed/2 - told
	}
	if mirrorsOnly {
		most, children = most/2, nil
	}
	return o.pick(to, reach, most/2, most, children)
}

// pick returns up to most mirrors and these children, this many of them mirrors if there are that many.
func (o *audience) pick(to peers.ID, reach, mirrors, most int, children []*child) []peers.Addr {
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
	o.mirrors.Pick(mirrors, take)
	o.turns.Pick(len(children), most-len(out), func(i int) bool {
		c := children[i]
		return c.nameable && take(c.peer, c.endpoints)
	})
	o.mirrors.Pick(most-len(out), take)
	return out
}
