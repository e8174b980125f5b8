package actors

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/transfer"
	"github.com/piecelease/fetcher/wire"
)

// This file is the protocol between the actors of one process: every message that is
// not an actor's own, sorted by receiver. A message belongs to its receiver once it is
// sent. What travels between nodes is messages of package wire, sent as they are:
// Subscribe, Unsubscribe and their answers between a Seeder and the FetchPools and
// Mirrors of others, and those between a member of a fleet and its coordinator. The
// latter have twins here, marked (fleet); see fleet.go.

// ---- to Node ----

// Handle names one transfer of a program, and no later one of the same share. See
// [Program.Handle].
type Handle struct {
	Share  share.ID
	serial uint64
}

// FetchShare, API -> Node. Answered with TransferStarted.
type FetchShare struct {
	Handle
	Sources []peers.Addr
	// Manifest, when it is known already, spares asking for it.
	Manifest *share.Manifest
	// Select says how urgent each entry is; Skip is not to be fetched. Nil, and a
	// nil result, is Normal for all. It is called once, off the mailbox; its error
	// ends the transfer.
	Select func(*share.Manifest) ([]leasemgr.Priority, error)
	Disk   Disk
	Config TransferConfig
	// Notify hears the events of the transfer, in order, from the transfer's
	// actor: it must not block.
	Notify func(Event)
}

// TransferStarted, Node -> API.
type TransferStarted struct {
	Transfer *actor.PID
	Err      error // the share is being fetched already
}

// ToTransfer, API -> Node: passed on to a transfer. A question is answered with ErrFinishing
// if that has ended.
type ToTransfer struct {
	Transfer Handle
	Message  any
}

// PeerLied, Transfer -> Node.
type PeerLied struct {
	Peer  peers.ID
	Proof bool // proven at once, where a single bad block might be chance
}

// PeerMeasured, Transfer -> Node: what a pool saw of its source.
type PeerMeasured struct {
	Peer   peers.ID
	Bytes  int64   // verified since the last report
	Rate   float64 // bytes per second; 0 when not yet known
	First  time.Duration
	Missed int // promises since the last report that it did not keep: a deadline, a piece that it was to have
}

// AskRank, Transfer -> Node. Answered with RankSource, and PeerBanned if so.
type AskRank struct{ Peer peers.ID }

// ServeOn, Transfer -> Node: what was wanted of the share is here, and goes on being
// served. Sources are to hear of that, so that they name this node to others.
type ServeOn struct {
	Share   share.ID
	Layout  *share.Layout
	Sources []peers.Addr
}

// transferEnded, Transfer -> Node: the transfer is over and may be stopped.
type transferEnded struct{ Share share.ID }

// ---- to Seeder ----

// OfferShare, API or Transfer -> Seeder: the Catalog offers it from now on, or anew.
type OfferShare struct{ Share share.ID }

// PieceAvailable, Transfer -> Seeder.
type PieceAvailable struct {
	Share share.ID
	Piece share.Piece
}

// WithdrawShare, API -> Seeder: the Catalog does not offer it any more. Answered when the
// children were told, if asked for.
type WithdrawShare struct {
	Share  share.ID
	Reason string // empty: an ordinary end, said with Goodbye
}

// Withdrawn, Seeder -> asker.
type Withdrawn struct{ Children int }

// AdmitRequest, p2p -> Seeder: may this child be served now? Reply is called
// once, when the answer is known; it must not block. Forwarded by the Node.
type AdmitRequest struct {
	Child   peers.ID
	Share   share.ID
	Piece   share.Piece
	Bytes   int
	Pressed bool // as in wire.PieceRequest
	Reply   func(Admission)
}

// Admission is the answer to AdmitRequest.
type Admission struct {
	Job   peers.Job // to be given back with ServeDone when Reply.Status is OK
	Reply wire.Reply
}

// undelivered answers for a Seeder that is no more.
func (m AdmitRequest) Undelivered() {
	m.Reply(Admission{Reply: wire.Reply{Status: wire.Busy, Retry: time.Second}})
}

// ServeDone, p2p -> Seeder: a job that was admitted has ended, or is no longer wanted.
type ServeDone struct {
	Job  peers.Job
	Sent int // bytes of content
}

// ChildrenQuery, API -> Seeder: who takes something of a share at present; answered
// with a ChildList.
type ChildrenQuery struct{}

// ChildList answers ChildrenQuery, in the order in which they began.
type ChildList []ChildEvent

// ServeParked, p2p -> Seeder: the child takes nothing of a job that was admitted, and
// Left bytes of it are not taken. Its ServeDone is still to come.
type ServeParked struct {
	Job  peers.Job
	Left int
}

