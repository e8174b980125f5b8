package actors

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/leasemgr"
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
	s      *System
	net    Network
	finder *actor.PID
	share  share.ID
	layout *share.Layout
	cfg    FleetConfig
	leases func() actor.Actor // the LeaseManager; nil: nothing is fetched any more

	local   *actor.PID        // the LeaseManager
	mine    *share.Set        // pieces verified here
	wanted  *share.Set        // nil: all
	fellows map[peers.ID]bool // other members
	sources map[peers.ID]*origin
	order   []*origin     // as they came
	asked   queue[asking] // questions to the LeaseManager, which answers in order

	state seating
	seat  *actor.PID // of the coordinator
	link  Link
	links int // opened so far; what an older one says is of no interest
	trip  time.Duration
	tries int       // failed in a row
	since time.Time // of not being joined
	why   string
	retry time.Time // away: when to try again
	late  time.Time // dialing, joining: when it takes too long
	stop  time.Time // away: when what is leased ends; zero when nothing is
	alone bool
	epoch uint64           // of the last lease
	stale map[peers.ID]int // answers under way to requests that are of no interest

	done    []wire.PieceDone // to be told
	more    []uint32         // pieces that came otherwise, to be told
	tellAt  time.Time        // ... when
	bytesAt time.Time        // when progress is to be told
	wake    alarm
}

// seating is how a leaseClient stands to its coordinator.
type seating uint8

const (
	away seating = iota
	dialing
	subscribing
	seated
)

// origin is a source outside the fleet.
type origin struct {
	id   peers.ID
	pool *actor.PID
	have *share.Set // what it says it has; nil: nothing
	held map[share.Piece]*hold
	rate float64
	trip time.Duration

	want    int       // leases that the pool would take and the LeaseManager does not have
	asking  time.Time // since when an answer is awaited; zero: none is
	keep    []uint32  // what that request asked to keep
	again   time.Time // refused: when to ask again
	refused string    // why there was nothing more, last time
}

// hold is a piece that may be fetched from a source.
type hold struct {
	token share.Token // the coordinator's; 0: taken without its leave
	lease share.Token // the LeaseManager's; 0: not yet
	bytes int         // not yet told
}

// asking is a question to the LeaseManager: of a pool for leases, or of anybody
// for the plan.
type asking struct {
	from *actor.PID
	src  *origin // nil: for the plan
	max  int
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
		c.ask(ctx, asking{from: ctx.Sender()}, m)
	case PieceBegun, RankSource, PauseLeases, SetReader, CloseReader:
		ctx.Forward(c.local)

	case LeaseResponse:
		c.granted(ctx, m)
	case PlanStatus:
		c.planned(ctx, m)

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
	case childFailed:
		panic(m.Reason) // the transfer begins again, as if the LeaseManager were its own child
	case wakeDue:
	case *actor.Stopping, *actor.Restarting:
		c.leave(ctx)
		return
	case actor.SystemMessage, actor.AutoReceiveMessage:
		return
	default:
		unexpected(ctx)
	}
	c.pace(ctx)
}

func (c *leaseClient) start(ctx actor.Context) {
	c.sources, c.fellows, c.stale = map[peers.ID]*origin{}, map[peers.ID]bool{}, map[peers.ID]int{}
	if c.leases != nil {
		c.local = c.s.spawn(ctx, "leases", leaseBox, c.leases, onPanicStop)
	}
	c.since, c.retry, c.why = c.s.Now(), c.s.Now(), "not tried yet"
}

// leave ends the membership in good order.
func (c *leaseClient) leave(ctx actor.Context) {
	c.wake.stop()
	c.tellDone(ctx) // or the last pieces would be leased to others
	if c.state >= subscribing {
		ctx.Request(c.seat, Unsubscribe{c.share})
	}
	c.hangUp()
	c.s.Unexport(ctx.Self())
}

