package actors

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

const (
	joinWithin  = 10 * time.Second       // an attempt to join
	answerIn    = 15 * time.Second       // a LeaseRequest
	askAnyway   = 15 * time.Second       // after a refusal that nobody took back
	linger      = 10 * time.Second       // how long what is leased goes on without the coordinator
	firstRejoin = 250 * time.Millisecond // wait before another attempt; doubles
	lastRejoin  = 2 * time.Second        // well below the time that a new run waits for members
	gatherDone  = 100 * time.Millisecond // how long completions are gathered
	gatherBytes = 250 * time.Millisecond // ... and progress
	singleDones = 32                     // completions told one by one; more are told as a Have
)

// leaseClient stands where the LeaseManager of a transfer stands, and has that
// below it. It keeps the LeaseManager from what the fleet has not leased to this
// node: to it an outside source has only the pieces that the coordinator granted.
// All else it passes on.
//
//	away --time--> dialing --linkUp--> subscribing --accepted--> seated
//	 ^                |                   |                         |
//	 +--- refused, unreachable, silent, lost -----------------------+
//
// When the coordinator is lost, what is leased goes on for linger; then, if
// FleetConfig says so, the transfer goes on alone. At the next joining all that is
// being fetched is asked for again, and what somebody else has got meanwhile ends.
type leaseClient struct {
	s      *system.System
	net    Network
	finder *actor.PID
	share  share.ID
	layout *share.Layout
	cfg    FleetConfig
	leases func() actor.Actor // the LeaseManager; nil: nothing is fetched any more

	local   *actor.PID           // the LeaseManager
	mine    *share.Set           // pieces verified here
	wanted  *share.Set           // nil: all
	fellows map[peers.ID]*fellow // other members
	sources map[peers.ID]*origin
	order   []*origin            // as they came
	asked   system.Queue[asking] // questions to the LeaseManager, which answers in order

	state seating
	seat  *actor.PID // of the coordinator
	link  Link
	links int // opened so far; what an older one says is of no interest
	trip  time.Duration
	tries int       // failed in a row
	since time.Time // of being joined, or not
	why   string
	retry time.Time // away: when to try again
	late  time.Time // dialing, joining: when it takes too long
	stop  time.Time // away: when what is leased ends; zero when nothing is
	alone bool
	over  bool             // it has left for good
	epoch uint64           // of the last lease
	stale map[peers.ID]int // answers under way to requests that are of no interest

	done    []wire.PieceDone  // to be told
	more    []uint32          // pieces that came otherwise, to be told
	lacks   []wire.SourceDown // pieces that other members did not give, to be told
	tellAt  time.Time         // ... when
	bytesAt time.Time         // when progress is to be told
	doubted time.Time         // when the others were last said to give nothing
	wake    system.Alarm
}

// seating is how a leaseClient stands to its coordinator.
type seating uint8

const (
	away seating = iota
	dialing
	subscribing
	seated
)

// asking is a question to the LeaseManager: of a pool for leases, or of anybody
// for the plan.
type asking struct {
	from *actor.PID
	src  *origin // nil: for the plan, or for a source inside the fleet
	max  int
}

// toPool is a message of the LeaseManager to a pool, to be passed on.
type toPool struct {
	pool *actor.PID
	m    any
}

func (c *leaseClient) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		c.start(ctx)

	case SourceUp:
		c.sourceUp(ctx, m)
	case SourceHas:
		c.sourceHas(ctx, m)
	case SourceHasMore:
		c.sourceHasMore(ctx, m)
	case SourceDown:
		c.sourceDown(ctx, m.Source)
	case LeaseRequest:
		c.request(ctx, m)
	case LeaseProgress:
		c.progress(ctx, m)
	case LeaseReturned:
		c.returned(ctx, m)
	case PieceVerified:
		c.verified(ctx, m)
	case SetPriorities:
		c.setPriorities(ctx, m)
	case PlanQuery:
		c.planQuery(ctx, m)
	case PieceBegun, SourceMeasured, RankSource, PauseLeases, SetReader, CloseReader:
		ctx.Forward(c.local)

	case LeaseResponse:
		c.granted(ctx, m)
	case PlanStatus:
		c.planned(ctx, m)
	case toPool:
		ctx.Send(m.pool, m.m)

	case SubscribeResult:
		c.answered(ctx, m)
	case wire.FleetMembers:
		c.named(ctx, m)
	case wire.LeaseResponse:
		c.response(ctx, m)
	case wire.LeasesAvailable:
		c.available(ctx, m)
	case wire.LeaseRevoked:
		c.revoked(ctx, m)

	case linkUp:
		c.linkUp(ctx, m)
	case linkDown:
		c.linkDown(ctx, m)
	case *actor.DeadLetterResponse:
		c.unheard(ctx)
	case *actor.Terminated:
		c.terminated(ctx, m.Who)
	case system.ChildFailed:
		panic(m.Reason) // the transfer begins again, as if the LeaseManager were its own child
	case system.WakeDue:
	case *actor.Stopping, *actor.Restarting:
		c.leave(ctx)
		return
	case actor.SystemMessage, actor.AutoReceiveMessage:
		return
	default:
		system.Unexpected(ctx)
	}
	c.pace(ctx)
}

