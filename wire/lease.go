package wire

import (
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Limits of the messages between a fetcher and the coordinator of its fleet.
const (
	MaxLeases  = 4_096 // leases in one message
	MaxWord    = 32    // bytes of the reason of one returned lease
	MaxMembers = 64    // peers named in one FleetMembers
)

// A lease is for one source of one member of a fleet. In the messages of this
// file Source is that source; the member is who the connection proves it to be.

// LeaseRequest asks a coordinator for piece leases. Fetcher to coordinator;
// answered with one LeaseResponse.
type LeaseRequest struct {
	Share  share.ID
	Max    uint32        // leases at most, besides those of Keep
	Rate   uint64        // measured goodput, bytes per second; 0 if not measured
	RTT    time.Duration // measured round trip
	Source peers.ID
	// Keep is pieces, at most MaxLeases, that are being fetched under leases of a
	// lost connection: leases for them are requested again.
	Keep []share.Piece
}

func (m *LeaseRequest) fields(c *coder) {
	c.share(1, &m.Share)
	c.uint32(2, &m.Max)
	c.uint64(3, &m.Rate)
	c.ms(4, &m.RTT)
	c.peer(5, &m.Source)
	c.pieces(6, &m.Keep, MaxLeases)
}

// LeaseResponse is the answer to LeaseRequest: leases, or why there are none.
type LeaseResponse struct {
	Share   share.ID
	Leases  []Lease       // at most MaxLeases
	Refused Reason        // why there are none, or no more
	Until   time.Duration // refused: ask again after; 0 to wait for LeasesAvailable
	Never   bool          // refused: do not ask again
	Source  peers.ID
}

func (m *LeaseResponse) fields(c *coder) {
	c.share(1, &m.Share)
	items(c, 2, &m.Leases, MaxLeases, (*Lease).fields)
	c.prosed(3, &m.Refused, MaxReason)
	c.ms(4, &m.Until)
	c.bool(5, &m.Never)
	c.peer(6, &m.Source)
	c.coded(7, &m.Refused)
}

// Lease is a piece lease as it is sent: with the time that is left of it.
type Lease struct {
	Piece   share.Piece
	Token   share.Token
	Expires time.Duration // from now
	Hedge   bool          // somebody else holds a lease of the piece too
	Begun   bool          // some of its blocks may be verified already
}

func (l *Lease) fields(c *coder) {
	c.piece(1, &l.Piece)
	c.token(2, &l.Token)
	c.ms(3, &l.Expires)
	c.bool(4, &l.Hedge)
	c.bool(5, &l.Begun)
}

// LeaseProgress says how far leased pieces have come. Fetcher to coordinator.
type LeaseProgress struct {
	Share  share.ID
	Items  []Progress // at most MaxLeases
	Source peers.ID
}

func (m *LeaseProgress) fields(c *coder) {
	c.share(1, &m.Share)
	items(c, 2, &m.Items, MaxLeases, (*Progress).fields)
	c.peer(3, &m.Source)
}

// Progress is the progress of one piece lease.
type Progress struct {
	Piece share.Piece
	Token share.Token
	Bytes int // verified since the last report; at most share.MaxPiece
}

func (p *Progress) fields(c *coder) {
	c.piece(1, &p.Piece)
	c.token(2, &p.Token)
	varint(c, 3, &p.Bytes, share.MaxPiece)
}

// LeaseReturned gives piece leases back. Fetcher to coordinator.
type LeaseReturned struct {
	Share  share.ID
	Items  []Returned // at most MaxLeases
	Source peers.ID
}

func (m *LeaseReturned) fields(c *coder) {
	c.share(1, &m.Share)
	items(c, 2, &m.Items, MaxLeases, (*Returned).fields)
	c.peer(3, &m.Source)
}

// Returned is one piece lease given back.
type Returned struct {
	Piece  share.Piece
	Token  share.Token
	Reason Reason
}

func (r *Returned) fields(c *coder) {
	c.piece(1, &r.Piece)
	c.token(2, &r.Token)
	c.prosed(3, &r.Reason, MaxWord)
	c.coded(4, &r.Reason)
}

// LeasesAvailable says that asking again may now succeed. Coordinator to a
// fetcher that it refused.
type LeasesAvailable struct {
	Share  share.ID
	Source peers.ID
}

func (m *LeasesAvailable) fields(c *coder) {
	c.share(1, &m.Share)
	c.peer(2, &m.Source)
}

// LeaseRevoked takes piece leases back; nobody is blamed. Coordinator to fetcher.
type LeaseRevoked struct {
	Share  share.ID
	Items  []Revoked // at most MaxLeases
	Source peers.ID
}

func (m *LeaseRevoked) fields(c *coder) {
	c.share(1, &m.Share)
	items(c, 2, &m.Items, MaxLeases, (*Revoked).fields)
	c.peer(3, &m.Source)
}

// Revoked is one piece lease taken back.
type Revoked struct {
	Piece share.Piece
	Token share.Token
}

func (r *Revoked) fields(c *coder) {
	c.piece(1, &r.Piece)
	c.token(2, &r.Token)
}

// PieceDone says that a leased piece is verified. Fetcher to coordinator.
type PieceDone struct {
	Share share.ID
	Piece share.Piece
	Token share.Token
}

func (m *PieceDone) fields(c *coder) {
	c.share(1, &m.Share)
	c.piece(2, &m.Piece)
	c.token(3, &m.Token)
}
