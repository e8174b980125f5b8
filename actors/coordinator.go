package actors

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

const (
	maxOutlets   = 256 // sources of one member
	maxStrangers = 64  // peers that are not allowed, and that somebody is told of
	retryJoin    = 10 * time.Second
	retrySoon    = time.Second
)

// coordinator owns the leasemgr.Manager of a fleet. To the manager a source is one
// source of one member: an outlet. A piece is verified when a member has it.
//
//	a member:  unknown --Subscribe--> joining --HaveMap--> ready
//	               ^                        |                |
//	               |                        v                |
//	               +---Settle--- gone <--Unsubscribe, or its connection ends
//	                              |                          ^
//	                              +--Subscribe--> joining ...+
//
// The leases of a member end when it is gone. What it has counts for Settle longer,
// because it is likely to come back with it.
type coordinator struct {
	s       *system.System
	cmd     CoordinateShare
	m       *leasemgr.Manager
	allowed map[peers.ID]bool
	members map[peers.ID]*member
	order   []*member // as they came
	outlets map[peers.ID]*outlet
	copies  []uint16 // of each piece: members that say they have it

	doubters int // members that doubt others

	absent map[peers.ID]bool // members of the last run that are not ready yet
	settle time.Time         // until when they are waited for

	refused   int64
	strangers map[peers.ID]bool
	unsaved   bool // who is a member has changed
	saving    bool
	wake      system.Alarm
}

// member is a node of the fleet.
type member struct {
	peer    peers.ID
	pid     *actor.PID // nil: gone
	addrs   []string
	have    *share.Set
	ready   bool
	until   time.Time // gone: when it is forgotten
	outlets []*outlet // as they came
	doubts  *doubts   // nil: none
	doubted bool      // by another member
}

// outlet is a source outside the fleet of one member.
type outlet struct {
	of     *member
	source peers.ID
	id     peers.ID // for the manager
	has    *share.Set
	parked bool // was refused before anything is leased at all
}

func newCoordinator(s *system.System, cmd CoordinateShare) *coordinator {
	cmd.Settle = orElse(cmd.Settle, 10*time.Second)
	l := &cmd.Leases
	l.FirstDeadline = orElse(l.FirstDeadline, 15*time.Second)
	l.Slack = orElse(l.Slack, 15*time.Second)
	l.HedgeShare = orElse(l.HedgeShare, -1)
	l.HedgeFloor = orElse(l.HedgeFloor, -1)
	return &coordinator{s: s, cmd: cmd}
}

func (c *coordinator) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		c.start()
	case Subscribe:
		c.join(ctx, m)
	case Unsubscribe:
		c.leave(ctx, m.Share)
	case HaveMap:
		c.haveMap(ctx, m)
	case Have:
		c.have(ctx, m)
	case wire.PieceDone:
		c.pieceDone(ctx, m)
	case wire.SourceHas:
		c.sourceHas(ctx, m)
	case wire.SourceHasMore:
		c.sourceHasMore(ctx, m)
	case wire.SourceDown:
		c.sourceDown(ctx, m)
	case wire.LeaseRequest:
		c.grant(ctx, m)
	case wire.LeaseProgress:
		c.progress(ctx, m)
	case wire.LeaseReturned:
		c.returned(ctx, m)
	case FleetQuery:
		ctx.Respond(c.status(m.Lines))
	case fleetSaved:
		c.saving = false
	case system.WakeDue:
	case *actor.Terminated:
		c.lost(ctx, m.Who)
	case *actor.Stopping, *actor.Restarting:
		c.wake.Stop()
		return
	case actor.SystemMessage, actor.AutoReceiveMessage:
		return
	default:
		c.refuse(ctx, "") // nothing that a member sends
	}
	c.pace(ctx)
}

func (c *coordinator) start() {
	now := c.s.Now()
	plan := leasemgr.Plan{Layout: c.cmd.Layout, Epoch: c.cmd.Epoch, Seed: c.s.Seed("fleet " + c.cmd.Share.String())}
	c.m = leasemgr.New(c.cmd.Leases, plan, now)
	c.copies = make([]uint16, c.cmd.Layout.Pieces())
	c.members, c.outlets = map[peers.ID]*member{}, map[peers.ID]*outlet{}
	c.allowed, c.absent, c.strangers = map[peers.ID]bool{c.s.Self(): true}, map[peers.ID]bool{}, map[peers.ID]bool{}
	for _, id := range c.cmd.Allow {
		c.allowed[id] = true
	}
	for _, id := range c.cmd.Members {
		if c.allowed[id] {
			c.absent[id] = true
		}
	}
	c.settle = now.Add(c.cmd.Settle)
}

