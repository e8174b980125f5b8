package wire

import (
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// SourceHas is all pieces that a source of the sender has. Fetcher to
// coordinator; it takes the place of what was said of the source before.
type SourceHas struct {
	Share  share.ID
	Source peers.ID
	Pieces uint32 // pieces of the share
	Bits   []byte // as in a HaveMap
}

// AppendSourceHas encodes a SourceHas.
func AppendSourceHas(dst []byte, m SourceHas) []byte {
	if !wholeBits(m.Pieces, m.Bits) {
		panic("wire: have-map of the wrong length")
	}
	dst = appendSource(appendShare(dst, 1, m.Share), 2, m.Source)
	dst = appendUint(dst, 3, m.Pieces)
	return appendBytes(dst, 4, m.Bits)
}

// ParseSourceHas reads a SourceHas. Bits have the length for Pieces and no bit
// past it; that Pieces is the share's number is the caller's to check.
func ParseSourceHas(b []byte) (SourceHas, error) {
	var m SourceHas
	r := read("source has", b)
	for r.next() {
		switch r.num {
		case 1:
			m.Share = r.share()
		case 2:
			m.Source = r.source()
		case 3:
			m.Pieces = uint32(r.uint(share.MaxPieces))
		case 4:
			m.Bits = r.bytes((share.MaxPieces + 7) / 8)
		}
	}
	r.hasShare(m.Share)
	r.need(wholeBits(m.Pieces, m.Bits), "%d bytes for %d pieces, or a bit past them", len(m.Bits), m.Pieces)
	m.Bits = slices.Clone(m.Bits)
	return m, r.err
}

// SourceHasMore is pieces that a source of the sender has come to have. Fetcher
// to coordinator.
type SourceHasMore struct {
	Share  share.ID
	Source peers.ID
	Pieces []uint32 // at most MaxHave
}

// AppendSourceHasMore encodes a SourceHasMore.
func AppendSourceHasMore(dst []byte, m SourceHasMore) []byte {
	atMost("pieces of a source", len(m.Pieces), MaxHave)
	dst = appendSource(appendShare(dst, 1, m.Share), 2, m.Source)
	return appendPieces(dst, 3, m.Pieces)
}

// ParseSourceHasMore reads a SourceHasMore. That the share has the pieces is the
// caller's to check.
func ParseSourceHasMore(b []byte) (SourceHasMore, error) {
	var m SourceHasMore
	r := read("source has more", b)
	for r.next() {
		switch r.num {
		case 1:
			m.Share = r.share()
		case 2:
			m.Source = r.source()
		case 3:
			m.Pieces = r.pieces(m.Pieces, MaxHave)
		}
	}
	r.hasShare(m.Share)
	return m, r.err
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
	Pieces []uint32 // at most MaxHave
}

// AppendSourceDown encodes a SourceDown.
func AppendSourceDown(dst []byte, m SourceDown) []byte {
	atMost("pieces of a source", len(m.Pieces), MaxHave)
	dst = appendSource(appendShare(dst, 1, m.Share), 2, m.Source)
	return appendPieces(appendBool(dst, 3, m.Member), 4, m.Pieces)
}

// ParseSourceDown reads a SourceDown. That the share has the pieces is the caller's
// to check.
func ParseSourceDown(b []byte) (SourceDown, error) {
	var m SourceDown
	r := read("source down", b)
	for r.next() {
		switch r.num {
		case 1:
			m.Share = r.share()
		case 2:
			m.Source = r.source()
		case 3:
			m.Member = r.bool()
		case 4:
			m.Pieces = r.pieces(m.Pieces, MaxHave)
		}
	}
	r.hasShare(m.Share)
	return m, r.err
}

// FleetMembers names members of the fleet besides the receiver. What was named
// before stays named. Coordinator to fetcher.
type FleetMembers struct {
	Share   share.ID
	Members []peers.Addr // at most MaxMembers
}

// AppendFleetMembers encodes a FleetMembers.
func AppendFleetMembers(dst []byte, m FleetMembers) []byte {
	atMost("members", len(m.Members), MaxMembers)
	dst = appendShare(dst, 1, m.Share)
	for _, p := range m.Members {
		dst = appendPeer(dst, 2, p)
	}
	return dst
}

// ParseFleetMembers reads a FleetMembers.
func ParseFleetMembers(b []byte) (FleetMembers, error) {
	var m FleetMembers
	r := read("fleet members", b)
	m.Members = list[peers.Addr](&r, 2, MaxMembers)
	for r.next() {
		switch r.num {
		case 1:
			m.Share = r.share()
		case 2:
			m.Members = append(m.Members, r.peer())
		}
	}
	r.hasShare(m.Share)
	return m, r.err
}

// source is the peer ID of a source.
func (r *reader) source() peers.ID { return peers.ID(r.text(MaxPeerID)) }

func appendSource(dst []byte, num protowire.Number, id peers.ID) []byte {
	atMost("peer ID", len(id), MaxPeerID)
	return appendBytes(dst, num, string(id))
}

// appendPeer writes a peer and its addresses.
func appendPeer(dst []byte, num protowire.Number, p peers.Addr) []byte {
	atMost("peer ID", len(p.ID), MaxPeerID)
	dst, at := openItem(dst, num)
	dst = appendBytes(dst, 1, string(p.ID))
	return closeItem(appendAddrs(dst, 2, p.Addrs), at)
}
