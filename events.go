package fetcher

import (
	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/transfer"
)

// Event is what happened to a transfer: one of Planned, Progress, SourceChanged,
// LeaseEvent, Stalled and Ended, which comes last. encoding/json writes it as the line of
// its type in docs/json.md; the command and the API of a node do the same.
type Event = transfer.Event

// Planned says that the list of files is here and what will be fetched.
//
//	Manifest             *share.Manifest
//	Bytes                int64  of what was chosen
//	Resumed              int64  bytes of these, verified before
//	Pieces               int    still to fetch
//	Files, Dirs, Links   int    that were chosen; folders that are empty
type Planned = transfer.Planned

// Progress is a snapshot of a transfer. All counts are exact, and about what was chosen,
// unless they say otherwise.
//
//	Share      share.ID
//	State      State          the phase
//	Wait       Wait           what it waits for
//	Reason     string         for people: why nothing moves, or what is being done; empty while bytes flow
//	Since      time.Time      of the reason
//	At         time.Time      of all this
//	Moved      time.Time      when the last byte was verified, or the transfer began
//	GivesUp    time.Time      when it ends if no byte comes until then; zero: not at all
//	Name       string         of the share
//	Bytes      int64          of the content; 0 until the list of files is here
//	Verified   int64          bytes here and verified, those of unfinished pieces too
//	Resumed    int64          bytes of these, from an earlier run
//	Duplicate  int64          bytes that came twice, of the whole share
//	Hashed     int64          bytes hashed, of the whole share
//	WireIn     int64          stream bytes from sources, framing included
//	WireOut    int64          stream bytes to them
//	Files      int
//	Dirs       int            empty ones
//	Links      int
//	Pieces     int
//	Done       int            pieces verified
//	Rate       float64        verified bytes per second, over the last few seconds
//	File       string         path of the file that the last block was of; empty before the first
//	Leases     Leases         how the piece leases fared, since the process began
//	Sources    []Source       in the order in which they were found
//	Path       string         where the share is, once State is Complete
type Progress = transfer.Progress

// Source is what one source has done for a transfer.
//
//	Peer       peers.ID
//	Via        peers.Via      how it was found
//	State      SourceState
//	Since      time.Time      of the state
//	Why        string         of the state, for people
//	Bytes      int64          verified
//	Pieces     int            that it had a part in
//	BadBlocks  int            blocks that were not what the share says
//	Failures   Failures       piece leases that it did not keep, by why
//	Banned     bool           it is asked for nothing any more
//	Lie        string         the last, for people, if it lied
//	Rate       float64        verified bytes per second, over the last few seconds
//	RTT        time.Duration  of its connection; 0 if that is not known
//	Standing   peers.Standing its set, tier, location and score among all sources, if more are known than are fetched from at once
//	Way        string         how it is connected, as a Way; in a SourceChanged
type Source = transfer.Source

// Failures counts the piece leases that a source did not keep, by why.
//
//	Bad   int  it sent wrong data
//	Late  int  the piece did not come in time
//	None  int  it did not have the piece after all
//	Lost  int  the connection ended
type Failures = transfer.Failures

// SourceChanged says that a source has a new state.
//
//	Source  Source
type SourceChanged = transfer.SourceChanged

// LeaseEvent is the beginning or the end of a piece lease. It comes only with
// FetchOptions.WatchLeases.
//
//	Piece   share.Piece
//	Source  peers.ID
//	Token   share.Token
//	At      time.Time
//	End     how it ended: one of LeaseGranted, which is not yet, LeaseFinished, ...
//	Why     leasemgr.Reason of one that failed
//	Hedge   bool           another source held the piece when it was granted
//	Held    time.Duration  from grant to end
//	Bytes   int64          that came in under it
type LeaseEvent = transfer.LeaseEvent

// Leases counts the piece leases of a transfer, by how they ended.
//
//	Granted      uint64  hedges and takeovers included
//	Hedged       uint64  on a piece that another source held
//	Taken        uint64  from an overdue holder, for a faster source
//	Finished     uint64  that ended with their piece, through their source
//	Failed       uint64  given back
//	Expired      uint64  not kept in time
//	Revoked      uint64  ended by this node
//	HedgedBytes  int64   of all hedges: what they could have fetched twice at most
//	Duplicate    int64   bytes that hedges did fetch twice, at most
type Leases = transfer.Leases

