package fetcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	ma "github.com/multiformats/go-multiaddr"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/internal/bounds"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store"
)

// Fleet configures how a node cooperates with other nodes of its owner, so that each
// byte of a share enters the fleet once: a coordinator leases to its members what
// they may fetch from outside, and they fetch the rest from each other. With the zero
// value it does not.
type Fleet struct {
	// Coordinator is the node that all fetches of this node lease from: a multiaddr
	// that ends in /p2p/ID. It may be this node. While it is away, nothing is fetched from
	// outside the fleet; a fetch says so while it waits. Members must know the
	// coordinator's ID, and it theirs, so FreshIdentity is of no use to either.
	Coordinator string
	// Alone is how long a fetch waits for a coordinator that is away, or for a verified byte
	// while it is there, before it goes on by itself until the coordinator is back, or until
	// it joins again; 0 is forever. What it fetches then may enter the fleet twice.
	Alone time.Duration
	// Store is where the members elect a coordinator, in place of Coordinator. All shares are
	// then fetched within the fleet, and every member may be elected.
	Store FleetStore
	// Heartbeat is how often an elected coordinator says that it is alive, the same on
	// all members; default 2 s. When it is lost, another is elected within two heartbeats.
	Heartbeat time.Duration
	// Allow are the peers that may lease what this node coordinates.
	Allow []peers.ID
	// Settle is how long a restarted coordinator waits for the members it had, before it
	// leases what they may have already; default 10 s. What a member has still counts
	// for as long after it is gone.
	Settle time.Duration
	// Leases is the configuration of what this node coordinates.
	Leases leasemgr.Config
}

// FleetStatus is the state of a fleet.
//
//	Epoch                      of the coordinator: it grows with each run
//	Members                    []FleetMember, by their IDs
//	Wanted, Leased, Verified   int: pieces that no member has and none fetches; that one fetches; that one has
//	Refused                    int64: messages of peers that are not allowed
//	Absent                     int: members of the last run that it waits for before it leases anything
//	Waiting                    string, for people: why nothing is leased at all; else empty
//	Why                        []string, for people: per missing piece or run of pieces
type FleetStatus = fleet.Status

// FleetMember is the state of a member of a fleet.
//
//	Peer     peers.ID
//	Pieces   int   that it says it has
//	Sources  int   outside the fleet, that it fetches from
//	Gone     bool  it left or was lost; what it has counts a little longer
//	Doubted  bool  another member could not get from it what it says it has
type FleetMember = fleet.MemberStatus

// FleetEvent says that a member came or went.
//
//	Peer     peers.ID
//	Change   FleetChange
//	Members  int  how many there are now
type FleetEvent = fleet.Event

// FleetChange is what happened to a member; String returns it in words.
type FleetChange = fleet.Change

// What happens in a fleet.
const (
	MemberBroken     = fleet.MemberBroken
	MemberDisallowed = fleet.MemberDisallowed
	MemberDoubted    = fleet.MemberDoubted
	MemberJoined     = fleet.MemberJoined
	MemberLeft       = fleet.MemberLeft
	MemberLost       = fleet.MemberLost
	NotAllowed       = fleet.NotAllowed
)

func (f Fleet) validate() error {
	var faults bounds.Fields
	bounds.In(&faults, "Alone", f.Alone, 1, 366*24*time.Hour)
	bounds.In(&faults, "Settle", f.Settle, 1, 24*time.Hour)
	bounds.In(&faults, "Heartbeat", f.Heartbeat, 50*time.Millisecond, time.Minute)
	faults.Add("Leases", f.Leases.Validate())
	faults.Add("Store", f.Store.validate())
	if f.Store.KV != nil && f.Coordinator != "" {
		faults.Add("Coordinator", errors.New("a fleet with a store elects it"))
	}
	_, err := f.forTransfer()
	faults.Add("Coordinator", err)
	return faults.Err()
}

// forTransfer is the part of f that the actors of one transfer need.
func (f Fleet) forTransfer() (actors.FleetConfig, error) {
	if f.Store.KV != nil {
		return actors.FleetConfig{Secret: f.Store.secret(), Alone: f.Alone}, nil
	}
	if f.Coordinator == "" {
		return actors.FleetConfig{}, nil
	}
	a, err := ma.NewMultiaddr(f.Coordinator)
	if err != nil {
		return actors.FleetConfig{}, fmt.Errorf("coordinator %q is not a multiaddr such as /ip4/192.0.2.1/tcp/4001/p2p/12D3...: %v", f.Coordinator, err)
	}
	who, err := groupPeers([]ma.Multiaddr{a})
	if err != nil {
		return actors.FleetConfig{}, fmt.Errorf("coordinator: %w", err)
	}
	return actors.FleetConfig{Coordinator: who[0], Alone: f.Alone}, nil
}