// ChildLost, network -> Seeder: the last connection to a peer has gone.
type ChildLost struct{ Peer peers.ID }

// SetUploadRate, API -> Seeder: bytes per second; 0 is no limit.
type SetUploadRate struct{ Rate int64 }

// ---- to Finder ----

// FindSources, Transfer -> Finder: sources of a share are wanted; Known are those to begin with.
// Answered with SourceFound for each, now and later.
type FindSources struct {
	Share share.ID
	Known []peers.Addr
}

// StopFinding, Transfer -> Finder.
type StopFinding struct{ Share share.ID }

// PeersNamed, FetchPool or Seeder -> Finder: peers said to have (some of) a share.
type PeersNamed struct {
	Share share.ID
	By    peers.ID
	Peers []peers.Addr
	Sure  bool // by a peer that the user trusts, so that what it says is believed
}

// ---- to Transfer ----

// SourceAlso, Transfer -> FetchPool: other addresses of its source.
type SourceAlso struct{ Addr peers.Addr }

// PeerBanned, Node -> Transfer.
type PeerBanned struct {
	Peer  peers.ID
	Until time.Time
}

// PieceDone, LeaseManager -> Transfer: a piece is verified and written.
type PieceDone struct {
	Piece     share.Piece
	Credits   []Credit
	Last      bool // every piece of the plan is verified now
	Remaining int
	Leases    leasemgr.Stats // of the transfer so far
}

// DiskFailed, PieceVerifier -> Transfer: a write failed.
type DiskFailed struct{ Err error }

// StopTransfer, API -> Transfer: ends it, keeping what is verified. Its last event is Ended.
type StopTransfer struct{}

// ProgressQuery, API -> Transfer. Answered with Progress.
type ProgressQuery struct{}

// WhyQuery, API -> Transfer. Answered with PlanStatus.
type WhyQuery struct{}

// SetPriority, API -> Transfer: how urgent some entries are from now on. Answered with PrioritySet.
type SetPriority struct {
	Entries  []int // of the manifest
	Priority leasemgr.Priority
}

// PrioritySet, Transfer -> API.
type PrioritySet struct{ Err error }

// LeasesEnded, LeaseManager -> Transfer: leases ended otherwise than with their piece, or
// are watched.
type LeasesEnded struct {
	Leases leasemgr.Stats
	Events []leasemgr.LeaseEvent // since the last one; empty unless TransferConfig.WatchLeases
}

// PlanDone, LeaseManager -> Transfer: nothing is left to fetch, after SetPriorities.
type PlanDone struct{}

// OpenReader, API -> Transfer: somebody will read a file, this far ahead of where
// it is. Answered with ReaderOpened when the share is open.
type OpenReader struct {
	Path  string
	Ahead int64 // bytes
}

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

// What the transfer is told as its core takes it: SourceFound by the Finder, SourceStatus
// by a FetchPool, SourceLied by a FetchPool or a PieceVerifier, BlocksVerified by a
// PieceVerifier, PlanStatus by the LeaseManager when asked with PlanQuery.
type (
	SourceFound    = transfer.SourceFound
	SourceStatus   = transfer.SourceStatus
	SourceLied     = transfer.SourceLied
	BlocksVerified = transfer.BlocksVerified
	PlanStatus     = transfer.PlanStatus
)

// ---- to LeaseManager ----

// SourceUp, FetchPool -> LeaseManager: the sender fetches from Source.
type SourceUp struct{ Source peers.ID }

// SourceHas, FetchPool -> LeaseManager: the whole set of a source; nil is nothing.
type SourceHas struct {
	Source peers.ID
	Have   *share.Set
}

// SourceHasMore, FetchPool -> LeaseManager.
type SourceHasMore struct {
	Source peers.ID
	Pieces []share.Piece
}

// SourceHasNot, leaseClient -> LeaseManager: a source no longer has these; its leases on them end.
type SourceHasNot struct {
	Source peers.ID
	Pieces []share.Piece
}

// SourceDown, FetchPool or Transfer -> LeaseManager: its leases return.
type SourceDown struct{ Source peers.ID }

// LeaseRequest, FetchPool -> LeaseManager (fleet). Answered with LeaseResponse.
type LeaseRequest struct {
	Source peers.ID
	Max    int
	Rate   float64 // bytes per second; 0 when not measured
	RTT    time.Duration
}

