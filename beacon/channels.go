package beacon

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/piecelease/fetcher/internal/times"
	"github.com/piecelease/fetcher/peers"
)

// ChannelLife is how long a channel waits for its second peer. An exchange that has begun then may
// take exchangeLife longer. Its number is used again after numberLife.
const (
	ChannelLife  = 2 * time.Minute
	exchangeLife = 30 * time.Second
	numberLife   = 10 * time.Minute
)

// What is bounded about channels; a channel takes some 300 bytes.
const (
	maxChannels     = 4_096
	channelsOfBlock = 64
)

// How often channels may be opened and joined, and how much may be said on them.
const (
	openCost, joinCost           = 10, 5
	peerRooms, peerRoomsAtOnce   = 1, 40 // a second, of these costs
	blockRooms, blockRoomsAtOnce = 5, 200
	peerSays, peerSaysAtOnce     = 2, 32
	blockSays, blockSaysAtOnce   = 32, 256
)

// The refusals of channels.
const (
	NoChannel Refusal = 4 + iota // there is none of this number
	Used                         // two peers have met there, and the sender is not one of them; or it was ended
	Expired                      // nobody came in time
	Deaf                         // the other peer is not waiting for a message
)

// Channels are where pairs of peers pass messages to each other, each in its turn. An E
// is what a beacon needs to answer a peer that waits.
type Channels[E any] struct {
	rng    *rand.Rand
	of     map[int]*channel[E]
	byAge  []int          // their numbers, the oldest first
	blocks map[string]int // channels that are remembered, by the block that opened them
	due    time.Time      // nobody waits in a channel that ends before; zero: nobody waits

	roomsOf, roomsFrom *peers.Allowance // what is opened and joined
	saysOf, saysFrom   *peers.Allowance
}

type channel[E any] struct {
	net          string
	owner, guest peers.ID
	opened       time.Time
	over         bool
	waits        peers.ID // whoever has spoken last; "": nobody
	ear          E        // of it
}

// end is when nobody may speak in a channel any more.
func (ch *channel[E]) end() time.Time {
	if ch.guest == "" {
		return ch.opened.Add(ChannelLife)
	}
	return ch.opened.Add(ChannelLife + exchangeLife)
}

// NewChannels returns channels, whose numbers come from seed.
func NewChannels[E any](seed uint64) *Channels[E] {
	return &Channels[E]{rng: rand.New(rand.NewPCG(seed, 0x6368616e)), of: map[int]*channel[E]{}, blocks: map[string]int{},
		roomsOf: peers.NewAllowance(peerRooms, peerRoomsAtOnce), roomsFrom: peers.NewAllowance(blockRooms, blockRoomsAtOnce),
		saysOf: peers.NewAllowance(peerSays, peerSaysAtOnce), saysFrom: peers.NewAllowance(blockSays, blockSaysAtOnce)}
}

// Open opens a channel for a peer that comes from a block of addresses, and returns its number, which
// is short if few are open.
func (c *Channels[E]) Open(id peers.ID, net string, now time.Time) (n int, refused Refusal, retry time.Duration) {
	c.forget(now)
	if wait := often(c.roomsFrom, c.roomsOf, net, id, openCost, now); wait > 0 {
		return 0, TooOften, wait
	}
	if wait := c.full(net, now); wait > 0 {
		return 0, Full, wait
	}
	n = c.free()
	c.of[n] = &channel[E]{net: net, owner: id, opened: now}
	c.byAge = append(c.byAge, n)
	c.blocks[net]++
	return n, 0, 0
}

// full returns how long there is no room for another channel of a block of addresses; 0: there is.
func (c *Channels[E]) full(net string, now time.Time) (wait time.Duration) {
	until := func(n int) time.Duration { return c.of[n].opened.Add(numberLife).Sub(now) }
	if len(c.of) >= maxChannels {
		wait = until(c.byAge[0])
	}
	if c.blocks[net] >= channelsOfBlock {
		i := slices.IndexFunc(c.byAge, func(n int) bool { return c.of[n].net == net })
		wait = max(wait, until(c.byAge[i]))
	}
	return wait
}