// pace does what is due, and sets the alarm. It runs after every message.
func (c *coordinator) pace(ctx actor.Context) {
	now := c.s.Now()
	if at := c.m.Wake(); !at.IsZero() && !at.After(now) {
		c.do(ctx, c.m.Expire(now))
	}
	next := c.m.Wake()
	for _, mb := range slices.Clone(c.order) {
		switch {
		case mb.pid != nil:
		case mb.until.After(now):
			next = earliest(next, mb.until)
		default:
			c.forget(ctx, mb)
		}
	}
	if len(c.absent) > 0 {
		if c.settle.After(now) {
			next = earliest(next, c.settle)
		} else {
			clear(c.absent)
			c.unsaved = true
			c.settled(ctx)
		}
	}
	c.save(ctx)
	c.wake.Set(c.s, ctx, next)
}

// ---- who is a member ----

// peer is who sent the message that is being handled.
func (c *coordinator) peer(ctx actor.Context) peers.ID {
	return orElse(system.SenderPeer(ctx), c.s.Self())
}

// member is the member that sent the message that is being handled. Nil: it is
// none, and was told.
func (c *coordinator) member(ctx actor.Context, id share.ID) *member {
	peer := c.peer(ctx)
	mb := c.members[peer]
	switch {
	case !c.allowed[peer]:
		c.refuse(ctx, peer)
		return nil
	case mb == nil || !sameActor(ctx.Sender(), mb.pid) || id != c.cmd.Share:
		c.decline(ctx, "has not joined", retrySoon)
		return nil
	}
	return mb
}

// refuse counts what a peer sent that is not allowed to.
func (c *coordinator) refuse(ctx actor.Context, peer peers.ID) {
	c.refused++
	peer = orElse(peer, c.peer(ctx))
	if c.allowed[peer] || c.strangers[peer] || len(c.strangers) >= maxStrangers {
		return
	}
	c.strangers[peer] = true
	c.notify(peer, NotAllowed)
}

func (c *coordinator) decline(ctx actor.Context, why string, retry time.Duration) {
	if ctx.Sender() != nil {
		ctx.Respond(SubscribeResult{Share: c.cmd.Share, Reason: why, Retry: retry})
	}
}

func (c *coordinator) join(ctx actor.Context, m Subscribe) {
	peer := c.peer(ctx)
	switch {
	case !c.allowed[peer]:
		c.refuse(ctx, peer)
		c.decline(ctx, fmt.Sprintf("not allowed: the coordinator's list does not have %s", peer), retryJoin)
		return
	case m.Share != c.cmd.Share:
		c.decline(ctx, "coordinates another share", 0)
		return
	}
	mb := c.members[peer]
	if mb == nil {
		mb = &member{peer: peer, have: share.NewSet(c.cmd.Layout.Pieces())}
		c.members[peer] = mb
		c.order = append(c.order, mb)
		c.unsaved = true
	} else {
		c.takeBack(ctx, mb)
	}
	mb.pid, mb.addrs, mb.ready = ctx.Sender(), m.Addrs, false
	ctx.Watch(mb.pid)
	ctx.Respond(SubscribeResult{Share: c.cmd.Share, Accepted: true})
	c.introduce(ctx, mb)
	c.notify(peer, MemberJoined)
}

// introduce names a new member and the others to each other. A member is no
// source outside the fleet any more.
func (c *coordinator) introduce(ctx actor.Context, mb *member) {
	var others []peers.Addr
	for _, o := range c.order {
		if o == mb || o.pid == nil {
			continue
		}
		others = append(others, peers.Addr{ID: o.peer, Addrs: o.addrs})
		if x := c.outlets[outletID(o.peer, mb.peer)]; x != nil {
			c.close(ctx, x)
		}
		ctx.Send(o.pid, wire.FleetMembers{Share: c.cmd.Share, Members: []peers.Addr{{ID: mb.peer, Addrs: mb.addrs}}})
	}
	for part := range slices.Chunk(others, wire.MaxMembers) {
		ctx.Send(mb.pid, wire.FleetMembers{Share: c.cmd.Share, Members: part})
	}
}

// takeBack ends all leases of a member, and its membership for now.
func (c *coordinator) takeBack(ctx actor.Context, mb *member) {
	if mb.pid != nil {
		ctx.Unwatch(mb.pid)
		mb.pid = nil
	}
	mb.ready = false
	for _, o := range slices.Clone(mb.outlets) {
		c.close(ctx, o)
	}
	c.believe(ctx, mb)
}