// LeaseProgress, FetchPool -> LeaseManager (fleet): bytes of a lease came in, or
// with none that the source is not late: this node does not ask it yet.
type LeaseProgress struct {
	Source peers.ID
	Piece  share.Piece
	Token  share.Token
	Bytes  int
}

// SourceMeasured, FetchPool -> LeaseManager: what a source delivers now. A pool with
// enough leases asks for none, and the source may have become slow meanwhile.
type SourceMeasured struct {
	Source peers.ID
	Rate   float64 // bytes per second
	RTT    time.Duration
}

// LeaseReturned, FetchPool -> LeaseManager (fleet): given up, for a reason.
type LeaseReturned struct {
	Source peers.ID
	Leases []ReturnedLease
}

// ReturnedLease is one lease of LeaseReturned.
type ReturnedLease struct {
	Piece share.Piece
	Token share.Token
	Why   leasemgr.Reason
	Retry time.Duration // leasemgr.Elsewhere: when the source may be asked again; 0: it names no time
}

// PieceVerified, PieceVerifier -> LeaseManager: every block is verified and written.
type PieceVerified struct {
	Piece   share.Piece
	Credits []Credit
}

// Credit is what one source gave of a piece.
type Credit struct {
	Source peers.ID
	Token  share.Token
	Bytes  int
}

// PieceBegun, PieceVerifier -> LeaseManager: some blocks of a piece are verified.
type PieceBegun struct{ Piece share.Piece }

// RankSource, Transfer -> LeaseManager.
type RankSource struct {
	Source peers.ID
	Score  float64
	Banned bool
}

// PauseLeases, Transfer -> LeaseManager: grant nothing (or again) while the disk is full.
type PauseLeases struct {
	Paused bool
	Why    string
}

// SetPriorities, Transfer -> LeaseManager. Answered with PlanDone if nothing is left to fetch.
type SetPriorities struct{ Runs []leasemgr.Run }

// SetReader, Transfer -> LeaseManager: what a reader reads next, nothing if Count is 0.
type SetReader struct {
	Reader leasemgr.Reader
	First  share.Piece
	Count  int
}

// PlanQuery, API -> Transfer -> LeaseManager. Answered with PlanStatus of at most Lines lines.
type PlanQuery struct {
	Lines int
	Quiet time.Time // since when the transfer has waited for a verified byte of its sources; zero: it does not
}

// ---- to FetchPool ----

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

// PieceStates, PieceVerifier -> FetchPool: which blocks are here of pieces that had been begun.
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
	Piece share.Piece
	Token share.Token
	Bytes int // of the run
	Good  int // ... that were verified and written
	Bad   bool
}

// BlocksHere, PieceVerifier -> FetchPool: these blocks of a piece that several
// pools work on are verified, whoever sent them.
type BlocksHere struct {
	Piece share.Piece
	First share.Block
	Count int
}

// StopPool, Transfer -> FetchPool: end, saying why; answered by SourceStatus with Gone.
type StopPool struct{ Why string }

// ---- to PieceVerifier ----

// AskPieces, FetchPool -> PieceVerifier. Answered with PieceStates.
type AskPieces struct {
	Pieces []share.Piece
	Tokens []share.Token
}

// CheckProof, FetchPool -> PieceVerifier.
type CheckProof struct {
	Piece  share.Piece
	Token  share.Token
	Source peers.ID
	Values []share.Hash
}

// CheckBlocks, FetchPool -> PieceVerifier. The verifier releases data.
type CheckBlocks struct {
	Piece   share.Piece
	Token   share.Token
	Source  peers.ID
	First   share.Block
	Data    []byte
	Release func()
}

// ---- results of tasks, each to the actor that started it ----

type opened struct {
	target Target
	chosen transfer.Choice
	err    error
}

type synced struct{ err error }

// roomSeen is how full the disk is.
type roomSeen struct{ need, free int64 }

type finished struct {
	path string
	err  error
}

type closed struct{ err error }

// ---- from links and the network, each to the pool or transfer that opened it ----

type linkUp struct {
	link int
	rtt  time.Duration
}

type linkProof struct {
	link   int
	req    uint64
	values []share.Hash
}

type linkBlocks struct {
	link    int
	req     uint64
	first   share.Block
	data    []byte
	release func()
}

type linkProgress struct {
	link  int
	req   uint64
	bytes int
}

type linkFinished struct {
	link int
	req  uint64
}

type linkStatus struct {
	link int
	req  uint64
	r    wire.Reply
}

type linkWaits struct {
	link int
	why  string
}

type linkDown struct {
	link int
	err  error
}

type manifestCame struct {
	from     peers.ID
	manifest []byte
	r        wire.Reply
	err      error
}