// elections is what the actors need to elect a coordinator.
func (f Fleet) elections() *actors.Elections {
	if f.Store.KV == nil {
		return nil
	}
	return &actors.Elections{KV: f.Store.KV, Secret: f.Store.secret(), Heartbeat: f.Heartbeat, Settle: f.Settle, Leases: f.Leases}
}

// Coordination is a share that this node coordinates for its fleet. Its methods
// are safe for concurrent use.
type Coordination struct {
	node     *Node
	manifest *share.Manifest
	kept     *store.Fleet
	events   feed[FleetEvent]
	done     chan struct{}

	mu    sync.Mutex // guards the fields below
	ended bool
	err   error
}

// Coordinate leases the pieces of a share, given by a ticket or a share ID, to the
// members of a fleet, which Config.Fleet.Allow lists, until the node is closed. If the
// node does not have the list of files, it asks the ticket's peers and more for
// it; it fetches nothing else, and need not have the share. It may
// fetch it as well, if its Fleet.Coordinator is itself.
//
// One process at a time coordinates a share for one state directory; in another
// one the error wraps share.ErrHeld.
func (n *Node) Coordinate(ctx context.Context, ticketOrID string, more []string) (*Coordination, error) {
	m, err := n.Manifest(ctx, ticketOrID, more)
	if err != nil {
		return nil, err
	}
	kept, err := n.state.OpenFleet(m.ID())
	if err != nil {
		return nil, err
	}
	c := &Coordination{node: n, manifest: m, kept: kept, done: make(chan struct{})}
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil, errors.Join(ErrClosed, kept.Close())
	}
	n.fleets[m.ID()] = c
	n.mu.Unlock()
	f := n.cfg.Fleet
	err = n.program.Coordinate(ctx, actors.CoordinateShare{
		Config: fleet.Config{Share: m.ID(), Layout: m.Layout(), Epoch: kept.Epoch(), Allow: f.Allow, Members: kept.Members(), Settle: f.Settle,
			Leases: f.Leases},
		Remember: c.remember, Notify: c.notify,
	})
	if err != nil {
		c.end(err)
		return nil, err
	}
	return c, nil
}

func (c *Coordination) remember(members []peers.ID) {
	if err := c.kept.Remember(members); err != nil {
		c.node.log.Warn("the list of the fleet's members was not saved", "share", c.manifest.ID().String(), "error", err)
	}
}

// notify takes the events of the coordinator. It never blocks.
func (c *Coordination) notify(e FleetEvent) {
	if e.Change == fleet.CoordinatorFailed {
		c.end(errors.New("internal error in the coordinator"))
		return
	}
	c.events.say(e)
}

// end releases what was opened.
func (c *Coordination) end(err error) {
	n := c.node
	n.mu.Lock()
	if n.fleets[c.manifest.ID()] == c {
		delete(n.fleets, c.manifest.ID())
	}
	n.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	c.err = errors.Join(err, c.kept.Close())
	c.events.end()
	close(c.done)
}

// Manifest is the list of files of the share.
func (c *Coordination) Manifest() *share.Manifest { return c.manifest }

// Epoch is the number of this run, which is higher than the last: the upper 24
// bits of its tokens.
func (c *Coordination) Epoch() uint64 { return c.kept.Epoch() }

// Events returns what happens to the members, beginning with the last 256 events before the
// call. Each call makes a reader of its own, until ctx or the coordination ends, when the
// channel is closed. It is bounded: a caller that does not read it loses events.
func (c *Coordination) Events(ctx context.Context) <-chan FleetEvent { return c.events.read(ctx) }

// Status returns the state of the fleet, with at most lines lines on the missing pieces.
func (c *Coordination) Status(lines int) (FleetStatus, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return c.node.program.Fleet(ctx, c.manifest.ID(), lines)
}

// Allow replaces the list of the peers that may be members. A peer that is no longer on it
// loses its leases.
func (c *Coordination) Allow(list []peers.ID) {
	c.node.program.AllowMembers(c.manifest.ID(), slices.Clone(list))
}

// Done is closed when the coordination has ended; Err then says why, nil if it was told to.
func (c *Coordination) Done() <-chan struct{} { return c.done }

// Err is why the coordination ended.
func (c *Coordination) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Stop ends the coordination. The members wait for another, or go on alone.
func (c *Coordination) Stop(ctx context.Context) error {
	err := c.node.program.StopCoordinating(ctx, c.manifest.ID())
	c.end(nil)
	return err
}
