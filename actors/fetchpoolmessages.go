package actors

import (
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// This file has the messages to a FetchPool. Those marked (fleet) have twins in package
// wire, sent between a member of a fleet and its coordinator; see leaseclient.go.

// LeaseResponse, LeaseManager -> FetchPool (fleet).
type LeaseResponse struct {
	Leases  []leasemgr.Lease
	Refused leasemgr.Refusal // when there are no leases
}

// LeasesAvailable, LeaseManager -> FetchPool (fleet): ask again.
type LeasesAvailable struct{}

// LeaseRevoked, LeaseManager -> FetchPool (fleet): stop work on these.
type LeaseRevoked struct{ Leases []RevokedLease }

// LeaseUrgent, LeaseManager -> FetchPool: a reader waits for this piece.
type LeaseUrgent struct {
	Piece share.Piece
	Token share.Token
}

// RevokedLease is one lease of LeaseRevoked.
type RevokedLease struct {
	Piece share.Piece
	Token share.Token
}

// PieceStates, PieceVerifier -> FetchPool: which blocks of pieces begun earlier are here.
type PieceStates struct{ States []PieceState }

// PieceState is one piece of PieceStates.
type PieceState struct {
	Piece  share.Piece
	Token  share.Token
	Have   []bool
	Proven bool
}

// BlocksChecked, PieceVerifier -> FetchPool: the verdict on a run.
type BlocksChecked struct {
	Bytes int // of the run
	Good  int // ... that were verified and written
}

// BlocksHere, PieceVerifier -> FetchPool: these blocks of a piece that several
// pools work on are verified, whoever sent them.
type BlocksHere struct {
	Piece share.Piece
	First share.Block
	Count int
}

// SourceAlso, Transfer -> FetchPool: other addresses of its source.
type SourceAlso struct{ Addr peers.Addr }
