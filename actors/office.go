package actors

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/internal/times"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// Elections is what a node needs to take part in electing coordinators, and to be one.
type Elections struct {
	KV     rounds.KV
	Secret fleet.Secret
	// Heartbeat is how often a coordinator says that it lives; 0: fleet.DefaultHeartbeat.
	// All members must agree.
	Heartbeat time.Duration
	// Settle and Leases are those of fleet.Config.
	Settle time.Duration
	Leases leasemgr.Config
}

// office owns the fleet.Office of a share that this node fetches or has fetched, and
// the coordinator of it when this node is elected.
type office struct {
	s      *system.System
	net    Network
	node   *actor.PID
	cmd    joinOffice
	number int // of all that this node has begun
	with   *Elections
	ballot *ballot

	core    *fleet.Office
	clients map[fleet.Port]*actor.PID // the leaseClients
	run     *actor.PID                // the coordinator; nil: it is not here
	runs    int
	wake    system.Alarm
	idle    time.Time // when it ends because nobody here is a member; zero: somebody is
}

// joinOffice, leaseClient -> Node -> office: I am a member.
type joinOffice struct {
	Share  share.ID
	Layout *share.Layout
}

// officeView, leaseClient -> office.
type officeView struct{ fleet.View }

// followSeat, office -> leaseClient.
type followSeat struct {
	Seat fleet.Seat
	Why  string // why nobody coordinates, if so
}

// deposed, office -> coordinator: tell the members, and end.
type deposed struct{ Seat fleet.Seat }

// officeEnded, office -> Node: nobody here is a member any more.
type officeEnded struct {
	Share share.ID
	Who   *actor.PID
}

// idleOffice is how long an office lasts without a member: a member that is done fetching
// comes back as another.
const idleOffice = time.Second

// officeName is the name under which the office of a share is exported.
func officeName(id share.ID) string { return "fleet/" + id.String() }

// joinOffice has a member told who coordinates.
func (n *node) joinOffice(ctx actor.Context, m joinOffice) {
	if n.deps.Elections == nil {
		return
	}
	if n.fleets.offices == nil {
		n.fleets.offices = map[share.ID]*actor.PID{}
	}
	pid := n.fleets.offices[m.Share]
	if pid == nil {
		n.fleets.begun++
		self, number := ctx.Self(), n.fleets.begun
		pid = n.s.Spawn(ctx, fmt.Sprint("office-", n.fleets.begun), controlBox, func() actor.Actor {
			return &office{s: n.s, net: n.deps.Network, node: self, cmd: m, number: number, with: n.deps.Elections, clients: map[fleet.Port]*actor.PID{}}
		}, system.OnPanicStop)
		n.fleets.offices[m.Share] = pid
		n.s.Export(officeName(m.Share), pid)
	}
	ctx.Forward(pid)
}

// officeEnded ends an office that has no members. A member that joined it meanwhile asks
// for another office, which this office, that said it twice, must not end.
func (n *node) officeEnded(ctx actor.Context, m officeEnded) {
	if sameActor(n.fleets.offices[m.Share], m.Who) {
		ctx.Stop(m.Who)
		delete(n.fleets.offices, m.Share)
	}
}

// officeFailed says whether it was an office that panicked.
func (n *node) officeFailed(m system.ChildFailed) bool {
	for id, pid := range n.fleets.offices {
		if pid.Equal(m.Who) {
			delete(n.fleets.offices, id)
			return true
		}
	}
	return false
}

func (o *office) Receive(ctx actor.Context) {
	now := o.s.Now()
	switch m := ctx.Message().(type) {
	case *actor.Started:
		o.start(ctx, now)
	case joinOffice:
		o.join(ctx)
	case officeView:
		o.core.Seen(m.View, false, now)
	case wire.FleetTerm:
		o.core.Report(senderOf(o.s, ctx), m, now)
	case fleet.Report:
		o.core.Report(m.From, m.Term, now)
	case fleet.Answer:
		o.core.Answer(m, now)
	case FleetQuery:
		o.query(ctx)
		return
	case system.ChildFailed:
		o.failed(now)
	case system.WakeDue:
	case *actor.DeadLetterResponse: // a member that is not there now
	case *actor.Terminated:
		o.lost(m.Who, now)
	case *actor.Stopping, *actor.Restarting:
		o.leave(ctx, now)
		return
	case actor.SystemMessage, actor.AutoReceiveMessage:
		return
	default:
		system.Unexpected(ctx)
	}
	o.step(ctx, now)
}

func (o *office) start(ctx actor.Context, now time.Time) {
	o.core = fleet.NewOffice(fleet.OfficeConfig{Share: o.cmd.Share, Self: o.s.Self(), Secret: o.with.Secret, Heartbeat: o.with.Heartbeat}, now)
	b, err := newBallot(o)
	if err != nil {
		panic(err) // of a configuration that was checked
	}
	o.ballot = b
}

func (o *office) join(ctx actor.Context) {
	who := portOf(ctx.Sender())
	if o.clients[who] == nil {
		o.clients[who] = ctx.Sender()
		ctx.Watch(ctx.Sender())
		o.core.Seen(fleet.View{Of: who}, false, o.s.Now())
	}
	o.idle = time.Time{}
	o.follow(ctx, ctx.Sender())
}

func (o *office) follow(ctx actor.Context, client *actor.PID) {
	seat, _ := o.core.Seat()
	ctx.Request(client, followSeat{seat, o.core.Why()})
}

func (o *office) lost(who *actor.PID, now time.Time) {
	port := portOf(who)
	if o.clients[port] == nil {
		return
	}
	delete(o.clients, port)
	o.core.Seen(fleet.View{Of: port}, true, now)
	if len(o.clients) == 0 {
		o.idle = now.Add(idleOffice)
	}
}

