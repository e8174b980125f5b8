package wire

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Limits of the messages between a node and a beacon.
const (
	MaxBeaconKeys = 128   // keys in one Announce
	MaxIntroduced = 16    // peers in one Found
	MaxPadding    = 4_096 // bytes
)

// Announce tells a beacon that the sender has some shares, under keys that stand for
// them. Node to beacon; answered with one Announced. The sender is who the connection
// proves it to be.
type Announce struct {
	Keys  []share.Hash // at most MaxBeaconKeys
	Addrs []string     // where the sender can be reached; the first MaxAddrs are sent
	Gone  bool         // it no longer has them
}

func (m *Announce) fields(c *coder) {
	c.hashes(1, &m.Keys, MaxBeaconKeys)
	c.addrs(2, &m.Addrs)
	c.bool(3, &m.Gone)
}
func (*Announce) shareless() {}

// Announced is the answer to Announce.
type Announced struct {
	TTL     time.Duration // after which what was announced is forgotten
	Refused uint8         // 0: all is remembered; else why not, a number from formats.md
	Retry   time.Duration // refused: ask again after; 0 for never
}

func (m *Announced) fields(c *coder) {
	c.ms(1, &m.TTL)
	varint(c, 2, &m.Refused, 255)
	c.ms(3, &m.Retry)
}
func (*Announced) shareless() {}

// Seek asks a beacon who has a share. Node to beacon; answered with one Found, of at
// most twice the bytes of the question, which is why it is padded.
type Seek struct {
	Key     share.Hash
	Padding int // bytes that mean nothing; at most MaxPadding
}

func (m *Seek) fields(c *coder) {
	c.hash(1, &m.Key)
	c.padding(2, &m.Padding)
}

func (m *Seek) settle(c *coder) { c.need(m.Key != share.Hash{}, "no key") }
func (*Seek) shareless()        {}

// Found is the answer to Seek.
type Found struct {
	Key   share.Hash
	Peers []peers.Addr  // a sample of those that say they have it; the first MaxIntroduced are sent
	Retry time.Duration // 0: it was looked up; else the beacon was asked too often: ask again after
}

func (m *Found) fields(c *coder) {
	c.hash(1, &m.Key)
	m.Peers = firstOf(m.Peers, MaxIntroduced)
	c.peers(2, &m.Peers, MaxIntroduced)
	c.ms(3, &m.Retry)
}
func (*Found) shareless() {}

// hash is one hash; of zeros if there is none.
func (c *coder) hash(num protowire.Number, v *share.Hash) {
	switch {
	case !c.reading && *v != share.Hash{}:
		c.b = appendItem(c.b, num, v[:])
	case c.reading && c.chunk(num, hashLen):
		if len(c.data) != hashLen {
			c.fail("field %d: a hash of %d bytes", num, len(c.data))
			return
		}
		*v = share.Hash(c.data)
	}
}

// padding is bytes of which only the number matters.
func (c *coder) padding(num protowire.Number, v *int) {
	if !c.reading {
		atMost("padding", *v, MaxPadding)
		c.b = appendBytes(c.b, num, make([]byte, *v))
	} else if c.chunk(num, MaxPadding) {
		*v = len(c.data)
	}
}
