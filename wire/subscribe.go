package wire

import (
	"time"

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

// Subscribe asks a source for its have announcements. Child or mirror to source;
// answered with exactly one SubscribeResult, and for a child then HaveMap and Have.
type Subscribe struct {
	Share    share.ID
	Addrs    []string // where the child itself can be reached; the first MaxAddrs are sent
	Nameable bool     // the child agrees to be named to others as a source
	Mirror   bool     // it serves the share too, wants no announcements, and agrees to be named for that
	Offer    bool     // a mirror: it is to be fetched from, and refused if the source fetches no more of the share
	Whole    bool     // a mirror: it has every piece of the share
	// MirrorsOnly is set by a child that finds others itself: of those it could be told, mirrors are enough.
	MirrorsOnly bool
}

func (m *Subscribe) fields(c *coder) {
	c.share(1, &m.Share)
	c.addrs(2, &m.Addrs)
	c.bool(3, &m.Nameable)
	c.bool(4, &m.Mirror)
	c.bool(5, &m.Offer)
	c.bool(6, &m.Whole)
	c.bool(7, &m.MirrorsOnly)
}

// SubscribeResult is the answer to Subscribe.
type SubscribeResult struct {
	Share    share.ID
	Accepted bool
	Reason   Reason        // refused
	Retry    time.Duration // refused: ask again after; 0 for never
	Children []peers.Addr  // others that fetch the share, or serve it; the first MaxChildren are sent
	// Elsewhere, if accepted: the source has many to feed, so others that have the whole share
	// are to be asked first.
	Elsewhere bool
}

func (m *SubscribeResult) fields(c *coder) {
	c.share(1, &m.Share)
	c.bool(2, &m.Accepted)
	c.prosed(3, &m.Reason, MaxReason)
	c.ms(4, &m.Retry)
	m.Children = firstOf(m.Children, MaxChildren)
	c.peers(5, &m.Children, MaxChildren)
	c.barred(6, &m.Reason)
	c.coded(7, &m.Reason)
	c.bool(8, &m.Elsewhere)
}

func (m *SubscribeResult) settle(c *coder) { m.Reason.settle(c.notAllowed && !m.Accepted) }

// Unsubscribe ends a subscription. Child to source.
type Unsubscribe struct {
	Share share.ID
	Done  bool // the child has all that it wanted
}

func (m *Unsubscribe) fields(c *coder) {
	c.share(1, &m.Share)
	c.bool(2, &m.Done)
}

// HaveMap is all pieces that a source has. Source to child. Its bits, once parsed,
// have the length for Pieces and no bit past it; the receiver must check that Pieces is
// the share's number.
type HaveMap struct {
	Share  share.ID
	Pieces int    // pieces of the share
	Bits   []byte // as share.Set.Bytes writes them and share.ParseSet reads them
}

func (m *HaveMap) fields(c *coder) {
	c.share(1, &m.Share)
	c.haveMap(2, &m.Pieces, &m.Bits)
}

func (m *HaveMap) settle(c *coder) { c.wholeMap(m.Pieces, &m.Bits) }

// Have is pieces that a source has got since its last HaveMap or Have.
// Source to child.
type Have struct {
	Share  share.ID
	Pieces []share.Piece // at most MaxHave
}

func (m *Have) fields(c *coder) {
	c.share(1, &m.Share)
	c.pieces(2, &m.Pieces, MaxHave)
}

// ShareGone says that a share is no longer offered. Source to child.
type ShareGone struct {
	Share  share.ID
	Reason Reason
}

func (m *ShareGone) fields(c *coder) {
	c.share(1, &m.Share)
	c.prosed(2, &m.Reason, MaxReason)
	c.coded(3, &m.Reason)
}

// Goodbye says that the sender leaves in good order and wants nothing more of the
// share. Source to child.
type Goodbye struct{ Share share.ID }

func (m *Goodbye) fields(c *coder) { c.share(1, &m.Share) }
