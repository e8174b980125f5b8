package wire

import (
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Limits of the messages between a source and its children.
const (
	MaxAddrs    = 8     // addresses of one peer
	MaxAddr     = 256   // bytes of one address
	MaxPeerID   = 128   // bytes of a peer ID
	MaxChildren = 32    // peers named in one SubscribeResult
	MaxHave     = 8_192 // pieces named in one Have
)

// Subscribe asks a source for its have announcements. Child to source;
// answered with exactly one SubscribeResult.
type Subscribe struct {
	Share    share.ID
	Addrs    []string // where the child itself can be reached; the first MaxAddrs are sent
	Nameable bool     // the child agrees to be named to others
	Mirror   bool     // it wants to hear of nothing: it serves the share on, and agrees to be named for that
}

// AppendSubscribe encodes a Subscribe.
func AppendSubscribe(dst []byte, m Subscribe) []byte {
	dst = appendShare(dst, 1, m.Share)
	dst = appendAddrs(dst, 2, m.Addrs)
	dst = appendBool(dst, 3, m.Nameable)
	return appendBool(dst, 4, m.Mirror)
}

// ParseSubscribe reads a Subscribe.
func ParseSubscribe(b []byte) (Subscribe, error) {
	var m Subscribe
	r := read("subscribe", b)
	m.Addrs = list[string](&r, 2, MaxAddrs)
	for r.next() {
		switch r.num {
		case 1:
			m.Share = r.share()
		case 2:
			m.Addrs = append(m.Addrs, r.text(MaxAddr))
		case 3:
			m.Nameable = r.bool()
		case 4:
			m.Mirror = r.bool()
		}
	}
	r.hasShare(m.Share)
	return m, r.err
}

// SubscribeResult is the answer to Subscribe.
type SubscribeResult struct {
	Share    share.ID
	Accepted bool
	Reason   string        // refused: for people; at most MaxReason bytes
	Retry    time.Duration // refused: ask again after; 0 for never
	Children []peers.Addr  // others that fetch the share, or serve it on; the first MaxChildren are sent
}

// AppendSubscribeResult encodes a SubscribeResult.
func AppendSubscribeResult(dst []byte, m SubscribeResult) []byte {
	dst = appendShare(dst, 1, m.Share)
	dst = appendBool(dst, 2, m.Accepted)
	dst = appendBytes(dst, 3, printable(m.Reason, MaxReason))
	dst = appendMS(dst, 4, m.Retry)
	for _, c := range firstOf(m.Children, MaxChildren) {
		dst = appendPeer(dst, 5, c)
	}
	return dst
}

// ParseSubscribeResult reads a SubscribeResult. Peer IDs are text of the right
// length; whether one names a key shows when it is dialled.
func ParseSubscribeResult(b []byte) (SubscribeResult, error) {
	var m SubscribeResult
	r := read("subscribe result", b)
	m.Children = list[peers.Addr](&r, 5, MaxChildren)
	for r.next() {
		switch r.num {
		case 1:
			m.Share = r.share()
		case 2:
			m.Accepted = r.bool()
		case 3:
			m.Reason = r.text(MaxReason)
		case 4:
			m.Retry = r.ms()
		case 5:
			m.Children = append(m.Children, r.peer())
		}
	}
	r.hasShare(m.Share)
	return m, r.err
}

// Unsubscribe ends a subscription. Child to source.
type Unsubscribe struct {
	Share share.ID
	Done  bool // the child has all that it wanted
}

// AppendUnsubscribe encodes an Unsubscribe.
func AppendUnsubscribe(dst []byte, m Unsubscribe) []byte {
	return appendBool(appendShare(dst, 1, m.Share), 2, m.Done)
}

// ParseUnsubscribe reads an Unsubscribe.
func ParseUnsubscribe(b []byte) (Unsubscribe, error) {
	var m Unsubscribe
	r := read("unsubscribe", b)
	for r.next() {
		switch r.num {
		case 1:
			m.Share = r.share()
		case 2:
			m.Done = r.bool()
		}
	}
	r.hasShare(m.Share)
	return m, r.err
}

// HaveMap is all pieces that a source has. Source to child.
type HaveMap struct {
	Share  share.ID
	Pieces uint32 // pieces of the share
	Bits   []byte // as share.Set.Bytes writes them and share.ParseSet reads them
}

// AppendHaveMap encodes a HaveMap.
func AppendHaveMap(dst []byte, m HaveMap) []byte {
	if !wholeBits(m.Pieces, m.Bits) {
		panic("wire: have-map of the wrong length")
	}
	dst = appendShare(dst, 1, m.Share)
	dst = appendUint(dst, 2, m.Pieces)
	return appendBytes(dst, 3, m.Bits)
}

// ParseHaveMap reads a HaveMap. Bits have the length for Pieces and no bit past
// it; that Pieces is the share's number is the caller's to check.
func ParseHaveMap(b []byte) (HaveMap, error) {
	var m HaveMap
	r := read("have-map", b)
	for r.next() {
		switch r.num {
		case 1:
			m.Share = r.share()
		case 2:
			m.Pieces = uint32(r.uint(share.MaxPieces))
		case 3:
			m.Bits = r.bytes((share.MaxPieces + 7) / 8)
		}
	}
	r.hasShare(m.Share)
	r.need(wholeBits(m.Pieces, m.Bits), "%d bytes for %d pieces, or a bit past them", len(m.Bits), m.Pieces)
	m.Bits = slices.Clone(m.Bits)
	return m, r.err
}

// wholeBits says whether bits are one for each piece and no more.
func wholeBits(pieces uint32, bits []byte) bool {
	n := uint(pieces)
	return uint(len(bits)) == (n+7)/8 && (n%8 == 0 || bits[len(bits)-1]>>(n%8) == 0)
}

// Have is pieces that a source has come to have since its last HaveMap or Have.
// Source to child.
type Have struct {
	Share  share.ID
	Pieces []uint32 // at most MaxHave
}

// AppendHave encodes a Have.
func AppendHave(dst []byte, m Have) []byte {
	atMost("pieces of a have", len(m.Pieces), MaxHave)
	return appendPieces(appendShare(dst, 1, m.Share), 2, m.Pieces)
}

// ParseHave reads a Have. That the share has the pieces is the caller's to check.
func ParseHave(b []byte) (Have, error) {
	var m Have
	r := read("have", b)
	for r.next() {
		switch r.num {
		case 1:
			m.Share = r.share()
		case 2:
			m.Pieces = r.pieces(m.Pieces, MaxHave)
		}
	}
	r.hasShare(m.Share)
	return m, r.err
}

// ShareGone says that a share is no longer offered. Source to child.
type ShareGone struct {
	Share  share.ID
	Reason string // for people; at most MaxReason bytes
}

// AppendShareGone encodes a ShareGone.
func AppendShareGone(dst []byte, m ShareGone) []byte {
	return appendBytes(appendShare(dst, 1, m.Share), 2, printable(m.Reason, MaxReason))
}

// ParseShareGone reads a ShareGone.
func ParseShareGone(b []byte) (ShareGone, error) {
	var m ShareGone
	r := read("share gone", b)
	for r.next() {
		switch r.num {
		case 1:
			m.Share = r.share()
		case 2:
			m.Reason = r.text(MaxReason)
		}
	}
	r.hasShare(m.Share)
	return m, r.err
}

// Goodbye says that the sender leaves and wants nothing more of the share.
type Goodbye struct{ Share share.ID }

// AppendGoodbye encodes a Goodbye.
func AppendGoodbye(dst []byte, m Goodbye) []byte { return appendShare(dst, 1, m.Share) }

// ParseGoodbye reads a Goodbye.
func ParseGoodbye(b []byte) (Goodbye, error) {
	id, err := parseShare("goodbye", b)
	return Goodbye{id}, err
}

// peer is a peer and its addresses.
func (r *reader) peer() peers.Addr {
	var a peers.Addr
	in := r.item()
	a.Addrs = list[string](&in, 2, MaxAddrs)
	for in.next() {
		switch in.num {
		case 1:
			a.ID = peers.ID(in.text(MaxPeerID))
		case 2:
			a.Addrs = append(a.Addrs, in.text(MaxAddr))
		}
	}
	in.need(a.ID != "", "peer without an ID")
	r.after(in)
	return a
}

// appendAddrs writes the first MaxAddrs addresses; one that may not travel is left out.
func appendAddrs(dst []byte, num protowire.Number, addrs []string) []byte {
	for _, a := range firstOf(addrs, MaxAddrs) {
		if a == printable(a, MaxAddr) {
			dst = appendItem(dst, num, a)
		}
	}
	return dst
}