// pace does what is due, and sets the alarm. It runs after every message.
func (c *leaseClient) pace(ctx actor.Context) {
	now := c.s.Now()
	next := earliest(
		c.keepJoining(ctx, now),
		c.endLeases(ctx, now),
		c.goAlone(ctx, now),
		c.askAll(ctx, now),
		c.tell(ctx, now))
	c.wake.set(c.s, ctx, next)
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
		c.dial(ctx, now)
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
		if c.seat = c.s.exported(name); c.seat == nil {
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
	return c.state >= subscribing && id == c.share && orElse(senderPeer(ctx), c.s.Self()) == c.cfg.Coordinator.ID
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
	c.state, c.tries, c.alone, c.stop, c.why = seated, 0, false, time.Time{}, ""
	for _, src := range c.order {
		c.announce(ctx, src)
		c.govern(ctx, src)
		c.lease(ctx, src, src.pieces())
	}
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
	c.done, c.more, c.tellAt, c.bytesAt = nil, nil, time.Time{}, time.Time{}
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
	c.alone, c.stop = true, time.Time{}
	for _, src := range c.order {
		c.govern(ctx, src)
	}
	return next
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
		c.fellows[p.ID] = true
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

// ---- sources ----

func (c *leaseClient) sourceUp(ctx actor.Context, m SourceUp) {
	defer ctx.Forward(c.local)
	if c.fellows[m.Source] || m.Source == c.cfg.Coordinator.ID {
		return
	}
	if src := c.sources[m.Source]; src != nil { // its pool is another one now
		c.close(ctx, src)
	}
	src := &origin{id: m.Source, pool: ctx.Sender(), held: map[share.Piece]*hold{}}
	c.sources[src.id] = src
	c.order = append(c.order, src)
	ctx.Watch(src.pool)
}

// close ends a source: its leases return.
func (c *leaseClient) close(ctx actor.Context, src *origin) {
	ctx.Unwatch(src.pool)
	c.forget(src)
	if src.have != nil {
		c.down(ctx, src)
	}
}

// down has the coordinator take the leases of a source back; first it hears what
// they have brought.
func (c *leaseClient) down(ctx actor.Context, src *origin) {
	c.tellDone(ctx)
	c.tellSeat(ctx, wire.SourceDown{Share: c.share, Source: src.id})
}

func (c *leaseClient) forget(src *origin) {
	c.unask(src)
	delete(c.sources, src.id)
	c.order = slices.DeleteFunc(c.order, func(o *origin) bool { return o == src })
}

// unask takes back the request for leases that is under way.
func (c *leaseClient) unask(src *origin) {
	if !src.asking.IsZero() {
		c.stale[src.id]++
	}
	src.asking, src.keep, src.again = time.Time{}, nil, time.Time{}
}

func (c *leaseClient) sourceHas(ctx actor.Context, m SourceHas) {
	src := c.sources[m.Source]
	if src == nil {
		ctx.Forward(c.local)
		return
	}
	was := src.have
	src.have = m.Have
	for p := range src.held {
		if src.have == nil || !src.have.Has(p) {
			delete(src.held, p)
		}
	}
	switch {
	case src.have == nil && was != nil: // it is not connected: its leases return
		c.down(ctx, src)
		c.unask(src)
	case src.have != nil:
		c.announce(ctx, src)
	}
	c.govern(ctx, src)
}

func (c *leaseClient) sourceHasMore(ctx actor.Context, m SourceHasMore) {
	src := c.sources[m.Source]
	if src == nil || src.have == nil {
		ctx.Forward(c.local)
		return
	}
	var fresh []uint32
	for _, p := range m.Pieces {
		if src.have.Add(p) && c.wants(p) {
			fresh = append(fresh, uint32(p))
		}
	}
	for part := range slices.Chunk(fresh, wire.MaxHave) {
		c.tellSeat(ctx, wire.SourceHasMore{Share: c.share, Source: src.id, Pieces: part})
	}
	if c.alone {
		ctx.Forward(c.local)
	}
}

func (c *leaseClient) sourceDown(ctx actor.Context, id peers.ID) {
	if src := c.sources[id]; src != nil {
		c.close(ctx, src)
	}
	ctx.Forward(c.local)
}

// announce tells the coordinator what a source has of what is wanted here.
func (c *leaseClient) announce(ctx actor.Context, src *origin) {
	if src.have == nil || c.state != seated {
		return
	}
	has := src.have
	if c.wanted != nil {
		has = has.Minus(share.FullSet(has.Len()).Minus(c.wanted))
	}
	c.tellSeat(ctx, wire.SourceHas{Share: c.share, Source: src.id, Pieces: uint32(has.Len()), Bits: has.Bytes()})
}

// govern tells the LeaseManager what a source has as far as this node may fetch it.
func (c *leaseClient) govern(ctx actor.Context, src *origin) {
	var may *share.Set
	switch {
	case src.have == nil:
	case c.alone:
		may = src.have.Clone()
	default:
		may = share.NewSet(c.layout.Pieces())
		for p := range src.held {
			may.Add(p)
		}
	}
	ctx.Send(c.local, SourceHas{src.id, may})
}

func (c *leaseClient) wants(p share.Piece) bool { return c.wanted == nil || c.wanted.Has(p) }

// setPriorities follows what is selected: the coordinator leases nothing else.
func (c *leaseClient) setPriorities(ctx actor.Context, m SetPriorities) {
	ctx.Forward(c.local)
	changed := false
	for _, r := range m.Runs {
		for p := r.First; p < r.First+share.Piece(r.N); p++ {
			if skip := r.Priority == leasemgr.Skip; skip == c.wants(p) {
				changed = true
				c.choose(p, !skip)
			}
		}
	}
	if !changed {
		return
	}
	for _, src := range c.order {
		c.announce(ctx, src)
		c.giveBack(ctx, src, slices.DeleteFunc(src.pieces(), func(p uint32) bool { return c.wants(share.Piece(p)) }), leasemgr.GaveBack)
	}
}

func (c *leaseClient) choose(p share.Piece, wanted bool) {
	if c.wanted == nil {
		c.wanted = share.FullSet(c.layout.Pieces())
	}
	if wanted {
		c.wanted.Add(p)
	} else {
		c.wanted.Remove(p)
	}
}

// pieces are those held, in order.
func (o *origin) pieces() []uint32 {
	out := make([]uint32, 0, len(o.held))
	for p := range o.held {
		out = append(out, uint32(p))
	}
	slices.Sort(out)
	return out
}

// take takes pieces from a source that this node may not fetch from there any more.
func (c *leaseClient) take(ctx actor.Context, src *origin, pieces []uint32) {
	if len(pieces) == 0 {
		return
	}
	m := SourceHasNot{Source: src.id}
	for _, p := range pieces {
		delete(src.held, share.Piece(p))
		m.Pieces = append(m.Pieces, share.Piece(p))
	}
	ctx.Send(c.local, m)
}

// giveBack returns the leases of some pieces to the coordinator.
func (c *leaseClient) giveBack(ctx actor.Context, src *origin, pieces []uint32, why leasemgr.Reason) {
	m := wire.LeaseReturned{Share: c.share, Source: src.id}
	for _, p := range pieces {
		if h := src.held[share.Piece(p)]; h != nil && h.token != 0 {
			m.Items = append(m.Items, wire.Returned{Piece: p, Token: uint64(h.token), Reason: string(why)})
		}
	}
	if !c.alone {
		c.take(ctx, src, pieces)
	}
	for part := range slices.Chunk(m.Items, wire.MaxLeases) {
		c.tellSeat(ctx, wire.LeaseReturned{Share: m.Share, Source: m.Source, Items: part})
	}
}

// tellSeat sends the coordinator what only a member says.
func (c *leaseClient) tellSeat(ctx actor.Context, m any) {
	if c.state == seated {
		ctx.Request(c.seat, m)
	}
}

// ---- leases, here ----

// ask passes a question on to the LeaseManager, to be answered through here.
func (c *leaseClient) ask(ctx actor.Context, q asking, m any) {
	c.asked.push(q)
	ctx.Request(c.local, m)
}

func (c *leaseClient) request(ctx actor.Context, m LeaseRequest) {
	src := c.sources[m.Source]
	if src == nil {
		ctx.Forward(c.local)
		return
	}
	if m.Rate > 0 {
		src.rate, src.trip = m.Rate, m.RTT
	}
	c.ask(ctx, asking{ctx.Sender(), src, m.Max}, m)
}

// granted passes leases on to the pool, and has more asked for if there were too
// few.
func (c *leaseClient) granted(ctx actor.Context, m LeaseResponse) {
	q, _ := c.asked.pop()
	src := q.src
	for _, l := range m.Leases {
		h := src.held[l.Piece]
		if h == nil && c.alone {
			h = &hold{}
			src.held[l.Piece] = h
		}
		if h != nil {
			h.lease = l.Token
		}
	}
	src.want = 0
	if no := m.Refused.Reason; no == leasemgr.NoneHere || no == leasemgr.AllLeased {
		src.want = q.max - len(m.Leases)
		if !c.alone {
			m.Refused.Reason = leasemgr.Why(c.refusal(src))
		}
	}
	ctx.Send(q.from, m)
}

// refusal is why there are no leases for a source, for people.
func (c *leaseClient) refusal(src *origin) string {
	switch {
	case c.state != seated:
		return "waits for the coordinator of the fleet: " + c.why
	case src.refused != "":
		return "the coordinator of the fleet leases nothing more: " + src.refused
	}
	return "waits for leases of the fleet"
}

func (c *leaseClient) progress(ctx actor.Context, m LeaseProgress) {
	ctx.Forward(c.local)
	src := c.sources[m.Source]
	if src == nil {
		return
	}
	if h := src.held[m.Piece]; h != nil && h.lease == m.Token {
		h.bytes += m.Bytes
		if c.bytesAt.IsZero() && c.state == seated {
			c.bytesAt = c.s.Now().Add(gatherBytes)
		}
	}
}

func (c *leaseClient) returned(ctx actor.Context, m LeaseReturned) {
	ctx.Forward(c.local)
	src := c.sources[m.Source]
	if src == nil {
		return
	}
	for _, r := range m.Leases {
		if h := src.held[r.Piece]; h == nil || h.lease != r.Token {
			continue // not good any more
		}
		if r.Why == leasemgr.NotFound && src.have != nil {
			src.have.Remove(r.Piece)
		}
		c.giveBack(ctx, src, []uint32{uint32(r.Piece)}, r.Why)
		delete(src.held, r.Piece)
	}
}

func (c *leaseClient) verified(ctx actor.Context, m PieceVerified) {
	ctx.Forward(c.local)
	c.mine.Add(m.Piece)
	leased := false
	for _, src := range c.order {
		h := src.held[m.Piece]
		if h == nil {
			continue
		}
		delete(src.held, m.Piece)
		if h.token != 0 && !leased {
			leased = true
			c.done = append(c.done, wire.PieceDone{Share: c.share, Piece: uint32(m.Piece), Token: uint64(h.token)})
		}
	}
	if !leased {
		c.more = append(c.more, uint32(m.Piece))
	}
	if c.state != seated {
		c.done, c.more = nil, nil // the next HaveMap says it
	} else if c.tellAt.IsZero() {
		c.tellAt = c.s.Now().Add(gatherDone)
	}
}

// ---- leases, of the fleet ----

// askAll asks for leases where some are wanted and could be had.
func (c *leaseClient) askAll(ctx actor.Context, now time.Time) (next time.Time) {
	if c.state != seated {
		return next
	}
	for _, src := range c.order {
		switch {
		case !src.asking.IsZero():
			if late := src.asking.Add(answerIn); late.After(now) {
				next = earliest(next, late)
			} else {
				c.lost(ctx, "it does not answer")
				return c.retry
			}
		case src.want <= 0 || src.have == nil:
		case src.again.After(now):
			next = earliest(next, src.again)
		default:
			c.lease(ctx, src, nil)
			next = earliest(next, now.Add(answerIn))
		}
	}
	return next
}

// lease asks the coordinator for leases, first of all those that are to be kept.
func (c *leaseClient) lease(ctx actor.Context, src *origin, keep []uint32) {
	if src.have == nil || src.want <= 0 && len(keep) == 0 {
		return
	}
	if len(keep) > wire.MaxLeases {
		c.take(ctx, src, keep[wire.MaxLeases:])
		keep = keep[:wire.MaxLeases]
	}
	src.asking, src.keep, src.again = c.s.Now(), keep, time.Time{}
	c.tellSeat(ctx, wire.LeaseRequest{Share: c.share, Max: uint32(min(src.want, wire.MaxLeases)), Rate: uint64(src.rate), RTT: src.trip + c.trip, Source: src.id, Keep: keep})
}

// response takes on what the coordinator leased, and ends what it did not let us
// keep.
func (c *leaseClient) response(ctx actor.Context, m wire.LeaseResponse) {
	src := c.sources[m.Source]
	switch {
	case !c.coordinator(ctx, m.Share):
		return
	case c.stale[m.Source] > 0:
		if c.stale[m.Source]--; c.stale[m.Source] == 0 {
			delete(c.stale, m.Source)
		}
		return
	case src == nil || src.asking.IsZero():
		return
	}
	now := c.s.Now()
	kept := map[uint32]bool{}
	var fresh []share.Piece
	var back []wire.Returned
	for _, l := range m.Leases {
		p, token := share.Piece(l.Piece), share.Token(l.Token)
		c.epoch = l.Token >> 40
		h := src.held[p]
		switch {
		case h != nil:
			h.token = token
			kept[l.Piece] = true
		case src.have == nil || !src.have.Has(p) || !c.wants(p) || c.mine.Has(p):
			back = append(back, wire.Returned{Piece: l.Piece, Token: l.Token, Reason: string(leasemgr.GaveBack)})
		default:
			src.held[p] = &hold{token: token}
			fresh = append(fresh, p)
		}
	}
	c.take(ctx, src, slices.DeleteFunc(src.keep, func(p uint32) bool { return kept[p] || src.held[share.Piece(p)] == nil }))
	if len(back) > 0 {
		c.tellSeat(ctx, wire.LeaseReturned{Share: c.share, Source: src.id, Items: back})
	}
	if len(fresh) > 0 {
		ctx.Send(c.local, SourceHasMore{src.id, fresh})
	}
	src.asking, src.keep, src.refused = time.Time{}, nil, m.Refused
	src.want = max(0, src.want-len(fresh))
	if m.Refused != "" {
		src.again = now.Add(cmp.Or(m.Until, askAnyway))
	}
}

func (c *leaseClient) available(ctx actor.Context, m wire.LeasesAvailable) {
	if src := c.sources[m.Source]; src != nil && c.coordinator(ctx, m.Share) {
		src.again, src.refused = time.Time{}, ""
	}
}

func (c *leaseClient) revoked(ctx actor.Context, m wire.LeaseRevoked) {
	src := c.sources[m.Source]
	if src == nil || !c.coordinator(ctx, m.Share) {
		return
	}
	var gone []uint32
	for _, i := range m.Items {
		if h := src.held[share.Piece(i.Piece)]; h != nil && h.token == share.Token(i.Token) {
			gone = append(gone, i.Piece)
		}
	}
	c.take(ctx, src, gone)
}

// tell sends what was gathered and is due.
func (c *leaseClient) tell(ctx actor.Context, now time.Time) time.Time {
	if !c.bytesAt.IsZero() && !c.bytesAt.After(now) {
		c.bytesAt = time.Time{}
		for _, src := range c.order {
			c.tellBytes(ctx, src)
		}
	}
	if !c.tellAt.IsZero() && !c.tellAt.After(now) {
		c.tellAt = time.Time{}
		c.tellDone(ctx)
	}
	return earliest(c.tellAt, c.bytesAt)
}

func (c *leaseClient) tellBytes(ctx actor.Context, src *origin) {
	var items []wire.Progress
	for _, p := range src.pieces() {
		if h := src.held[share.Piece(p)]; h.bytes > 0 && h.token != 0 {
			items = append(items, wire.Progress{Piece: p, Token: uint64(h.token), Bytes: uint32(min(h.bytes, share.MaxPiece))})
			h.bytes = 0
		}
	}
	for part := range slices.Chunk(items, wire.MaxLeases) {
		c.tellSeat(ctx, wire.LeaseProgress{Share: c.share, Source: src.id, Items: part})
	}
}

func (c *leaseClient) tellDone(ctx actor.Context) {
	for i, d := range c.done {
		if i < singleDones {
			c.tellSeat(ctx, d)
		} else {
			c.more = append(c.more, d.Piece)
		}
	}
	for part := range slices.Chunk(c.more, wire.MaxHave) {
		c.tellSeat(ctx, Have{Share: c.share, Pieces: convert[share.Piece](part)})
	}
	c.done, c.more = nil, nil
}

// ---- for people ----

// planned adds to the state of the plan how the fleet stands.
func (c *leaseClient) planned(ctx actor.Context, m PlanStatus) {
	q, _ := c.asked.pop()
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
	if why != "" {
		line += fmt.Sprintf("; nothing more for %d of them: %s", waiting, why)
	}
	return line, held == 0 && waiting > 0 && waiting == len(c.order)
}
