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
	// connection that was lost: they are asked for again.
	Keep []uint32
}

// AppendLeaseRequest encodes a LeaseRequest.
func AppendLeaseRequest(dst []byte, m LeaseRequest) []byte {
	dst = appendShare(dst, 1, m.Share)
	dst = appendUint(dst, 2, m.Max)
	dst = appendUint(dst, 3, m.Rate)
	dst = appendMS(dst, 4, m.RTT)
	dst = appendSource(dst, 5, m.Source)
	atMost("kept pieces", len(m.Keep), MaxLeases)
	return appendPieces(dst, 6, m.Keep)
}

// ParseLeaseRequest reads a LeaseRequest.
func ParseLeaseRequest(b []byte) (LeaseRequest, error) {
	var m LeaseRequest
	r := read("lease request", b)
	for r.next() {
		switch r.num {
		case 1:
			m.Share = r.share()
		case 2:
			m.Max = r.uint32()
		case 3:
			m.Rate = r.uint64()
		case 4:
			m.RTT = r.ms()
		case 5:
			m.Source = r.source()
		case 6:
			m.Keep = r.pieces(m.Keep, MaxLeases)
		}
	}
	r.hasShare(m.Share)
	return m, r.err
}

// LeaseResponse is the answer to LeaseRequest: leases, or why there are none.
type LeaseResponse struct {
	Share   share.ID
	Leases  []Lease       // at most MaxLeases
	Refused string        // why there are none; at most MaxReason bytes
	Until   time.Duration // refused: ask again after; 0 to wait for LeasesAvailable
	Never   bool          // refused: do not ask again
	Source  peers.ID
}

// Lease is a piece lease as it travels: with the time that is left of it.
type Lease struct {
	Piece   uint32
	Token   uint64
	Expires time.Duration // from now
	Hedge   bool          // somebody else holds a lease of the piece too
	Begun   bool          // some of its blocks may be verified already
}

// AppendLeaseResponse encodes a LeaseResponse.
func AppendLeaseResponse(dst []byte, m LeaseResponse) []byte {
	atMost("leases", len(m.Leases), MaxLeases)
	dst = appendShare(dst, 1, m.Share)
	for _, l := range m.Leases {
		var at int
		dst, at = openLease(dst, l.Piece, l.Token)
		dst = appendMS(dst, 3, l.Expires)
		dst = appendBool(dst, 4, l.Hedge)
		dst = closeItem(appendBool(dst, 5, l.Begun), at)
	}
	dst = appendBytes(dst, 3, printable(m.Refused, MaxReason))
	dst = appendMS(dst, 4, m.Until)
	dst = appendBool(dst, 5, m.Never)
	return appendSource(dst, 6, m.Source)
}

// ParseLeaseResponse reads a LeaseResponse.
func ParseLeaseResponse(b []byte) (LeaseResponse, error) {
	var m LeaseResponse
	r := read("lease response", b)
	m.Leases = list[Lease](&r, 2, MaxLeases)
	for r.next() {
		switch r.num {
		case 1:
			m.Share = r.share()
		case 2:
			m.Leases = append(m.Leases, r.lease())
		case 3:
			m.Refused = r.text(MaxReason)
		case 4:
			m.Until = r.ms()
		case 5:
			m.Never = r.bool()
		case 6:
			m.Source = r.source()
		}
	}
	r.hasShare(m.Share)
	return m, r.err
}

func (r *reader) lease() Lease {
	var l Lease
	in := r.item()
	for in.next() {
		switch in.num {
		case 1:
			l.Piece = in.piece()
		case 2:
			l.Token = in.uint64()
		case 3:
			l.Expires = in.ms()
		case 4:
			l.Hedge = in.bool()
		case 5:
			l.Begun = in.bool()
		}
	}
	r.after(in)
	return l
}

// LeaseProgress says how far leased pieces have come. Fetcher to coordinator.
type LeaseProgress struct {
	Share  share.ID
	Items  []Progress // at most MaxLeases
	Source peers.ID
}

// Progress is the progress of one piece lease.
type Progress struct {
	Piece uint32
	Token uint64
	Bytes uint32 // verified since the last report; at most share.MaxPiece
}

// AppendLeaseProgress encodes a LeaseProgress.
func AppendLeaseProgress(dst []byte, m LeaseProgress) []byte {
	atMost("leases", len(m.Items), MaxLeases)
	dst = appendShare(dst, 1, m.Share)
	for _, i := range m.Items {
		var at int
		dst, at = openLease(dst, i.Piece, i.Token)
		dst = closeItem(appendUint(dst, 3, i.Bytes), at)
	}
	return appendSource(dst, 3, m.Source)
}

// ParseLeaseProgress reads a LeaseProgress.
func ParseLeaseProgress(b []byte) (LeaseProgress, error) {
	var m LeaseProgress
	var err error
	m.Share, m.Source, m.Items, err = parseItems("lease progress", b, func(r *reader, i *Progress) {
		switch r.num {
		case 1:
			i.Piece = r.piece()
		case 2:
			i.Token = r.uint64()
		case 3:
			i.Bytes = uint32(r.uint(share.MaxPiece))
		}
	})
	return m, err
}