func (c *coordinator) leave(ctx actor.Context, id share.ID) {
	if mb := c.member(ctx, id); mb != nil {
		c.gone(ctx, mb, MemberLeft)
	}
}

func (c *coordinator) lost(ctx actor.Context, who *actor.PID) {
	for _, mb := range c.order {
		if sameActor(mb.pid, who) {
			c.gone(ctx, mb, MemberLost)
			return
		}
	}
}

// gone takes the leases of a member back; what it has counts for a while.
func (c *coordinator) gone(ctx actor.Context, mb *member, how FleetChange) {
	c.takeBack(ctx, mb)
	mb.until = c.s.Now().Add(c.cmd.Settle)
	c.notify(mb.peer, how)
}

// forget takes a member for gone, with all it has.
func (c *coordinator) forget(ctx actor.Context, mb *member) {
	delete(c.members, mb.peer)
	c.order = slices.DeleteFunc(c.order, func(o *member) bool { return o == mb })
	c.unsaved = true
	for p := range mb.have.All() {
		c.claim(ctx, mb, p, false)
	}
	c.back(ctx, mb.peer)
}

// ---- what the members have ----

func (c *coordinator) haveMap(ctx actor.Context, m HaveMap) {
	mb := c.member(ctx, m.Share)
	if mb == nil {
		return
	}
	set, err := share.ParseSet(mb.have.Len(), m.Bits)
	if err != nil || m.Pieces != mb.have.Len() {
		c.broken(ctx, mb)
		return
	}
	for p := range mb.have.Minus(set).All() {
		mb.have.Remove(p)
		c.claim(ctx, mb, p, false)
	}
	for p := range set.All() {
		c.gain(ctx, mb, p)
	}
	mb.ready = true
	c.back(ctx, mb.peer)
	c.unpark(ctx, mb)
}

// broken ends the membership of a node that speaks of another share.
func (c *coordinator) broken(ctx actor.Context, mb *member) {
	c.decline(ctx, "sent a have-map of another share", retryJoin)
	c.takeBack(ctx, mb)
	c.forget(ctx, mb)
	c.notify(mb.peer, MemberLost)
}

func (c *coordinator) have(ctx actor.Context, m Have) {
	if mb := c.member(ctx, m.Share); mb != nil {
		for _, p := range m.Pieces {
			c.gain(ctx, mb, p)
		}
	}
}

func (c *coordinator) pieceDone(ctx actor.Context, m wire.PieceDone) {
	if mb := c.member(ctx, m.Share); mb != nil {
		c.gain(ctx, mb, share.Piece(m.Piece), share.Token(m.Token))
	}
}

// gain notes that a member has a piece, under which lease if that is known.
func (c *coordinator) gain(ctx actor.Context, mb *member, p share.Piece, tokens ...share.Token) {
	if mb.have.Add(p) {
		c.claim(ctx, mb, p, true, tokens...)
	}
}

// ---- their sources ----

// outletID is the name of an outlet for the manager.
func outletID(member, source peers.ID) peers.ID { return member + "/" + source }

func (c *coordinator) sourceHas(ctx actor.Context, m wire.SourceHas) {
	mb := c.member(ctx, m.Share)
	if mb == nil {
		return
	}
	set, err := share.ParseSet(mb.have.Len(), m.Bits)
	if err != nil || int(m.Pieces) != mb.have.Len() {
		c.broken(ctx, mb)
		return
	}
	if o := c.open(mb, m.Source); o != nil {
		o.has = set
		c.do(ctx, c.m.SetHave(o.id, c.may(mb, set), c.s.Now()))
	}
}

// open is an outlet, a new one if there is none. Nil: the source is inside the
// fleet, or the member has too many.
func (c *coordinator) open(mb *member, source peers.ID) *outlet {
	id := outletID(mb.peer, source)
	if o := c.outlets[id]; o != nil {
		return o
	}
	if inside := c.members[source]; inside != nil && inside.pid != nil || source == "" || len(mb.outlets) >= maxOutlets {
		return nil
	}
	o := &outlet{of: mb, source: source, id: id, has: share.NewSet(mb.have.Len())}
	c.outlets[id] = o
	mb.outlets = append(mb.outlets, o)
	c.m.AddSource(id, c.s.Now())
	return o
}

