package simnet

import (
	"time"

	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Tier runs the nodes of a Net in another way than simnet does itself. Package
// bubble has one of whole nodes, on libp2p over a network of packets.
//
// A scenario describes its story to a Net in the same way whatever the tier is. All
// functions passed to it, and all methods of a Host, run one at a time, in Pass.
type Tier interface {
	// Add makes a host for a node, and returns its peer ID. It starts nothing.
	Add(x *Node) (Host, peers.ID)
	// Blocked is told whether packets get from one node to another from now on.
	Blocked(from, to *Node, blocked bool)
	// Pass lets d of time pass, or less if until returns true first, and runs what
	// After has scheduled. It returns the last result of until.
	Pass(until func() bool, d time.Duration) bool
	// After calls f in Pass once d has passed. It may be called from any
	// goroutine.
	After(d time.Duration, f func()) (stop func())
}

// Host runs one node of a Net. None of its methods waits.
type Host interface {
	// Start begins a life of the node.
	Start()
	// Stop ends it in the ordinary way: fetches are stopped, children told,
	// replies finished. It calls Node.Ended then.
	Stop()
	// Kill ends it at once, as kill -9 does, and PowerOff with its machine. Both
	// deal with the node's disk, and call Node.Gone before they return.
	Kill()
	PowerOff()
	// Freeze stops the node as well as the tier can; Thaw lets it go on.
	Freeze()
	Thaw()
	// Offer serves content that is whole, and Withdraw ends that, as a file of it changes.
	Offer(c *Content)
	Withdraw(c *Content)
	// Fetch begins a fetch, whose Notify is told what happens; StopFetch ends it.
	Fetch(f *Fetch)
	StopFetch(f *Fetch)
	// Read reads a file of a share as it comes, and reports to Got, or Failed. Choose adds
	// entries to what is fetched, or removes them.
	Read(r *Reading)
	Choose(f *Fetch, wanted bool, entries []int)
	// Coordinate begins to coordinate a fleet in the node's present life, and
	// FleetStatus is its state.
	Coordinate(f *Fleet)
	FleetStatus(f *Fleet) (fleet.Status, error)
	// Changed is told when the line of Node.Config, Node.Acts or Node.Ahead changed.
	Changed()
	// SetUploadRate bounds what the node sends, and SetDownloadRate what it asks for,
	// in this life and all others.
	SetUploadRate(bytesPerSecond int64)
	SetDownloadRate(bytesPerSecond int64)
	// Verified is the pieces that a running fetch has; nil while that is not known.
	Verified(f *Fetch) *share.Set
	// Serves says whether the node has a piece of content for others.
	Serves(c *Content, p share.Piece) bool
	// Why explains what a fetch waits for, in one line each. Plan is the pieces wanted,
	// leased and verified; all 0 where that cannot be known.
	Why(f *Fetch) (why []string, wanted, leased, verified int)
	// InFlight is the bytes asked for and not yet verified.
	InFlight() (bytes int64, blocks int)
	// Sent and Received are bytes to and from all others, in all lives.
	Sent() int64
	Received() int64
}