func (c *leaseClient) start(ctx actor.Context) {
	c.sources, c.fellows, c.stale = map[peers.ID]*origin{}, map[peers.ID]*fellow{}, map[peers.ID]int{}
	if c.leases != nil {
		c.local = c.s.Spawn(ctx, "leases", leaseBox, c.leases, system.OnPanicStop)
	}
	c.since, c.retry, c.why = c.s.Now(), c.s.Now(), "not tried yet"
}

// leave ends the membership in good order.
func (c *leaseClient) leave(ctx actor.Context) {
	c.over = true
	c.wake.Stop()
	c.tellDone(ctx) // or the last pieces would be leased to others
	if c.state >= subscribing {
		ctx.Request(c.seat, Unsubscribe{c.share})
	}
	c.hangUp()
	c.s.Unexport(ctx.Self())
}

// pace does what is due, and sets the alarm. It runs after every message.
func (c *leaseClient) pace(ctx actor.Context) {
	if c.over {
		return // what is below it ends yet
	}
	now := c.s.Now()
	next := earliest(
		c.keepJoining(ctx, now),
		c.endLeases(ctx, now),
		c.goAlone(ctx, now),
		c.askAll(ctx, now),
		c.tell(ctx, now))
	c.wake.Set(c.s, ctx, next)
}

// ---- joining ----

func (c *leaseClient) self() bool { return c.cfg.Coordinator.ID == c.s.Self() }

func (c *leaseClient) keepJoining(ctx actor.Context, now time.Time) (next time.Time) {
	switch c.state {
	case seated:
		return next
	case away:
		if c.retry.After(now) {
			return c.retry
		}
		if c.dial(ctx, now); c.state == away { // it is not on this node
			return c.retry
		}
	default:
		if !c.late.After(now) {
			c.lost(ctx, "it does not answer")
			return c.retry
		}
	}
	return c.late
}

func (c *leaseClient) dial(ctx actor.Context, now time.Time) {
	c.state, c.late = dialing, now.Add(joinWithin)
	if c.self() {
		c.subscribe(ctx)
		return
	}
	c.hangUp()
	c.link = c.net.Open(c.cfg.Coordinator, c.share, c.layout, &sink{c.s, ctx.Self(), c.links})
}

func (c *leaseClient) hangUp() {
	if c.link != nil {
		c.link.Close()
		c.link = nil
	}
	c.links++
}

func (c *leaseClient) linkUp(ctx actor.Context, m linkUp) {
	if m.link == c.links && c.state == dialing {
		c.trip = m.rtt
		c.subscribe(ctx)
	}
}

func (c *leaseClient) linkDown(ctx actor.Context, m linkDown) {
	if m.link == c.links {
		c.lost(ctx, m.err.Error())
	}
}

func (c *leaseClient) subscribe(ctx actor.Context) {
	name := coordinatorName(c.share)
	c.seat = c.s.Remote(c.cfg.Coordinator.ID, name)
	if c.self() {
		if c.seat = c.s.Exported(name); c.seat == nil {
			c.lost(ctx, "this node does not coordinate the share")
			return
		}
	} else {
		c.s.ExportTo(c.cfg.Coordinator.ID, ctx.Self())
	}
	c.state = subscribing
	ctx.Watch(c.seat)
	ctx.Request(c.seat, Subscribe{Share: c.share, Addrs: c.net.Addrs(), Nameable: true})
}

// coordinator says whether the message that is being handled is the coordinator's.
func (c *leaseClient) coordinator(ctx actor.Context, id share.ID) bool {
	return c.state >= subscribing && id == c.share && orElse(system.SenderPeer(ctx), c.s.Self()) == c.cfg.Coordinator.ID
}

func (c *leaseClient) answered(ctx actor.Context, m SubscribeResult) {
	switch {
	case !c.coordinator(ctx, m.Share):
	case !m.Accepted:
		c.lost(ctx, m.Reason)
		c.retry = c.s.Now().Add(orElse(m.Retry, joinWithin))
	case c.state == subscribing:
		c.join(ctx)
	}
}

// join says all there is to know of this node: its sources with what is being
// fetched from them, and last, because that makes it a member, its pieces.
func (c *leaseClient) join(ctx actor.Context) {
	c.state, c.tries, c.alone, c.stop, c.why, c.since = seated, 0, false, time.Time{}, "", c.s.Now()
	for _, src := range c.order {
		c.announce(ctx, src)
		c.govern(ctx, src)
		c.lease(ctx, src, src.pieces())
	}
	c.tellAllLacks(ctx)
	ctx.Request(c.seat, HaveMap{Share: c.share, Pieces: c.mine.Len(), Bits: c.mine.Bytes()})
}

