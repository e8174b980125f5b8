package wire

import (
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// SourceHas is all pieces that a source of the sender has. Fetcher to
// coordinator; it takes the place of what was said of the source before.
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

func (m *SourceHas) haveMap() (*int, *[]byte) { return &m.Pieces, &m.Bits }

// SourceHasMore is pieces that a source of the sender has come to have. Fetcher
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
// With Member the source is another member of the fleet, which says that it has
// pieces, and the sender could not get Pieces from it, or, if there are none, can get
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
