package transfer

import (
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// SourceFound is a source, or more addresses of one.
type SourceFound struct {
	Addr peers.Addr
	Via  peers.Via
}

// SourceStatus is the state of a pool, when that has changed.
type SourceStatus struct {
	Pool      int // its number
	Source    peers.ID
	State     SourceState
	Why       string         // for people
	LastLoss  string         // why the last connection failed, until another one works
	Proxy     error          // ... if this node's proxy is why: peers.ProxyFault
	Stood     bool           // ... though it was connected
	Busy      bool           // it answers that it is busy
	Connected bool           // it has been, at least once
	Answered  bool           // something took a connection, at least once, and said nothing
	From      peers.Endpoint // of its connection; empty: there was none
	Dials     int            // failed in a row
	Held      bool           // it waits for other links of this node
	Fetching  bool           // something is asked of it
	Paced     bool           // the download limit is what holds it up
	RTT       time.Duration
	Gone      bool // the pool has ended and Outcome says how
	Outcome   error
}

// SourceLied is what a source was caught at.
type SourceLied struct {
	Source peers.ID
	Piece  share.Piece
	Token  share.Token
	Kind   Lie
	Rule   string // Broken: which one
}

// Lie is what a source was caught at.
type Lie uint8

const (
	BadBlock Lie = iota // a block that is not what the manifest says
	BadProof            // block hashes that do not fold to the piece
	Broken              // broke the protocol
)

func (l Lie) String() string {
	return [...]string{"sent a wrong block", "sent a wrong proof", "broke the protocol"}[l]
}

// BlocksVerified says that a run was checked, and its good blocks written.
type BlocksVerified struct {
	Source    peers.ID
	Piece     share.Piece
	Blocks    share.Blocks // verified and written
	Bytes     int          // of them
	Duplicate int          // had been here already
	Hashed    int
}

// PlanStatus is the state of the plan of a LeaseManager.
type PlanStatus struct {
	Wanted, Leased, Verified int
	Why                      []string // one line per missing piece or run of pieces
	Lacking                  bool     // the first of these waits for a source that has it: no connected one does
	Fleet                    string   // why the fleet lets this node fetch nothing, if that is so
	Barred                   string   // ... and why its coordinator does not admit this node, if it does not
}

// Place is the place on disk of a share, when it has been opened.
type Place struct {
	Open  bool       // else there is none
	Have  *share.Set // pieces that are durable here; the Transfer's from then on
	Path  string     // where the share is, if it was here already, whole
	Whole bool
}