// lost notes that there is no coordinator, until the next attempt.
func (c *leaseClient) lost(ctx actor.Context, why string) {
	if c.state == away {
		return
	}
	now := c.s.Now()
	if c.state == seated {
		c.since = now
		c.stop = now.Add(linger)
	}
	if c.state >= subscribing && c.seat != nil {
		ctx.Unwatch(c.seat)
		if c.self() {
			ctx.Request(c.seat, Unsubscribe{c.share})
		}
	}
	c.hangUp()
	c.s.Unexport(ctx.Self())
	c.state, c.why, c.seat = away, why, nil
	c.retry = now.Add(min(firstRejoin<<min(c.tries, 8), lastRejoin))
	c.tries++
	c.done, c.more, c.lacks, c.tellAt, c.bytesAt = nil, nil, nil, time.Time{}, time.Time{}
	clear(c.stale)
	for _, src := range c.order {
		src.asking, src.keep, src.again, src.refused = time.Time{}, nil, time.Time{}, ""
	}
}

// unheard is told when the coordinator did not get what it was sent, or is gone.
func (c *leaseClient) unheard(ctx actor.Context) {
	switch c.state {
	case seated:
		c.lost(ctx, "the connection was lost")
	case subscribing:
		c.lost(ctx, "it does not coordinate the share")
	}
}

func (c *leaseClient) terminated(ctx actor.Context, who *actor.PID) {
	if sameActor(who, c.seat) {
		c.unheard(ctx)
		return
	}
	for _, src := range c.order {
		if sameActor(src.pool, who) { // it ended without a word; the LeaseManager knows
			c.close(ctx, src)
			return
		}
	}
}

// endLeases ends what was leased by a coordinator that has been away too long.
func (c *leaseClient) endLeases(ctx actor.Context, now time.Time) time.Time {
	if c.stop.IsZero() || c.stop.After(now) {
		return c.stop
	}
	c.stop = time.Time{}
	if !c.alone {
		for _, src := range c.order {
			c.take(ctx, src, src.pieces())
		}
	}
	return c.stop
}

// goAlone lets the LeaseManager lease what it likes.
func (c *leaseClient) goAlone(ctx actor.Context, now time.Time) (next time.Time) {
	if c.state == seated || c.alone || c.cfg.Alone <= 0 {
		return next
	}
	if at := c.since.Add(c.cfg.Alone); at.After(now) {
		return at
	}
	c.startAlone(ctx)
	return next
}

func (c *leaseClient) startAlone(ctx actor.Context) {
	if c.alone {
		return
	}
	c.alone, c.stop = true, time.Time{}
	for _, src := range c.order {
		c.govern(ctx, src)
	}
}

// named makes members sources that need no leave.
func (c *leaseClient) named(ctx actor.Context, m wire.FleetMembers) {
	if !c.coordinator(ctx, m.Share) {
		return
	}
	for _, p := range m.Members {
		if p.ID == c.s.Self() {
			continue
		}
		if c.fellows[p.ID] == nil {
			c.fellows[p.ID] = &fellow{}
		}
		if src := c.sources[p.ID]; src != nil {
			c.forget(src)
			c.down(ctx, src)
			if src.have != nil {
				ctx.Send(c.local, SourceHas{src.id, src.have})
			}
		}
	}
	ctx.Send(c.finder, PeersNamed{Share: c.share, By: c.cfg.Coordinator.ID, Peers: m.Members})
}

// ---- for people ----

func (c *leaseClient) planQuery(ctx actor.Context, m PlanQuery) {
	c.quiet(ctx, m.Quiet)
	c.ask(ctx, asking{from: ctx.Sender()}, m)
}

// planned adds to the state of the plan how the fleet stands.
func (c *leaseClient) planned(ctx actor.Context, m PlanStatus) {
	q, _ := c.asked.Pop()
	line, stuck := c.status()
	if stuck {
		m.Fleet = line
	}
	m.Why = append(m.Why, line)
	if q.from != nil {
		ctx.Send(q.from, m)
	}
}

// status is how the fleet stands, and whether that keeps this node from leasing.
func (c *leaseClient) status() (line string, stuck bool) {
	name := "coordinator " + c.cfg.Coordinator.ID.Short()
	now := c.s.Now()
	if c.state != seated {
		line = fmt.Sprintf("%s: not joined for %v: %s", name, now.Sub(c.since).Round(time.Second/10), c.why)
		switch {
		case c.alone:
			return line + "; goes on alone", false
		case !c.stop.IsZero():
			line += fmt.Sprintf("; what is leased goes on for %v", c.stop.Sub(now).Round(time.Second/10))
		}
		if c.state == away {
			line += fmt.Sprintf("; tried again in %v", max(0, c.retry.Sub(now)).Round(time.Second/10))
		}
		return line, true
	}
	held, waiting, why := 0, 0, ""
	for _, src := range c.order {
		held += len(src.held)
		if src.want > 0 && src.refused != "" {
			waiting++
			why = src.refused
		}
	}
	line = fmt.Sprintf("%s: joined in its run %d with %s; %s may be fetched from %s outside the fleet",
		name, c.epoch, count(len(c.fellows), "other member"), count(held, "piece"), count(len(c.order), "source"))
	if c.alone {
		return line + "; goes on alone, as nothing comes", false
	}
	if why != "" {
		line += fmt.Sprintf("; nothing more for %d of them: %s", waiting, why)
	}
	return line, held == 0 && waiting > 0 && waiting == len(c.order)
}