// LeaseReturned gives piece leases back. Fetcher to coordinator.
type LeaseReturned struct {
	Share  share.ID
	Items  []Returned // at most MaxLeases
	Source peers.ID
}

// Returned is one piece lease given back.
type Returned struct {
	Piece  uint32
	Token  uint64
	Reason string // a word; at most MaxWord bytes
}

// AppendLeaseReturned encodes a LeaseReturned.
func AppendLeaseReturned(dst []byte, m LeaseReturned) []byte {
	atMost("leases", len(m.Items), MaxLeases)
	dst = appendShare(dst, 1, m.Share)
	for _, i := range m.Items {
		var at int
		dst, at = openLease(dst, i.Piece, i.Token)
		dst = closeItem(appendBytes(dst, 3, printable(i.Reason, MaxWord)), at)
	}
	return appendSource(dst, 3, m.Source)
}

// ParseLeaseReturned reads a LeaseReturned.
func ParseLeaseReturned(b []byte) (LeaseReturned, error) {
	var m LeaseReturned
	var err error
	m.Share, m.Source, m.Items, err = parseItems("lease returned", b, func(r *reader, i *Returned) {
		switch r.num {
		case 1:
			i.Piece = r.piece()
		case 2:
			i.Token = r.uint64()
		case 3:
			i.Reason = r.text(MaxWord)
		}
	})
	return m, err
}

// LeasesAvailable says that asking again may now succeed. Coordinator to a
// fetcher that it refused.
type LeasesAvailable struct {
	Share  share.ID
	Source peers.ID
}

// AppendLeasesAvailable encodes a LeasesAvailable.
func AppendLeasesAvailable(dst []byte, m LeasesAvailable) []byte {
	return appendSource(appendShare(dst, 1, m.Share), 2, m.Source)
}

// ParseLeasesAvailable reads a LeasesAvailable.
func ParseLeasesAvailable(b []byte) (LeasesAvailable, error) {
	var m LeasesAvailable
	r := read("leases available", b)
	for r.next() {
		switch r.num {
		case 1:
			m.Share = r.share()
		case 2:
			m.Source = r.source()
		}
	}
	r.hasShare(m.Share)
	return m, r.err
}

// LeaseRevoked takes piece leases back; nobody is blamed. Coordinator to fetcher.
type LeaseRevoked struct {
	Share  share.ID
	Items  []Revoked // at most MaxLeases
	Source peers.ID
}

// Revoked is one piece lease taken back.
type Revoked struct {
	Piece uint32
	Token uint64
}

// AppendLeaseRevoked encodes a LeaseRevoked.
func AppendLeaseRevoked(dst []byte, m LeaseRevoked) []byte {
	atMost("leases", len(m.Items), MaxLeases)
	dst = appendShare(dst, 1, m.Share)
	for _, i := range m.Items {
		dst = closeItem(openLease(dst, i.Piece, i.Token))
	}
	return appendSource(dst, 3, m.Source)
}

// ParseLeaseRevoked reads a LeaseRevoked.
func ParseLeaseRevoked(b []byte) (LeaseRevoked, error) {
	var m LeaseRevoked
	var err error
	m.Share, m.Source, m.Items, err = parseItems("lease revoked", b, func(r *reader, i *Revoked) {
		switch r.num {
		case 1:
			i.Piece = r.piece()
		case 2:
			i.Token = r.uint64()
		}
	})
	return m, err
}

// PieceDone says that a leased piece is verified. Fetcher to coordinator.
type PieceDone struct {
	Share share.ID
	Piece uint32
	Token uint64
}

// AppendPieceDone encodes a PieceDone.
func AppendPieceDone(dst []byte, m PieceDone) []byte {
	dst = appendShare(dst, 1, m.Share)
	dst = appendUint(dst, 2, m.Piece)
	return appendUint(dst, 3, m.Token)
}

// ParsePieceDone reads a PieceDone.
func ParsePieceDone(b []byte) (PieceDone, error) {
	var m PieceDone
	r := read("piece done", b)
	for r.next() {
		switch r.num {
		case 1:
			m.Share = r.share()
		case 2:
			m.Piece = r.piece()
		case 3:
			m.Token = r.uint64()
		}
	}
	r.hasShare(m.Share)
	return m, r.err
}

// openLease starts an item about one piece lease, in field 2.
func openLease(dst []byte, piece uint32, token uint64) ([]byte, int) {
	dst, at := openItem(dst, 2)
	return appendUint(appendUint(dst, 1, piece), 2, token), at
}

// parseItems reads a message with a share in field 1, a list of up to MaxLeases
// items in field 2, each of whose fields goes to field, and a source in field 3.
func parseItems[T any](what string, b []byte, field func(*reader, *T)) (share.ID, peers.ID, []T, error) {
	var id share.ID
	var source peers.ID
	r := read(what, b)
	items := list[T](&r, 2, MaxLeases)
	for r.next() {
		switch r.num {
		case 1:
			id = r.share()
		case 2:
			var i T
			in := r.item()
			for in.next() {
				field(&in, &i)
			}
			r.after(in)
			items = append(items, i)
		case 3:
			source = r.source()
		}
	}
	r.hasShare(id)
	return id, source, items, r.err
}
