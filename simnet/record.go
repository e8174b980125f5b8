package simnet

import (
	"errors"
	"time"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Recording is what happened in a run, in a shape that can be drawn. Its size is
// bounded however long the run and however many its messages: where a bound is
// met, samples lie further apart, and of the rest the first are kept and the
// others counted.
type Recording struct {
	Step     time.Duration // between samples; the first is at 0
	Samples  int           // of each node and content
	Nodes    []NodeRecord  // in the order in which they were added
	Contents []ContentRecord
	Reasons  []string // why nodes waited; Sample.Reason is an index
	Leases   []LeaseRecord
	Marks    []Mark

	ContentsLeftOut int
	LeasesLeftOut   int
	MarksLeftOut    int
}

// NodeRecord is what one node did.
type NodeRecord struct {
	Name    string
	Acts    string // how it treats others; empty: honestly
	Seeds   bool   // it had content from the start
	Fetches bool
	Wanted  int64         // bytes of all that it fetches
	Began   time.Duration // its first fetch
	Ended   time.Duration // when all that it fetches was whole, or had failed; 0: never
	Err     error         // how a fetch that never became whole failed
	Samples []Sample
}

// Stopped says whether a fetch was ended by the scenario, not by what went wrong.
func (n *NodeRecord) Stopped() bool { return errors.Is(n.Err, actors.ErrStopped) }

// Sample is a node at one time. Counts include all its lives.
type Sample struct {
	Verified int64 // bytes here and verified
	Sent     int64
	Received int64
	Twice    int64 // bytes that came twice
	Wasted   int64 // bytes that came when they were no longer wanted
	Doing    Doing
	Children [peers.Outside]int // now: active, passive and tracked ones
	Reason   int                // why it waits, in Recording.Reasons; 0 is no reason
}

// ContentRecord is where the pieces of a share were.
type ContentRecord struct {
	Name   string
	Pieces int
	Rows   int // of Holders
	// Holders is, per row and sample, how many honest running nodes have the
	// rarest piece of the row.
	Holders [][]uint16
}

// LeaseRecord is one piece lease.
type LeaseRecord struct {
	Node, Source int // indexes of Nodes
	Piece        share.Piece
	From, To     time.Duration
	End          LeaseEnd
}

// LeaseEnd is how a piece lease ended.
type LeaseEnd uint8

const (
	LeaseOpen     LeaseEnd = iota // it was open at the end of the run
	LeaseVerified                 // with its piece
	LeaseReturned                 // given back by its pool
	LeaseRevoked                  // it was late
	LeaseBeaten                   // another holder finished first
	LeaseLost                     // its source or its node was lost
)

func (e LeaseEnd) String() string {
	return [...]string{"open at the end", "verified", "given back", "taken back", "another was first", "source or node lost"}[e]
}

const (
	firstStep   = 20 * time.Millisecond // between samples
	maxSamples  = 512
	maxRows     = 200
	maxLeases   = 40_000
	maxMarks    = 4_000
	maxReasons  = 1_000
	maxWatched  = 2_000 // nodes
	maxContents = 8
)
