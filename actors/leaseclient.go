package actors

import (
	"cmp"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// leaseClient owns the fleet.Member of a share that this node fetches, or has fetched, in
// a fleet. It takes the place of the LeaseManager of a transfer, which is its child.
type leaseClient struct {
	s      *system.System
	net    Network
	finder *actor.PID
	node   *actor.PID
	layout *share.Layout
	cfg    FleetConfig
	member fleet.MemberConfig
	leases func() actor.Actor // the LeaseManager; nil: nothing is fetched any more
	before *actor.PID         // whose place in the fleet this takes, and which ends then; nil: none

	core  *fleet.Member
	local *actor.PID // the LeaseManager
	seat  *actor.PID // of the coordinator; nil while there is none
	here  bool       // the seat is on this node
	elect elector
	link  Link
	links linkNumber // opened so far; messages of an older one are ignored
	wake  system.Alarm
}

func newLeaseClient(s *system.System, net Network, finder, node *actor.PID, id share.ID, layout *share.Layout, cfg FleetConfig, mine *share.Set) *leaseClient {
	return &leaseClient{s: s, net: net, finder: finder, node: node, layout: layout, cfg: cfg, member: fleet.MemberConfig{
		Share: id, Pieces: layout.Pieces(), Self: s.Self(), Coordinator: cfg.Coordinator.ID, Secret: cfg.Secret, Alone: cfg.Alone, Mine: mine}}
}

// toPool is a message of the LeaseManager to a pool, to be passed on.
type toPool struct {
	pool *actor.PID
	m    any
}

func (c *leaseClient) Receive(ctx actor.Context) {
	now := c.s.Now()
	switch m := ctx.Message().(type) {
	case *actor.Started:
		c.start(ctx, now)
	case SourceUp:
		c.core.SourceUp(m.Source, portOf(ctx.Sender()), now)
	case SourceHas:
		c.core.SourceHas(m.Source, m.Have, now)
	case SourceAway, system.WakeDue: // how far away a source is does not count: the fleet divides up what is fetched
	case SourceHasMore:
		c.core.SourceHasMore(m.Source, m.Pieces, now)
	case SourceDown:
		c.core.SourceDown(m.Source, now)
	case LeaseRequest:
		c.core.Request(portOf(ctx.Sender()), m.Source, m.Max, m.Rate, m.RTT, now)
	case LeaseProgress:
		c.core.Progress(m.Source, m.Piece, m.Token, m.Bytes, now)
	case LeaseReturned:
		c.returned(ctx, m, now)
	case PieceVerified:
		c.core.Verified(m.Piece, now)
	case SetPriorities:
		c.core.SetPriorities(m.Runs, now)
	case PlanQuery:
		c.core.PlanQuery(portOf(ctx.Sender()), m.Quiet, now)
	case SourceBusy:
		c.core.Busy(m.Source, now)
	case SourceExcused: // to the fleet that is the same
		c.core.Busy(m.Source, now)
	case PieceBegun, SourceMeasured, SourceSent, RankSource, PauseLeases, SetReader, CloseReader:
		ctx.Forward(c.local)
	case LeaseResponse:
		c.granted(ctx, m, now)
	case PlanStatus:
		c.planned(ctx, m, now)
	case toPool:
		ctx.Send(m.pool, m.m)
	case followSeat:
		c.follow(ctx, m, now)
	case linkUp:
		c.linkUp(m, now)
	case linkDown:
		c.linkDown(m, now)
	case *actor.DeadLetterResponse:
		c.core.Unheard(now)
	case *actor.Terminated:
		c.terminated(ctx, m.Who, now)
	case system.ChildFailed:
		panic(m.Reason) // the transfer begins again, as if the LeaseManager were its own child
	case *actor.Stopping, *actor.Restarting:
		c.leave(ctx, now)
		return
	case actor.SystemMessage, actor.AutoReceiveMessage:
		return
	default:
		c.hear(ctx, now)
	}
	c.step(ctx, now)
}

// hear handles the messages of the coordinator.
func (c *leaseClient) hear(ctx actor.Context, now time.Time) {
	by := senderOf(c.s, ctx)
	switch m := ctx.Message().(type) {
	case wire.SubscribeResult:
		c.core.SubscribeResult(by, wire.SubscribeResult(m), now)
	case wire.FleetMembers:
		c.core.FleetMembers(by, m, now)
	case wire.LeaseResponse:
		c.core.LeaseResponse(by, m, now)
	case wire.LeasesAvailable:
		c.core.LeasesAvailable(by, m, now)
	case wire.LeaseRevoked:
		c.core.LeaseRevoked(by, m, now)
	case wire.FleetTerm:
		c.reported(ctx, fleet.Report{From: by, Term: m})
	default:
		system.Unexpected(ctx)
	}
}

func (c *leaseClient) start(ctx actor.Context, now time.Time) {
	c.core = fleet.NewMember(c.member, now)
	c.enrol(ctx)
	if c.leases != nil {
		c.local = c.s.Spawn(ctx, "leases", leaseBox, c.leases, system.OnPanicStop)
	}
}

// leave ends the membership in good order.
func (c *leaseClient) leave(ctx actor.Context, now time.Time) {
	c.core.Leave(now)
	c.step(ctx, now)
	c.wake.Stop()
}

// step does what the core wants done, until there is no more. It runs after every
// message.
func (c *leaseClient) step(ctx actor.Context, now time.Time) {
	todo := c.core.Next(now)
	for len(todo.Do) > 0 {
		for _, x := range todo.Do {
			c.do(ctx, x, now)
		}
		todo = c.core.Next(now)
	}
	c.wake.Set(c.s, ctx, todo.Wake)
	c.tellOffice(ctx)
}

func (c *leaseClient) do(ctx actor.Context, what any, now time.Time) {
	switch x := what.(type) {
	case fleet.Forward:
		ctx.Forward(c.local)
	case fleet.Question:
		ctx.Request(c.local, ctx.Message())
	case fleet.Allow:
		ctx.Send(c.local, SourceHas{x.Source, x.Pieces})
	case fleet.AllowMore:
		ctx.Send(c.local, SourceHasMore{x.Source, x.Pieces})
	case fleet.Forbid:
		ctx.Send(c.local, SourceHasNot{x.Source, x.Pieces})
	case fleet.NotLate:
		ctx.Send(c.local, SourceExcused{x.Source})
	case fleet.Send:
		sendPort(ctx, x)
	case fleet.Tell:
		ctx.Request(c.seat, x.Message)
	case fleet.Name:
		ctx.Send(c.finder, PeersNamed{Share: c.member.Share, By: c.cfg.Coordinator.ID, Via: peers.ViaPeer, Peers: x.Members, Sure: true})
	case fleet.Dial:
		c.hangUp()
		c.link = c.net.Open(c.cfg.Coordinator, c.member.Share, c.layout, &sink{c.s, ctx.Self(), c.links})
	case fleet.Join:
		c.join(ctx, x, now)
	case fleet.Unseat:
		c.unseat(ctx)
	case fleet.Resign:
		c.resign(ctx)
	}
}

// ---- the coordinator ----

func (c *leaseClient) self() bool { return c.cfg.Coordinator.ID == c.s.Self() }

func (c *leaseClient) join(ctx actor.Context, how fleet.Join, now time.Time) {
	name := coordinatorName(c.member.Share)
	if c.here = c.self(); c.here {
		if c.seat = c.s.Exported(name); c.seat == nil {
			c.core.Lost("this node does not coordinate the share", now)
			return
		}
	} else {
		c.seat = c.s.Remote(c.cfg.Coordinator.ID, name)
		c.s.ExportTo(c.cfg.Coordinator.ID, ctx.Self())
	}
	ctx.Watch(c.seat)
	if how.First != nil {
		ctx.Request(c.seat, *how.First)
	}
	ctx.Request(c.seat, wire.Subscribe{Share: c.member.Share, Addrs: c.net.Addrs(), Nameable: true})
	if c.before != nil { // the coordinator listens to the latest alone, and does not take this for a member that leaves
		ctx.Stop(c.before)
		c.before = nil
	}
}

func (c *leaseClient) unseat(ctx actor.Context) {
	if c.seat != nil {
		ctx.Unwatch(c.seat)
		if c.here {
			ctx.Request(c.seat, wire.Unsubscribe{Share: c.member.Share})
		}
		c.seat = nil
	}
	c.hangUp()
	c.s.Unexport(ctx.Self())
}

func (c *leaseClient) resign(ctx actor.Context) {
	if c.seat != nil {
		ctx.Request(c.seat, wire.Unsubscribe{Share: c.member.Share})
	}
	c.hangUp()
	c.s.Unexport(ctx.Self())
}

func (c *leaseClient) hangUp() {
	hangUp(&c.link)
	c.links++
}

func (c *leaseClient) linkUp(m linkUp, now time.Time) {
	if m.from() == c.links {
		c.core.Linked(m.rtt, now)
	}
}

func (c *leaseClient) linkDown(m linkDown, now time.Time) {
	if m.from() == c.links {
		c.core.Lost(m.err.Error(), now)
	}
}

func (c *leaseClient) terminated(ctx actor.Context, who *actor.PID, now time.Time) {
	if sameActor(who, c.seat) {
		c.core.Unheard(now)
		return
	}
	if sameActor(who, c.elect.office) {
		c.enrol(ctx)
		return
	}
	c.core.Ended(portOf(who), now)
}

// ---- the LeaseManager ----

func (c *leaseClient) returned(ctx actor.Context, m LeaseReturned, now time.Time) {
	ctx.Forward(c.local)
	for _, r := range m.Leases {
		c.core.Returned(m.Source, r.Piece, r.Token, r.Why, now)
	}
}

// granted passes leases on to the pool.
func (c *leaseClient) granted(ctx actor.Context, m LeaseResponse, now time.Time) {
	to, refused := c.core.Granted(m.Leases, m.Refused, now)
	m.Refused = refused
	ctx.Send(pidOf(to), m)
}

// planned adds the state of the fleet to the state of the plan.
func (c *leaseClient) planned(ctx actor.Context, m PlanStatus, now time.Time) {
	to, line, stuck := c.core.Planned(now)
	if stuck != "" {
		m.Fleet, m.Barred = stuck, c.core.Barred()
	}
	m.Why = append(m.Why, line)
	if pid := pidOf(to); pid != nil {
		ctx.Send(pid, m)
	}
}

// senderOf is the peer that sent the message that is being handled; it may be this node.
func senderOf(s *system.System, ctx actor.Context) peers.ID {
	return cmp.Or(system.SenderPeer(ctx), s.Self())
}
