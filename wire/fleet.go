package wire

import (
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// SourceHas is all pieces that a source of the sender has. Fetcher to
// coordinator; it replaces what was said of the source before.
type SourceHas struct {
	Share  share.ID
	Source peers.ID
	Pieces int    // pieces of the share
	Bits   []byte // as in a HaveMap
}

func (m *SourceHas) fields(c *coder) {
	c.share(1, &m.Share)
	c.peer(2, &m.Source)
	c.haveMap(3, &m.Pieces, &m.Bits)
}

func (m *SourceHas) settle(c *coder) { c.wholeMap(m.Pieces, &m.Bits) }

// SourceHasMore is pieces that a source of the sender has got since. Fetcher
// to coordinator.
type SourceHasMore struct {
	Share  share.ID
	Source peers.ID
	Pieces []share.Piece // at most MaxHave
}

func (m *SourceHasMore) fields(c *coder) {
	c.share(1, &m.Share)
	c.peer(2, &m.Source)
	c.pieces(3, &m.Pieces, MaxHave)
}

// SourceDown says that the sender no longer fetches from a source: its leases
// return. Fetcher to coordinator.
//
// With Member the source is another member of the fleet. The sender could not get Pieces from
// it, which it says it has, or, if there are none, can get
// nothing from it any more. Without a Source it is every other member.
type SourceDown struct {
	Share  share.ID
	Source peers.ID
	Member bool
	Pieces []share.Piece // at most MaxHave
}

func (m *SourceDown) fields(c *coder) {
	c.share(1, &m.Share)
	c.peer(2, &m.Source)
	c.bool(3, &m.Member)
	c.pieces(4, &m.Pieces, MaxHave)
}

// FleetMembers names members of the fleet besides the receiver. What was named
// before stays named. Coordinator to fetcher.
type FleetMembers struct {
	Share   share.ID
	Members []peers.Addr // at most MaxMembers
}

func (m *FleetMembers) fields(c *coder) {
	c.share(1, &m.Share)
	c.peers(2, &m.Members, MaxMembers)
}

// ProofSize is the bytes of a proof that a peer is a member of a fleet.
const ProofSize = 32

// FleetTerm is the highest term that the sender knows, in a fleet that elects its
// coordinator. Member to coordinator before each Subscribe, and when it turns to
// another; coordinator to members when it ends; member to member both ways.
// The receiver must check that the proof is good and the term plausible.
type FleetTerm struct {
	Share       share.ID
	Term        uint64     // 0: it knows none
	Coordinator peers.Addr // in that term; without an ID: the sender knows none
	Proof       [ProofSize]byte
}

func (m *FleetTerm) fields(c *coder) {
	c.share(1, &m.Share)
	c.uint64(2, &m.Term)
	c.peer(3, &m.Coordinator.ID)
	c.addrs(4, &m.Coordinator.Addrs)
	if !c.reading {
		c.b = appendItem(c.b, 5, m.Proof[:])
	} else if c.chunk(5, ProofSize) {
		c.need(copy(m.Proof[:], c.data) == ProofSize, "field 5: a proof of %d bytes", len(c.data))
	}
}
