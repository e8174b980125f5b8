package wire

import (
	"cmp"
	"strconv"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Status is how a peer answers a request for a manifest or a piece.
type Status uint8

const (
	OK       Status = iota
	NotFound        // does not have the share, or not this piece
	Gone            // had it; the file changed or was removed
	Busy            // later: see Reply.Retry
	Refused         // never: see Reply.Reason
)

// String is the status as the documents write it.
func (s Status) String() string {
	switch s {
	case OK:
		return "OK"
	case NotFound:
		return "NOT_FOUND"
	case Gone:
		return "GONE"
	case Busy:
		return "BUSY"
	case Refused:
		return "REFUSED"
	}
	return "status " + strconv.Itoa(int(s))
}

// Reply is a status with what goes with it.
type Reply struct {
	Status Status
	Retry  time.Duration // Busy: ask again after
	Reason Reason        // Busy, Refused, Gone
	// Elsewhere, with Busy: only for this piece. It was just given to another
	// child, and can be had there soon. Only in replies to requests for pieces.
	Elsewhere bool
	// Whole, with OK: every piece of the share is here. Only in replies to requests for
	// manifests.
	Whole bool
	// Others, with Busy: peers that have the manifest too, to be asked for it first. Only in
	// replies to requests for manifests that take them.
	Others []peers.Addr
}

// String says in words for people what a reply says of the peer that gave it.
func (r Reply) String() string {
	s := [...]string{"serves it", "does not have it", "no longer has the share", "is busy", "refuses"}[min(r.Status, Refused)]
	if r.Reason.Prose != "" {
		s += ": " + r.Reason.String()
	}
	return cmp.Or(r.Reason.Code.String(), s)
}

// Limits of the wire. What exceeds one resets the stream.
const (
	MaxMessage = 256 << 10 // bytes of one actor envelope
	MaxRun     = 256 << 10 // bytes of raw blocks behind one header
	MaxRequest = 1 << 10   // bytes of one piece request
	MaxOthers  = 6         // peers named in place of a manifest: they fit in a header
	MaxHeader  = 16 << 10  // bytes of one reply header, a proof of 256 hashes included
)

// PieceRequest asks for a run of blocks of one piece.
type PieceRequest struct {
	ID    uint64 // chosen by the asker, unique per link
	Piece share.Piece
	First share.Block // first block
	Count int         // blocks, at least 1
	Proof bool        // send the piece's block hashes first
	// Pressed says that others give the asker less than the source could, though it
	// went to them when it was sent elsewhere.
	Pressed bool
}
