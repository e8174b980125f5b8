package wire

import (
	"time"

	"github.com/piecelease/fetcher/peers"
)

// Limits of the messages that two peers pass to each other through a channel of a beacon.
const (
	MaxChannel = 9_999
	MaxSaid    = 5 << 10 // bytes
)

// Say opens a channel at a beacon, or passes something to the other peer of one. Node to beacon;
// answered with one Heard, when the other peer has said something in turn.
type Say struct {
	Channel int    // at most MaxChannel; 0: open one
	Body    []byte // at most MaxSaid
	Last    bool   // the channel ends; the answer comes at once
}

func (m *Say) fields(c *coder) {
	varint(c, 1, &m.Channel, MaxChannel)
	c.copied(2, &m.Body, MaxSaid)
	c.bool(3, &m.Last)
}
func (*Say) shareless() {}

// Heard is the answer to Say.
type Heard struct {
	Channel int
	Body    []byte        // what the other peer said
	From    peers.ID      // the other peer, as the beacon's connection proves it; empty if nobody said it
	Refused uint8         // 0: it was not; else why, a number from formats.md
	Retry   time.Duration // refused: not before; 0 for never
	Life    time.Duration // how long a channel that was opened waits for somebody
}

func (m *Heard) fields(c *coder) {
	varint(c, 1, &m.Channel, MaxChannel)
	c.copied(2, &m.Body, MaxSaid)
	c.peer(3, &m.From)
	varint(c, 4, &m.Refused, 255)
	c.ms(5, &m.Retry)
	c.ms(6, &m.Life)
}
func (*Heard) shareless() {}