// step does what the core wants done. It runs after every message.
func (o *office) step(ctx actor.Context, now time.Time) {
	if !o.idle.IsZero() && !o.idle.After(now) {
		ctx.Send(o.node, officeEnded{o.cmd.Share, ctx.Self()})
		o.idle = now.Add(idleOffice)
	}
	todo := o.core.Next(now)
	if todo.End {
		o.end(ctx, todo.Seat)
	}
	if todo.Begin {
		o.begin(ctx, todo)
	}
	if todo.Follow {
		for _, c := range o.sorted() {
			ctx.Request(c, followSeat{todo.Seat, todo.Why})
		}
	}
	for _, r := range todo.Absurd {
		o.s.Log().Warn("a member of the fleet reports a term far above any known; it is ignored", "member", string(r.From), "term", r.Term.Term)
	}
	for _, x := range todo.Tell {
		ctx.Request(o.s.Remote(x.Peer, officeName(o.cmd.Share)), x.Term)
	}
	if todo.Call != fleet.NoCall {
		o.call(ctx, todo.Call, todo.Heard)
	}
	o.wake.Set(o.s, ctx, times.Earliest(todo.Wake, o.idle))
}

// sorted are the members, always in the same order.
func (o *office) sorted() (out []*actor.PID) {
	for _, c := range o.clients {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *actor.PID) int { return strings.Compare(a.Id, b.Id) })
	return out
}

// begin starts a run of the coordinator.
func (o *office) begin(ctx actor.Context, todo fleet.OfficeTodo) {
	o.runs++
	self := ctx.Self()
	cmd := CoordinateShare{
		Config: fleet.Config{Share: o.cmd.Share, Layout: o.cmd.Layout, Epoch: todo.Seat.Term, Secret: o.with.Secret, Members: todo.Members,
			Settle: o.with.Settle, Leases: o.with.Leases},
		Remember: func(members []peers.ID) { o.ballot.remember(todo.Seat.Term, members) },
		Notify:   o.notify,
		office:   self,
	}
	o.s.Log().Info("coordinates", "share", o.cmd.Share.String(), "term", todo.Seat.Term, "members", len(todo.Members))
	o.run = o.s.Spawn(ctx, fmt.Sprint("coordinator-", o.runs), leaseBox, func() actor.Actor { return newCoordinator(o.s, cmd) }, system.OnPanicStop)
	o.s.Export(coordinatorName(o.cmd.Share), o.run)
}

func (o *office) notify(e fleet.Event) {
	o.s.Log().Debug("fleet", "share", o.cmd.Share.String(), "member", string(e.Peer), "change", e.Change.String(), "members", e.Members)
}

// failed takes note that the coordinator has panicked.
func (o *office) failed(now time.Time) {
	o.run = nil
	o.core.Failed(now)
}

// end ends the run of the coordinator.
func (o *office) end(ctx actor.Context, seat fleet.Seat) {
	if o.run != nil {
		o.s.Log().Info("this node no longer coordinates", "share", o.cmd.Share.String(), "term", seat.Term, "successor", string(seat.Peer.ID))
		ctx.Send(o.run, deposed{seat})
		o.run = nil
	}
}

func (o *office) query(ctx actor.Context) {
	if o.run != nil {
		ctx.Forward(o.run)
		return
	}
	seat, _ := o.core.Seat()
	ctx.Respond(fleet.Status{Epoch: seat.Term, Waiting: "not coordinated by this node"})
}

// leave gives the office back.
func (o *office) leave(ctx actor.Context, now time.Time) {
	o.wake.Stop()
	o.s.Unexport(ctx.Self())
	if _, ours := o.core.Seat(); ours {
		o.s.Task(ctx, func(context.Context) any {
			o.ballot.leave(context.Background())
			return nil
		})
	}
}

func (o *office) call(ctx actor.Context, what fleet.Call, heard []fleet.Report) {
	addrs := o.net.Addrs()
	o.s.Task(ctx, func(alive context.Context) any { return o.ballot.call(alive, what, heard, addrs) })
}

// ---- its members ----

// elector is what a leaseClient has of the office of its share.
type elector struct {
	office *actor.PID // nil: it has not answered yet
	told   fleet.View // last
}

// enrol has a leaseClient told who coordinates, if its fleet holds elections.
func (c *leaseClient) enrol(ctx actor.Context) {
	c.elect = elector{}
	if c.cfg.Secret != "" {
		ctx.Request(c.node, joinOffice{c.member.Share, c.layout})
	}
}

func (c *leaseClient) follow(ctx actor.Context, m followSeat, now time.Time) {
	if c.elect.office == nil {
		c.elect.office = ctx.Sender()
		ctx.Watch(c.elect.office)
	}
	if m.Seat.Peer.ID != "" {
		c.cfg.Coordinator = m.Seat.Peer
	}
	c.core.Follow(m.Seat, m.Why, now)
}

// tellOffice tells the office the state of the member, if that has changed.
func (c *leaseClient) tellOffice(ctx actor.Context) {
	if c.elect.office == nil {
		return
	}
	joined, fellows := c.core.Standing()
	if old := c.elect.told; old.Of == (fleet.Port{}) || old.Seated != joined || len(old.Fellows) != fellows {
		c.elect.told = fleet.View{Of: portOf(ctx.Self()), Seated: joined, Fetches: c.leases != nil, Fellows: c.core.Fellows()}
		ctx.Send(c.elect.office, officeView{c.elect.told})
	}
}

// reported has the office judge the term that another member follows.
func (c *leaseClient) reported(ctx actor.Context, r fleet.Report) {
	if c.elect.office != nil {
		ctx.Send(c.elect.office, r)
	}
}
