package peers

import (
	"math/rand/v2"
	"time"
)

// Times of Calls.
const (
	callWithin  = 30 * time.Second // without an answer a call has failed
	soonestCall = 10 * time.Second // after a call that failed, or did not last; doubles
	rarestCall  = 30 * time.Minute
	lasting     = 10 * time.Minute // a call that stood this long starts again with soonestCall
)

// Calls says when to call each of a few peers: at once, and again when a call
// fails, when what it brought has ended, and when the peer says so. A random time
// is added to each wait, so that many callers that lost the same peer do not come
// back together. It has one owner; the time is an argument.
//
//	waits --Due--> calls --Stands--> stands
//	  ^              |                  |
//	  +---- Ended, or no word in time --+
type Calls struct {
	// Rarest is the longest wait after a call that failed; default 30 min.
	Rarest time.Duration

	rng  *rand.Rand
	each []call
}

type call struct {
	id     ID
	state  callState
	at     time.Time // waits: until then; calls: no longer; stands: since
	failed int       // in a row
}

type callState uint8

const (
	callWaits callState = iota
	calling
	callStands
)

// NewCalls makes Calls to these peers, all due at once.
func NewCalls(ids []ID, seed uint64) *Calls {
	c := &Calls{Rarest: rarestCall, rng: rand.New(rand.NewPCG(seed, 0x63616c6c))}
	for _, id := range ids {
		c.each = append(c.each, call{id: id})
	}
	return c
}

// Due returns the peers to be called now, and in late those that have not answered a call
// for too long. next is when to ask again; zero: after the next Stands or Ended.
func (c *Calls) Due(now time.Time) (due, late []ID, next time.Time) {
	for i := range c.each {
		x := &c.each[i]
		if x.state == calling && !now.Before(x.at) {
			c.ended(x, 0, now)
			late = append(late, x.id)
		}
		if x.state == callWaits && !now.Before(x.at) {
			x.state, x.at = calling, now.Add(callWithin)
			due = append(due, x.id)
		}
		if x.state != callStands && (next.IsZero() || x.at.Before(next)) {
			next = x.at
		}
	}
	return due, late, next
}

// Stands notes that a call has brought what it was for.
func (c *Calls) Stands(id ID, now time.Time) {
	if x := c.of(id); x != nil && x.state == calling {
		x.state, x.at = callStands, now
	}
}

// Ended notes that a call failed, or that what it brought has ended. It is made again
// after a while, and not before after.
func (c *Calls) Ended(id ID, after time.Duration, now time.Time) {
	if x := c.of(id); x != nil && x.state != callWaits {
		c.ended(x, after, now)
	}
}

func (c *Calls) ended(x *call, after time.Duration, now time.Time) {
	if x.state == callStands && now.Sub(x.at) >= lasting {
		x.failed = 0
	}
	wait := min(soonestCall<<min(x.failed, 10), c.Rarest)
	wait = max(wait, min(after, rarestCall))
	x.failed++
	x.state, x.at = callWaits, now.Add(wait+time.Duration(c.rng.Int64N(int64(wait/2))))
}

func (c *Calls) of(id ID) *call {
	for i := range c.each {
		if c.each[i].id == id {
			return &c.each[i]
		}
	}
	return nil
}