func (c *coordinator) sourceHasMore(ctx actor.Context, m wire.SourceHasMore) {
	if o := c.outlet(ctx, m.Share, m.Source); o != nil {
		var pieces []share.Piece
		for _, p := range convert[share.Piece](m.Pieces) {
			if by := c.fetchers(p); o.has.Add(p) && (by == nil || by[o.of.peer]) {
				pieces = append(pieces, p)
			}
		}
		c.do(ctx, c.m.Have(o.id, pieces, c.s.Now()))
	}
}

func (c *coordinator) sourceDown(ctx actor.Context, m wire.SourceDown) {
	mb := c.member(ctx, m.Share)
	switch {
	case mb == nil:
	case m.Member:
		c.missing(ctx, mb, m)
	case c.outlets[outletID(mb.peer, m.Source)] != nil:
		c.close(ctx, c.outlets[outletID(mb.peer, m.Source)])
	}
}

// close ends an outlet: its leases return.
func (c *coordinator) close(ctx actor.Context, o *outlet) {
	delete(c.outlets, o.id)
	o.of.outlets = slices.DeleteFunc(o.of.outlets, func(x *outlet) bool { return x == o })
	c.do(ctx, c.m.RemoveSource(o.id, c.s.Now()))
}

// outlet is the one that a message of a member is about.
func (c *coordinator) outlet(ctx actor.Context, id share.ID, source peers.ID) *outlet {
	if mb := c.member(ctx, id); mb != nil {
		return c.outlets[outletID(mb.peer, source)]
	}
	return nil
}

// ---- leases ----

func (c *coordinator) grant(ctx actor.Context, m wire.LeaseRequest) {
	mb := c.member(ctx, m.Share)
	if mb == nil {
		return
	}
	answer := wire.LeaseResponse{Share: m.Share, Source: m.Source}
	o := c.outlets[outletID(mb.peer, m.Source)]
	if o == nil { // it may have been introduced a moment ago
		answer.Refused, answer.Never = "this source is no source outside the fleet", true
		ctx.Respond(answer)
		return
	}
	now := c.s.Now()
	if m.Rate > 0 {
		c.do(ctx, c.m.Measured(o.id, float64(m.Rate), m.RTT, now))
	}
	var leases []leasemgr.Lease
	for _, p := range m.Keep {
		if l, ok := c.m.Restore(o.id, share.Piece(p), now); ok {
			leases = append(leases, l)
		}
	}
	if why := c.waiting(mb); why != "" {
		o.parked = true
		answer.Refused = why
	} else {
		more, no := c.m.Acquire(o.id, int(min(m.Max, wire.MaxLeases-uint32(len(leases)))), now)
		leases = append(leases, more...)
		answer.Refused, answer.Never = string(no.Reason), no.Never
		if !no.Until.IsZero() {
			answer.Until = max(no.Until.Sub(now), time.Millisecond)
		}
	}
	for _, l := range leases {
		answer.Leases = append(answer.Leases, wire.Lease{Piece: uint32(l.Piece), Token: uint64(l.Token), Expires: l.Expires.Sub(now), Hedge: l.Hedge, Begun: l.Begun})
	}
	ctx.Respond(answer)
}

func (c *coordinator) progress(ctx actor.Context, m wire.LeaseProgress) {
	if o := c.outlet(ctx, m.Share, m.Source); o != nil {
		for _, i := range m.Items {
			c.do(ctx, c.m.Progress(o.id, share.Piece(i.Piece), share.Token(i.Token), int(i.Bytes), c.s.Now()))
		}
	}
}

func (c *coordinator) returned(ctx actor.Context, m wire.LeaseReturned) {
	if o := c.outlet(ctx, m.Share, m.Source); o != nil {
		for _, i := range m.Items {
			c.do(ctx, c.m.Fail(o.id, share.Piece(i.Piece), share.Token(i.Token), reasonNamed(i.Reason), c.s.Now()))
		}
	}
}

// reasonNamed is a reason as it travels: its own text.
func reasonNamed(text string) leasemgr.Reason {
	switch r := leasemgr.Reason(text); r {
	case leasemgr.BadData, leasemgr.Missed, leasemgr.NotFound, leasemgr.Lost, leasemgr.Disk, leasemgr.Elsewhere:
		return r
	}
	return leasemgr.GaveBack
}

// do tells the members what the core decided.
func (c *coordinator) do(ctx actor.Context, todo leasemgr.Todo) {
	c.revoke(ctx, todo.Expired)
	c.revoke(ctx, todo.Revoked)
	for _, id := range todo.Wake {
		if o := c.outlets[id]; o != nil {
			ctx.Send(o.of.pid, wire.LeasesAvailable{Share: c.cmd.Share, Source: o.source})
		}
	}
}

