package actors

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/wire"
)

// coordinator owns the fleet.Coordinator of a share that this node coordinates.
type coordinator struct {
	s    *system.System
	cmd  CoordinateShare
	core *fleet.Coordinator
	wake system.Alarm

	leases bool // it has leased something
}

func newCoordinator(s *system.System, cmd CoordinateShare) *coordinator {
	cmd.Self, cmd.Seed = s.Self(), s.Seed("fleet "+cmd.Share.String())
	return &coordinator{s: s, cmd: cmd}
}

func (c *coordinator) Receive(ctx actor.Context) {
	now, by := c.s.Now(), c.from(ctx)
	switch m := ctx.Message().(type) {
	case *actor.Started:
		c.core = fleet.NewCoordinator(c.cmd.Config, now)
	case wire.Subscribe:
		c.core.Subscribe(by, m.Share, m.Addrs, now)
	case wire.Unsubscribe:
		c.core.Unsubscribe(by, m.Share, now)
	case wire.HaveMap:
		c.core.HaveMap(by, m.Share, m.Pieces, m.Bits, now)
	case wire.Have:
		c.core.Have(by, m.Share, m.Pieces, now)
	case wire.PieceDone:
		c.core.PieceDone(by, m, now)
	case wire.SourceHas:
		c.core.SourceHas(by, m, now)
	case wire.SourceHasMore:
		c.core.SourceHasMore(by, m, now)
	case wire.SourceDown:
		c.core.SourceDown(by, m, now)
	case wire.LeaseRequest:
		c.core.LeaseRequest(by, m, now)
	case wire.LeaseProgress:
		c.core.LeaseProgress(by, m, now)
	case wire.LeaseReturned:
		c.core.LeaseReturned(by, m, now)
	case wire.FleetTerm:
		c.core.Term(by, m, now)
	case deposed:
		c.deposed(ctx, m, now)
	case AllowMembers:
		c.core.Allow(m.Allow, now)
	case FleetQuery:
		ctx.Respond(c.core.Status(m.Lines, now))
	case fleetSaved:
		c.core.Kept()
	case system.WakeDue:
	case *actor.Terminated:
		c.ended(ctx, m.Who)
	case memberEnded:
		c.core.Ended(m.who, now)
	case *actor.Stopping, *actor.Restarting:
		c.wake.Stop()
		return
	case actor.SystemMessage, actor.AutoReceiveMessage:
		return
	default:
		c.core.Unknown(by)
	}
	c.do(ctx, c.core.Next(now))
}

// ended has word of a member's end wait for what the member said last, such as that it leaves, which it overtakes.
func (c *coordinator) ended(ctx actor.Context, who *actor.PID) {
	c.s.Task(ctx, func(context.Context) any { return memberEnded{portOf(who)} })
}

// deposed has the members told, and ends.
func (c *coordinator) deposed(ctx actor.Context, m deposed, now time.Time) {
	c.core.Deposed(m.Seat, now)
	ctx.Stop(ctx.Self())
}

// from is the sender of the message that is being handled.
func (c *coordinator) from(ctx actor.Context) fleet.From {
	return fleet.From{Peer: senderOf(c.s, ctx), Reply: portOf(ctx.Sender())}
}

// do does what the core wants done.
func (c *coordinator) do(ctx actor.Context, todo fleet.Todo) {
	for _, x := range todo.Send {
		sendPort(ctx, x)
		if m, ok := x.Message.(wire.LeaseResponse); ok && len(m.Leases) > 0 && !c.leases {
			c.leases = true
			c.s.Log().Info("begins to lease pieces", "share", c.cmd.Share.String(), "term", c.cmd.Epoch)
		}
	}
	for _, e := range todo.Events {
		if c.cmd.Notify != nil {
			c.cmd.Notify(e)
		}
	}
	for _, r := range todo.Reports {
		if c.cmd.office != nil {
			ctx.Send(c.cmd.office, r)
		}
	}
	if todo.Keep {
		c.keep(ctx, todo)
	}
	c.wake.Set(c.s, ctx, todo.Wake)
}

// memberEnded says that a member has ended, after all that it said.
type memberEnded struct{ who fleet.Port }

// fleetSaved is the end of the task that stores the members.
type fleetSaved struct{}

func (c *coordinator) keep(ctx actor.Context, todo fleet.Todo) {
	remember := c.cmd.Remember
	if remember == nil {
		return
	}
	c.s.Task(ctx, func(context.Context) any {
		remember(todo.Members)
		return fleetSaved{}
	})
}
