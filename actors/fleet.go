package actors

import (
	"context"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// This file starts and ends the actors of package fleet: a coordinator for each share
// that this node coordinates, and a leaseClient for each that it fetches or has fetched
// in a fleet. They exchange the messages of wire/lease.go and wire/fleet.go as they are.

// coordinatorName is the name under which the coordinator of a share is exported.
func coordinatorName(id share.ID) string { return "leases/" + id.String() }

// CoordinateShare, API -> Node: lease the pieces of a share to the members of a
// fleet. Answered with Coordinating.
type CoordinateShare struct {
	fleet.Config // Self and Seed are filled in here
	// Remember keeps the members for the next run. It is called off the actors, one
	// call at a time. It may be nil.
	Remember func(members []peers.ID)
	// Notify hears who joins and leaves, from the coordinator: it must not block.
	Notify func(fleet.Event)

	office *actor.PID // the office that elected it; nil: none
}

// Coordinating, Node -> API.
type Coordinating struct{ Err error } // it is being coordinated already

// StopCoordinating, API -> Node. Answered with Coordinating if asked for.
type StopCoordinating struct{ Share share.ID }

// AllowMembers, API -> Node -> coordinator: these may be members from now on.
type AllowMembers struct {
	Share share.ID
	Allow []peers.ID
}

// FleetQuery, API -> Node -> coordinator. Answered with fleet.Status with at most
// Lines lines.
type FleetQuery struct {
	Share share.ID
	Lines int
}

// Coordinate begins to coordinate a share, unless ctx has ended.
func (p *Program) Coordinate(ctx context.Context, m CoordinateShare) error {
	r, err := begin[Coordinating](ctx, p, m)
	if err != nil {
		return err
	}
	return r.Err
}

// StopCoordinating ends the coordination of a share: the members are told, and wait.
func (p *Program) StopCoordinating(ctx context.Context, id share.ID) error {
	_, err := system.Ask[Coordinating](ctx, p.s, p.node, StopCoordinating{id})
	return err
}

// AllowMembers replaces the list of peers that may lease a share that this node coordinates.
func (p *Program) AllowMembers(id share.ID, allow []peers.ID) {
	p.s.Send(p.node, AllowMembers{id, allow})
}

// Fleet is the state of the fleet of a share that this node coordinates, with at
// most lines lines on the missing pieces.
func (p *Program) Fleet(ctx context.Context, id share.ID, lines int) (fleet.Status, error) {
	return system.Ask[fleet.Status](ctx, p.s, p.node, FleetQuery{id, lines})
}

// fleets are the shares that a node coordinates.
type fleets struct {
	running map[share.ID]coordinating
	seats   map[share.ID]seated     // of shares that are served, in fleets of others
	offices map[share.ID]*actor.PID // of shares whose fleet elects its coordinator
	begun   int                     // of all
}

type coordinating struct {
	pid    *actor.PID
	notify func(fleet.Event)
}

// seated is a leaseClient that a node has below it.
type seated struct {
	pid *actor.PID // it may have ended: see FetchShare
	m   StayInFleet
}

// coordinates handles the messages about coordinators and offices.
func (n *node) coordinates(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case CoordinateShare:
		n.coordinate(ctx, m)
	case StopCoordinating:
		n.stopCoordinating(ctx, m)
	case AllowMembers:
		n.allowMembers(ctx, m)
	case FleetQuery:
		n.fleetQuery(ctx, m)
	case joinOffice:
		n.joinOffice(ctx, m)
	case officeEnded:
		n.officeEnded(ctx, m)
	}
}

func (n *node) coordinate(ctx actor.Context, m CoordinateShare) {
	if n.fleets.running[m.Share].pid != nil {
		ctx.Respond(Coordinating{words.Error(share.ErrHeld, "share %s is being coordinated by this node already", m.Share.Short())})
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

// StayInFleet, Transfer -> Node: what was wanted of the share is here, and is still
// being served.
type StayInFleet struct {
	Share  share.ID
	Layout *share.Layout
	Have   *share.Set
	Fleet  FleetConfig
}

// stay keeps a node that has done fetching in the fleet, to announce what it has: more than before, if it stayed before.
func (n *node) stay(ctx actor.Context, m StayInFleet) {
	n.leaveFleet(ctx, m.Share)
	if n.fleets.seats == nil {
		n.fleets.seats = map[share.ID]seated{}
	}
	n.fleets.begun++
	self := ctx.Self()
	n.fleets.seats[m.Share] = seated{n.s.Spawn(ctx, fmt.Sprint("seat-", n.fleets.begun), controlBox, func() actor.Actor {
		return newLeaseClient(n.s, n.deps.Network, n.finder, self, m.Share, m.Layout, m.Fleet, m.Have.Clone())
	}, system.OnPanicRestart), m}
}

// leaveFleet ends what stay began.
func (n *node) leaveFleet(ctx actor.Context, id share.ID) {
	if x := n.fleets.seats[id]; x.pid != nil {
		ctx.Stop(x.pid)
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
	} else if pid := n.fleets.offices[m.Share]; pid != nil {
		ctx.Forward(pid)
	} else {
		ctx.Respond(fleet.Status{Waiting: "not coordinated by this node"})
	}
}

func (n *node) allowMembers(ctx actor.Context, m AllowMembers) {
	if c := n.fleets.running[m.Share]; c.pid != nil {
		ctx.Send(c.pid, m)
	}
}

// coordinatorFailed reports whether it was a coordinator that panicked. It is not
// restarted under the same epoch, because its tokens would not be new.
func (n *node) coordinatorFailed(m system.ChildFailed) bool {
	for id, c := range n.fleets.running {
		if c.pid.Equal(m.Who) {
			delete(n.fleets.running, id)
			if c.notify != nil {
				c.notify(fleet.Event{Change: fleet.CoordinatorFailed})
			}
			return true
		}
	}
	return false
}

// ---- how package fleet refers to actors ----

// portOf is how package fleet names an actor; nil is nobody.
func portOf(pid *actor.PID) fleet.Port {
	if pid == nil {
		return fleet.Port{}
	}
	return fleet.Port{Node: pid.Address, Name: pid.Id}
}

// pidOf is the actor that a port names.
func pidOf(p fleet.Port) *actor.PID {
	if p == (fleet.Port{}) {
		return nil
	}
	return &actor.PID{Address: p.Node, Id: p.Name}
}

// sendPort does what package fleet wants done with an actor.
func sendPort(ctx actor.Context, x fleet.Send) {
	switch x.Message.(type) {
	case fleet.Watch:
		ctx.Watch(pidOf(x.To))
	case fleet.Unwatch:
		ctx.Unwatch(pidOf(x.To))
	default:
		ctx.Send(pidOf(x.To), x.Message)
	}
}