// Stalled says that no byte was verified for a while, and why. It is repeated when the
// reason changes.
//
//	For     time.Duration  since the last verified byte
//	Reason  string         for people
//	Why     []string       for people: per missing piece or run of pieces
type Stalled = transfer.Stalled

// Ended is the last event of a transfer.
//
//	Path  string    where the share is
//	Err   error     nil when it is whole there; else as Transfer.Wait says
//	Last  Progress
type Ended = transfer.Ended

// State is the phase of a transfer; String returns its name.
//
//	Finding -> Opening -> Fetching -> Finishing -> Complete
//	   |          |         |  ^         |
//	   +----------+---------+--|---------+-> Failed
//	                        v  |
//	                       DiskFull
type State = transfer.State

// Wait is what a transfer waits for, if no byte comes in; String returns it in words.
type Wait = transfer.Wait

// SourceState is the state of a source; String returns its name.
type SourceState = transfer.SourceState

// Child is what a peer fetches of a share from this node.
//
//	Share  share.ID
//	Peer   peers.ID
//	Addr   string      where its connection comes from; empty if that is not known
//	Bytes  int64       of content that it was sent
//	Since  time.Time   when it began
//	At     time.Time   of all this
//	State  ChildState
//
// [Node.Children] also fills Standing, a peers.Standing: how it stands among all children.
type Child = actors.ChildEvent

// ChildState is the state of a child; String returns its name.
type ChildState = actors.ChildState

// The phases of a transfer.
const (
	Finding   = transfer.Finding   // looking for a source with the list of files
	Opening   = transfer.Opening   // preparing the place on disk
	Fetching  = transfer.Fetching  // pieces are leased and fetched
	DiskFull  = transfer.DiskFull  // waiting for room
	Finishing = transfer.Finishing // all is verified; syncing and naming
	Complete  = transfer.Complete  // whole on disk
	Failed    = transfer.Failed    // over; what was verified is kept
)

// What a transfer waits for.
const (
	NoWait        = transfer.NoWait        // for nothing: bytes flow, or this node is at work itself
	ForSource     = transfer.ForSource     // none is known, or none is left
	ForConnection = transfer.ForConnection // no source is connected
	ForHolder     = transfer.ForHolder     // sources are connected, but none has what is missing
	ForLease      = transfer.ForLease      // what is missing is not leased to any source
	ForBytes      = transfer.ForBytes      // what is leased, from its sources
	ForLimit      = transfer.ForLimit      // the download limit
	ForReader     = transfer.ForReader     // on demand, and nobody reads what is missing
	ForRoom       = transfer.ForRoom       // on the disk
)

// The states of a source.
const (
	Connecting = transfer.Connecting // a link is being made
	Joining    = transfer.Joining    // connected, subscribing
	Active     = transfer.Active     // may be leased pieces
	Resting    = transfer.Resting    // waiting before another try
	Left       = transfer.Left       // over, for a stated reason
	Banned     = transfer.Banned     // proven to have lied; over until the ban ends
)

// SeveralSources is what Transfer.Brought has of a piece that several sources had a part in.
const SeveralSources = transfer.Several

// How a piece lease ended, if it has.
const (
	LeaseGranted  = leasemgr.Granted
	LeaseFinished = leasemgr.Finished
	LeaseFailed   = leasemgr.Failed
	LeaseExpired  = leasemgr.Expired
	LeaseRevoked  = leasemgr.Revoked
)

// The states of a child.
const (
	ChildTakes = actors.ChildTakes // it fetches something of a share
	ChildDone  = actors.ChildDone  // it has all that it wanted, from here or elsewhere
	ChildLeft  = actors.ChildLeft  // it is gone, or the share is, before that
)

// ErrStopped is the error of a transfer that was told to stop; what is verified is kept.
var ErrStopped = transfer.ErrStopped

// ErrUnfound is wrapped by the error of a transfer to which no source was named, and that found none. It
// comes with share.ErrStalled.
var ErrUnfound = transfer.ErrUnfound

// ErrNotMember is wrapped by the error of a transfer that the coordinator of its fleet did not let take part. It
// comes with share.ErrNotAllowed.
var ErrNotMember = transfer.ErrNotMember