// free draws a number that is not in use, of one digit more than those of which half are.
func (c *Channels[E]) free() int {
	limit := 99
	for limit < 2*len(c.of) {
		limit = limit*10 + 9
	}
	for {
		if n := 1 + c.rng.IntN(limit); c.of[n] == nil {
			return n
		}
	}
}

// Say passes a message on: to is the ear of the peer that waits for it, if heard. The speaker's own ear
// waits for the next one, unless this is the last, which ends the channel: then to, if not heard, is the ear with which the
// speaker itself waited, in vain. The owner speaks first, to nobody; the first other peer that speaks is the guest. Each then
// waits for the other, until Deserted returns its ear.
func (c *Channels[E]) Say(id peers.ID, net string, n int, last bool, ear E, now time.Time) (to E, heard bool, refused Refusal, retry time.Duration) {
	if wait := often(c.saysFrom, c.saysOf, net, id, 1, now); wait > 0 {
		return to, false, TooOften, wait
	}
	ch := c.of[n]
	if refused, retry := c.enter(ch, id, net, now); refused != 0 {
		return to, false, refused, retry
	}
	if !last && ch.waits == id {
		return to, false, Deaf, 0 // it has the answer to wait for
	}
	to, heard = ch.ear, ch.waits != "" && ch.waits != id
	if last {
		ch.fallSilent()
	} else {
		ch.waits, ch.ear = id, ear
		c.due = times.Earliest(c.due, ch.end())
	}
	ch.over = last
	return to, heard, 0, 0
}

func (ch *channel[E]) fallSilent() {
	var none E
	ch.waits, ch.ear = "", none
}

// Deserted hands over the ears that have waited until the ends of their channels. It is to be called again at next; zero:
// nobody waits.
func (c *Channels[E]) Deserted(now time.Time, answer func(n int, ear E)) (next time.Time) {
	if c.due.IsZero() || now.Before(c.due) {
		return c.due
	}
	c.due = time.Time{}
	for _, n := range c.byAge {
		switch ch := c.of[n]; {
		case ch.waits == "":
		case now.Before(ch.end()):
			c.due = times.Earliest(c.due, ch.end())
		default:
			answer(n, ch.ear)
			ch.fallSilent()
		}
	}
	return c.due
}

// enter lets a peer speak in a channel, if it may.
func (c *Channels[E]) enter(ch *channel[E], id peers.ID, net string, now time.Time) (Refusal, time.Duration) {
	member := ch != nil && (id == ch.owner || id == ch.guest)
	if !member { // which numbers are in use is not to be learnt by asking for all
		if wait := often(c.roomsFrom, c.roomsOf, net, id, joinCost, now); wait > 0 {
			return TooOften, wait
		}
	}
	switch {
	case ch == nil || !now.Before(ch.opened.Add(numberLife)):
		return NoChannel, 0
	case !member && ch.guest == "" && !now.Before(ch.end()): // whether its owner has ended it since or not
		return Expired, 0
	case ch.over, !member && ch.guest != "":
		return Used, 0
	case !now.Before(ch.end()):
		return Expired, 0
	case !member && ch.waits != ch.owner:
		return Deaf, 0
	case !member:
		ch.guest = id
	}
	return 0, 0
}

// forget makes the numbers of old channels free.
func (c *Channels[E]) forget(now time.Time) {
	for len(c.byAge) > 0 {
		ch := c.of[c.byAge[0]]
		if now.Before(ch.opened.Add(numberLife)) {
			return
		}
		delete(c.of, c.byAge[0])
		c.byAge = c.byAge[1:]
		if c.blocks[ch.net]--; c.blocks[ch.net] == 0 {
			delete(c.blocks, ch.net)
		}
	}
}

// Len returns how many channels are remembered.
func (c *Channels[E]) Len(now time.Time) int {
	c.forget(now)
	return len(c.of)
}
