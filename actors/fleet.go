package actors

import (
	"context"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// A fleet is nodes of one owner that fetch a share together, so that each byte
// enters the fleet once. One of them coordinates:
//
//	member                                             coordinator
//	  FetchPool ──► leaseClient ──LeaseRequest, ...──►   leasemgr.Manager: which member may
//	                    │     ◄──LeaseResponse, ...───   fetch which piece from outside
//	                    ▼
//	                LeaseManager
//	                  leasemgr.Manager: which source
//	                  of this node fetches which piece
//
// The coordinator leases to a source of a member, and a piece that any member has
// to nobody. What a member may fetch from outside is what its LeaseManager is told
// that the outside has; what other members have it fetches without asking. So a
// pool knows nothing of all this, and there is one truth about every piece on each
// level: the coordinator's for the fleet, the LeaseManager's for the node.
//
// Between them travel the messages of wire/lease.go and wire/fleet.go, as they are.

// FleetConfig is how a transfer takes part in a fleet. The zero value does not.
type FleetConfig struct {
	// Coordinator is the node to lease from; it may be this one.
	Coordinator peers.Addr
	// Alone is after how long without the coordinator, or with it and without a
	// verified byte, the transfer goes on by itself, as one without a fleet, until it
	// joins again. 0 is never: it waits.
	Alone time.Duration
}

func (c FleetConfig) used() bool { return c.Coordinator.ID != "" }

// coordinatorName is the name under which the coordinator of a share is exported.
func coordinatorName(id share.ID) string { return "leases/" + id.String() }

// CoordinateShare, API -> Node: lease the pieces of a share to the members of a
// fleet. Answered with Coordinating.
type CoordinateShare struct {
	Share  share.ID
	Layout *share.Layout
	// Epoch grows with every run; the tokens of its leases begin with it.
	Epoch uint64
	// Allow are the peers that may be members. This node may always.
	Allow []peers.ID
	// Members are those of the last run. Until they are back, or for Settle (default
	// 10 s), nothing is leased but what a member is fetching already: they may have
	// what would be leased. What a member has counts for as long after it is gone.
	Members []peers.ID
	Settle  time.Duration
	// Remember keeps the members for the next run. It is called off the actors, one
	// call at a time. It may be nil.
	Remember func(members []peers.ID)
	// Leases is the configuration of the leases. Its zero value is not that of a
	// transfer: it does not hedge, because that fetches bytes twice, and it leaves
	// it to the members, who see every byte, to notice within seconds that a source
	// is slow: FirstDeadline and Slack are 15 s.
	Leases leasemgr.Config
	// Notify hears who comes and goes, from the coordinator: it must not block.
	Notify func(FleetEvent)
}

// Coordinating, Node -> API.
type Coordinating struct{ Err error } // it is being coordinated already

// StopCoordinating, API -> Node. Answered with Coordinating if asked for.
type StopCoordinating struct{ Share share.ID }

// FleetQuery, API -> Node -> coordinator. Answered with FleetStatus with at most
// Lines lines.
type FleetQuery struct {
	Share share.ID
	Lines int
}

// FleetStatus is how a fleet stands.
type FleetStatus struct {
	Epoch   uint64
	Members []FleetMember // by their IDs
	// Wanted pieces are had by no member and leased to none; Verified ones a member
	// has.
	Wanted, Leased, Verified int
	Refused                  int64    // messages of peers that are not allowed
	Waiting                  string   // why nothing is leased at all; else empty
	Why                      []string // one line per missing piece or run of pieces
}

// FleetMember is one member.
type FleetMember struct {
	Peer    peers.ID
	Pieces  int  // that it has
	Sources int  // outside the fleet, that it fetches from
	Gone    bool // it left or was lost; what it has is counted a little longer
	Doubted bool // another member could not get from it what it says it has
}

// FleetEvent says that somebody came or went.
type FleetEvent struct {
	Peer    peers.ID
	Change  FleetChange
	Members int // there are now
}

// FleetChange is what happened to a member.
type FleetChange uint8

const (
	MemberJoined      FleetChange = iota
	MemberLeft                    // it said so
	MemberLost                    // its leases have returned
	NotAllowed                    // it is not on the list; told once for each peer
	CoordinatorFailed             // the coordinator itself has ended, by a bug
	MemberDoubted                 // another member could not get from it what it says it has; told once
)

func (c FleetChange) String() string {
	return [...]string{"joined", "left", "was lost", "is not allowed", "failed", "says it has pieces that another member could not get"}[c]
}

// Coordinate begins to coordinate a share, unless ctx has ended.
func (p *Program) Coordinate(ctx context.Context, m CoordinateShare) error {
	r, err := begin[Coordinating](ctx, p, m)
	if err != nil {
		return err
	}
	return r.Err
}

// StopCoordinating ends it: the members hear, and wait.
func (p *Program) StopCoordinating(ctx context.Context, id share.ID) error {
	_, err := system.Ask[Coordinating](ctx, p.s, p.node, StopCoordinating{id})
	return err
}

// Fleet is how the fleet of a share that this node coordinates stands, with at
// most lines lines on the missing pieces.
func (p *Program) Fleet(ctx context.Context, id share.ID, lines int) (FleetStatus, error) {
	return system.Ask[FleetStatus](ctx, p.s, p.node, FleetQuery{id, lines})
}

// fleets are the shares that a node coordinates.
type fleets struct {
	running map[share.ID]coordinating
	seats   map[share.ID]*actor.PID // of shares that are whole, in fleets of others
	begun   int                     // of both
}

type coordinating struct {
	pid    *actor.PID
	notify func(FleetEvent)
}

func (n *node) coordinate(ctx actor.Context, m CoordinateShare) {
	if n.fleets.running[m.Share].pid != nil {
		ctx.Respond(Coordinating{fmt.Errorf("share %s is being coordinated by this node already: %w", m.Share.Short(), share.ErrHeld)})
		return
	}
	n.fleets.begun++
	pid := n.s.Spawn(ctx, fmt.Sprint("coordinator-", n.fleets.begun), leaseBox, func() actor.Actor { return newCoordinator(n.s, m) }, system.OnPanicStop)
	n.s.Export(coordinatorName(m.Share), pid)
	if n.fleets.running == nil {
		n.fleets.running = map[share.ID]coordinating{}
	}
	n.fleets.running[m.Share] = coordinating{pid, m.Notify}
	ctx.Respond(Coordinating{})
}

// StayInFleet, Transfer -> Node: what was wanted of the share is here, and goes on
// being served.
type StayInFleet struct {
	Share  share.ID
	Layout *share.Layout
	Have   *share.Set
	Fleet  FleetConfig
}

// startLeases starts what leases pieces to the pools and hears of those that are
// verified: the LeaseManager, or in a fleet a leaseClient above it.
func (t *transfer) startLeases(ctx actor.Context, leases func() actor.Actor) *actor.PID {
	if !t.cfg.Fleet.used() {
		return t.s.Spawn(ctx, fmt.Sprint("leases-", t.restarts), leaseBox, leases, system.OnPanicStop)
	}
	layout := t.manifest.Layout()
	return t.s.Spawn(ctx, fmt.Sprint("fleet-", t.restarts), leaseBox, func() actor.Actor {
		return &leaseClient{s: t.s, net: t.net, finder: t.finder, share: t.cmd.Share, layout: layout, cfg: t.cfg.Fleet,
			leases: leases, mine: t.have.Clone(), wanted: t.chosen.pieces(layout)}
	}, system.OnPanicStop)
}

// stayInFleet has the node stay a member, so that the fleet counts on it.
func (t *transfer) stayInFleet(ctx actor.Context) {
	if t.cfg.Fleet.used() {
		ctx.Send(t.node, StayInFleet{t.cmd.Share, t.manifest.Layout(), t.have.Clone(), t.cfg.Fleet})
	}
}

// stay has a node that fetches no more say what it has.
func (n *node) stay(ctx actor.Context, m StayInFleet) {
	if n.fleets.seats[m.Share] != nil {
		return
	}
	if n.fleets.seats == nil {
		n.fleets.seats = map[share.ID]*actor.PID{}
	}
	n.fleets.begun++
	n.fleets.seats[m.Share] = n.s.Spawn(ctx, fmt.Sprint("seat-", n.fleets.begun), controlBox, func() actor.Actor {
		return &leaseClient{s: n.s, net: n.deps.Network, finder: n.finder, share: m.Share, layout: m.Layout, cfg: m.Fleet, mine: m.Have.Clone()}
	}, system.OnPanicRestart)
}

// leaveFleet ends that.
func (n *node) leaveFleet(ctx actor.Context, id share.ID) {
	if pid := n.fleets.seats[id]; pid != nil {
		ctx.Stop(pid)
		delete(n.fleets.seats, id)
	}
}

func (n *node) stopCoordinating(ctx actor.Context, m StopCoordinating) {
	if c := n.fleets.running[m.Share]; c.pid != nil {
		ctx.Stop(c.pid)
		delete(n.fleets.running, m.Share)
	}
	if ctx.Sender() != nil {
		ctx.Respond(Coordinating{})
	}
}

func (n *node) fleetQuery(ctx actor.Context, m FleetQuery) {
	if c := n.fleets.running[m.Share]; c.pid != nil {
		ctx.Forward(c.pid)
	} else {
		ctx.Respond(FleetStatus{Waiting: "not coordinated by this node"})
	}
}

// coordinatorFailed says whether it was a coordinator that panicked. It is not
// begun again under the same epoch, because its tokens would not be new.
func (n *node) coordinatorFailed(m system.ChildFailed) bool {
	for id, c := range n.fleets.running {
		if c.pid.Equal(m.Who) {
			delete(n.fleets.running, id)
			if c.notify != nil {
				c.notify(FleetEvent{Change: CoordinatorFailed})
			}
			return true
		}
	}
	return false
}
