package transfer

import (
	"time"

	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Todo is what the owner of a Transfer has to do.
type Todo struct {
	Do   []any     // in this order: values of the types below
	Wake time.Time // when to call Next even if nothing happens; zero: never
}

// Actions that concern sources.
type (
	// FindSources asks the Finder for sources of the share; StopFinding ends that.
	FindSources struct{}
	StopFinding struct{}
	// Rank asks for the ranking of a peer.
	Rank struct{ Peer peers.ID }
	// Blame says that a peer lied, and whether that is proven.
	Blame struct {
		Peer  peers.ID
		Proof bool
	}
	// AskManifest asks a peer for the manifest; ManifestCame is called with the result.
	// With Others the peer may name some that have it. StopAsking gives that up.
	AskManifest struct {
		From   peers.Addr
		Others bool
	}
	StopAsking struct{ Peer peers.ID }
	// StartPool starts a pool that fetches from a source; At are its addresses. StopPool ends it.
	StartPool struct {
		Pool   int // its number, in this transfer
		Source peers.Addr
		At     Addresses
		Whole  bool // the source has just said that it has every piece
	}
	StopPool struct{ Pool int }
	// TellPool gives a pool more addresses of its source.
	TellPool struct {
		Pool int
		Addr peers.Addr
	}
	// Unsubscribe tells a source that everything is here.
	Unsubscribe struct{ Peer peers.ID }
)

// Actions that concern leases and verifying.
type (
	// StartLeases starts the LeaseManager; StartVerifiers the verifiers; both end with
	// StopWorkers, and VerifierGone is told of each verifier that has ended.
	StartLeases struct {
		Run    int        // how often it has begun again
		Have   *share.Set // the transfer's own: to be cloned
		Wanted *share.Set // nil: all
	}
	StartVerifiers struct{ Count int }
	StopWorkers    struct{}
	// AskPlan asks for the state of the plan; Planned is told.
	AskPlan struct {
		Lines int
		Quiet time.Time // since when the transfer waits for a verified byte; zero: it does not
	}
	// Prioritise tells the LeaseManager how urgent some pieces are.
	Prioritise struct{ Runs []leasemgr.Run }
	// Pause makes it grant nothing while Why is not empty.
	Pause struct{ Why string }
	// DropSource makes it take back what a source was leased.
	DropSource struct{ Peer peers.ID }
	// Steer tells it what a reader reads next, nothing if Count is 0; DropReader that it
	// has ended.
	Steer struct {
		Reader leasemgr.Reader
		First  share.Piece
		Count  int
	}
	DropReader struct{ Reader leasemgr.Reader }
)

// Actions that concern the disk.
type (
	// Open opens the place on disk, with what is chosen of the share; nil: the choice is
	// still to be asked for. Opened is told.
	Open struct {
		Manifest *share.Manifest
		Chosen   Choice
	}
	// StopHashing cuts short the long disk work: Open, and Finish.
	StopHashing struct{}
	// Select tells the place what is wanted.
	Select struct{ Wanted []bool }
	// OnDisk is work for the disk. One is under way at a time, and Open counts too.
	OnDisk struct{ Work Work }
)

// Work is work for a disk.
type Work uint8

const (
	Sync        Work = iota // Synced is told
	LookForRoom             // RoomSeen is
	Finish                  // Finished is
	Close                   // Closed is
)

// Actions that tell others something.
type (
	// Offer says that the share can be had from now on, as far as it is here.
	Offer struct{}
	// Available says that one more piece can be had.
	Available struct{ Piece share.Piece }
	// StayInFleet and ServeOn say that the share is here and is still being served;
	// ServeOn also says where it came from, and whether every piece of it is here.
	StayInFleet struct{ Have *share.Set } // the transfer's own: to be cloned
	ServeOn     struct {
		Sources []peers.Addr
		Whole   bool
	}
	// PrioritySet answers SetPriority.
	PrioritySet struct {
		To  peers.Port
		Err error
	}
	// ReaderOpened answers OpenReader, and ReaderReady MoveReader.
	ReaderOpened struct {
		To     peers.Port
		Reader leasemgr.Reader
		Entry  int
		Err    error
	}
	ReaderReady struct {
		To  peers.Port
		End int64 // of the bytes that are verified
		Err error
	}
	// Tell is an event for whoever asked for the share.
	Tell struct{ Event Event }
	// BeginsAgain is for the log: the transfer goes on from what is on disk.
	BeginsAgain struct{ Why error }
	// Over is the end: nothing is left, and Ended is to be told.
	Over struct{ Ended Ended }
)
