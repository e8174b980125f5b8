package actors

import (
	"time"

	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/transfer"
	"github.com/piecelease/fetcher/verifier"
	"github.com/piecelease/fetcher/wire"
)

// This file has the messages to a Transfer.

// PeerBanned, Node -> Transfer.
type PeerBanned struct {
	Peer  peers.ID
	Until time.Time
}

// PieceDone, LeaseManager -> Transfer: a piece is verified and written.
type PieceDone struct {
	Piece     share.Piece
	Credits   []verifier.Credit
	Last      bool // every piece of the plan is verified now
	Remaining int
	Leases    leasemgr.Stats // of the transfer so far
}

// findAgain, Node -> Transfer: the Finder, or Beacons, has begun again, and knows nothing of what is looked for.
type findAgain struct{}

// DiskFailed, PieceVerifier -> Transfer: a write failed.
type DiskFailed struct{ Err error }

// StopTransfer, API -> Transfer: ends it, keeping what is verified. Its last event is Ended.
type StopTransfer struct{}

// ProgressQuery, API -> Transfer. Answered with Progress.
type ProgressQuery struct{}

// BroughtQuery, API -> Transfer. Answered with Brought.
type BroughtQuery struct{}

// Brought, Transfer -> API: what transfer.Brought returns.
type Brought struct{ By []byte }

// WhyQuery, API -> Transfer. Answered with PlanStatus.
type WhyQuery struct{}

// SetPriority, API -> Transfer: how urgent some entries are from now on. Answered with PrioritySet.
type SetPriority struct {
	Entries  []int // of the manifest
	Priority leasemgr.Priority
}

// SetDownloadRate, API -> Transfer: bytes per second; 0 is no limit but the node's.
type SetDownloadRate struct{ Rate int64 }

// PrioritySet, Transfer -> API.
type PrioritySet struct{ Err error }

// LeasesEnded, LeaseManager -> Transfer: leases ended without their piece being completed, or
// are watched.
type LeasesEnded struct {
	Leases leasemgr.Stats
	Events []leasemgr.LeaseEvent // since the last one: those that failed or expired, and all with TransferConfig.WatchLeases
}

// PlanDone, LeaseManager -> Transfer: nothing is left to fetch, after SetPriorities.
type PlanDone struct{}

// OpenReader, API -> Transfer: somebody opens a file. Answered with ReaderOpened when the share is open.
type OpenReader struct{ Path string }

// ReaderOpened, Transfer -> API.
type ReaderOpened struct {
	Reader leasemgr.Reader
	Entry  int
	Err    error
}

// MoveReader, API -> Transfer: where a reader is now. With Wait it is answered
// with ReaderReady when the byte at Offset is verified, or never will be.
type MoveReader struct {
	Reader leasemgr.Reader
	Offset int64
	Ahead  int64 // bytes
	Wait   bool
}

// ReaderReady, Transfer -> API: bytes up to End are verified.
type ReaderReady struct {
	End int64
	Err error
}

// CloseReader, API -> Transfer -> LeaseManager.
type CloseReader struct{ Reader leasemgr.Reader }

// Messages that the transfer passes to its core as they are: SourceFound from the Finder,
// SourceStatus from a FetchPool, SourceLied from a FetchPool or a PieceVerifier, BlocksVerified
// from a PieceVerifier, PlanStatus from the LeaseManager when asked with PlanQuery.
type (
	SourceFound    = transfer.SourceFound
	SourceStatus   = transfer.SourceStatus
	SourceLied     = transfer.SourceLied
	BlocksVerified = transfer.BlocksVerified
	PlanStatus     = transfer.PlanStatus
)

// The results of a request for the manifest, and of disk tasks.

type manifestComes struct {
	from        peers.ID
	bytes, size int
}

type manifestCame struct {
	from     peers.ID
	manifest []byte
	r        wire.Reply
	err      error
}

type opened struct {
	target Target
	chosen transfer.Choice
	err    error
}

// Undelivered gives up the place on disk of a transfer that has ended.
func (m opened) Undelivered() {
	if m.target != nil {
		m.target.Close()
	}
}

type synced struct{ err error }

// roomSeen is how full the disk is.
type roomSeen struct{ need, free int64 }

type finished struct {
	path string
	err  error
}

type closed struct{ err error }