// revoke tells the holders of some leases, neighbours together.
func (c *coordinator) revoke(ctx actor.Context, leases []leasemgr.Lease) {
	for len(leases) > 0 {
		n := 1
		for n < len(leases) && n < wire.MaxLeases && leases[n].Source == leases[0].Source {
			n++
		}
		if o := c.outlets[leases[0].Source]; o != nil {
			m := wire.LeaseRevoked{Share: c.cmd.Share, Source: o.source}
			for _, l := range leases[:n] {
				m.Items = append(m.Items, wire.Revoked{Piece: uint32(l.Piece), Token: uint64(l.Token)})
			}
			ctx.Send(o.of.pid, m)
		}
		leases = leases[n:]
	}
}

// ---- the beginning of a run ----

// waiting is why nothing new is leased to a member yet.
func (c *coordinator) waiting(mb *member) string {
	switch {
	case len(c.absent) > 0:
		return fmt.Sprintf("the coordinator has just begun, and waits up to %v for %s of before", c.settle.Sub(c.s.Now()).Round(time.Second/10), count(len(c.absent), "member"))
	case !mb.ready:
		return "the member has not said what it has"
	}
	return ""
}

// back notes that a member of the last run has said what it has, or will not.
func (c *coordinator) back(ctx actor.Context, peer peers.ID) {
	if c.absent[peer] {
		delete(c.absent, peer)
		c.settled(ctx)
	}
}

// settled ends the wait for the members of the last run, if it is over.
func (c *coordinator) settled(ctx actor.Context) {
	if len(c.absent) == 0 {
		for _, mb := range c.order {
			c.unpark(ctx, mb)
		}
	}
}

// unpark has a member ask again that was told to wait for the beginning.
func (c *coordinator) unpark(ctx actor.Context, mb *member) {
	if c.waiting(mb) != "" {
		return
	}
	for _, o := range mb.outlets {
		if o.parked {
			o.parked = false
			ctx.Send(mb.pid, wire.LeasesAvailable{Share: c.cmd.Share, Source: o.source})
		}
	}
}

// fleetSaved is the end of the task that keeps who is a member.
type fleetSaved struct{}

func (c *coordinator) save(ctx actor.Context) {
	if c.cmd.Remember == nil || c.saving || !c.unsaved {
		return
	}
	c.unsaved, c.saving = false, true
	var ids []peers.ID
	for id := range c.absent {
		ids = append(ids, id)
	}
	for _, mb := range c.order {
		if !c.absent[mb.peer] {
			ids = append(ids, mb.peer)
		}
	}
	slices.Sort(ids)
	remember := c.cmd.Remember
	c.s.Task(ctx, func(context.Context) any {
		remember(ids)
		return fleetSaved{}
	})
}

// ---- for people ----

func (c *coordinator) notify(peer peers.ID, change FleetChange) {
	here := 0
	for _, mb := range c.order {
		if mb.pid != nil {
			here++
		}
	}
	if c.cmd.Notify != nil {
		c.cmd.Notify(FleetEvent{peer, change, here})
	}
}

func (c *coordinator) status(lines int) FleetStatus {
	st := FleetStatus{Epoch: c.cmd.Epoch, Refused: c.refused}
	st.Wanted, st.Leased, st.Verified = c.m.Counts()
	for _, mb := range c.order {
		st.Members = append(st.Members, FleetMember{mb.peer, mb.have.Count(), len(mb.outlets), mb.pid == nil, mb.doubted})
	}
	slices.SortFunc(st.Members, func(a, b FleetMember) int { return cmp.Compare(a.Peer, b.Peer) })
	if len(c.absent) > 0 {
		st.Waiting = c.waiting(nil)
	}
	for _, e := range c.m.Missing(lines, c.s.Now()) {
		st.Why = append(st.Why, c.line(e))
	}
	return st
}

// line is an explanation in terms of members.
func (c *coordinator) line(e leasemgr.Explanation) string {
	for i, id := range e.Sources {
		e.Sources[i] = brief(id)
	}
	for i := range e.Holders {
		e.Holders[i].Source = brief(e.Holders[i].Source)
	}
	return e.String()
}

// brief is an outlet in 8 characters, as explanations print them: the ends of its
// member and of its source.
func brief(id peers.ID) peers.ID {
	member, source, _ := strings.Cut(string(id), "/")
	return peers.ID(fmt.Sprintf("%.4s:%s", member[max(0, len(member)-4):], source[max(0, len(source)-3):]))
}
