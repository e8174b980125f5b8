package fleet

import (
	"maps"
	"slices"
	"time"

	"github.com/piecelease/fetcher/internal/bounds"
	"github.com/piecelease/fetcher/internal/times"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

const (
	maxOutlets   = 256 // sources of one member
	maxStrangers = 64  // peers that are not allowed and that are reported
	maxAdmitted  = 4096
	retryJoin    = 10 * time.Second
	retrySoon    = time.Second
)

// Config says what a Coordinator leases, and to whom.
type Config struct {
	Share  share.ID
	Layout leasemgr.Geometry
	// Epoch grows with every run; the tokens of its leases begin with it.
	Epoch Epoch
	// Self is the coordinator's own node, which may always be a member; Allow are the
	// other peers that may.
	Self  peers.ID
	Allow []peers.ID
	// Secret also admits every peer that proves that it knows it. Epoch is then the
	// term of the office: see Office.
	Secret Secret
	// Members are those of the last run. Until they are back, or for Settle (default
	// 10 s), nothing is leased but what a member is fetching already: they may have
	// what would be leased. What a member has counts for the same time after it is gone, a quarter of it if it left.
	Members []peers.ID
	Settle  time.Duration
	// Leases is the configuration of the leases. Its zero value is not that of a
	// transfer: it does not hedge, because that fetches bytes twice. And First and
	// Slack of its Patience are 15 s, because the members, which see every byte,
	// notice within seconds that a source is slow.
	Leases leasemgr.Config
	// Seed determines the choice of pieces.
	Seed uint64
}

func (c Config) withDefaults() Config {
	l := &c.Leases
	l.Patience = patient(l.Patience, 15*time.Second)
	bounds.Default(&c.Settle, 10*time.Second)
	bounds.Default(&l.HedgeShare, -1)
	bounds.Default(&l.HedgeFloor, -1)
	return c
}

// patient is a patience whose defaults are longer.
func patient(p peers.Patience, otherwise time.Duration) peers.Patience {
	bounds.Default(&p.First, otherwise)
	bounds.Default(&p.Slack, otherwise)
	return p
}

// MemberPatience is the patience of a transfer in a fleet. Where many members share a
// thin line to one source, each of them receives nothing for seconds now and then. A
// member that gave up would lose what is on its way, and the next would ask for the
// piece anew. It is shorter than the patience of a [Coordinator].
func MemberPatience(p peers.Patience) peers.Patience { return patient(p, 10*time.Second) }

// Coordinator leases the pieces of one share to the members of a fleet.
//
//	a member:  unknown --Subscribe--> joining --HaveMap--> ready
//	               ^                        |                |
//	               |                        v                |
//	               +---Settle--- gone <--Unsubscribe, or its connection ends
//	                              |                          ^
//	                              +--Subscribe--> joining ...+
//
// The leases of a member end when it is gone. What it has counts for Settle longer, because it is likely to come back
// with it. If it has left, it counts for a quarter of that, and for nothing if others have all of it.
type Coordinator struct {
	ledger
	absent map[peers.ID]bool // members of the last run that are not ready yet
	settle time.Time         // how long to wait for them

	refused   int64
	strangers map[peers.ID]bool
	unsaved   bool // the members have changed
	saving    bool
}

// Todo is what the owner of a Coordinator has to do.
type Todo struct {
	Send   []Send  // in this order
	Events []Event // for whoever watches the fleet
	// Keep says that Members are to be stored for the next run; the owner calls Kept when
	// that is done.
	Keep    bool
	Members []peers.ID
	// Reports are terms that members follow, for the Office.
	Reports []Report
	Wake    time.Time // when to call Next even if nothing happens; zero: never
}

// NewCoordinator begins a run.
func NewCoordinator(cfg Config, now time.Time) *Coordinator {
	cfg = cfg.withDefaults()
	plan := leasemgr.Plan{Layout: cfg.Layout, Epoch: cfg.Epoch, Seed: cfg.Seed}
	c := &Coordinator{
		ledger: ledger{cfg: cfg, now: now, m: leasemgr.New(cfg.Leases, plan, now),
			allowed: map[peers.ID]bool{cfg.Self: true}, members: map[peers.ID]*member{}, outlets: map[peers.ID]*outlet{}, outside: map[peers.ID]int{},
			claims: claims{copies: make([]uint16, cfg.Layout.Pieces())}},
		absent: map[peers.ID]bool{}, settle: now.Add(cfg.Settle), strangers: map[peers.ID]bool{},
	}
	for _, id := range cfg.Allow {
		c.allowed[id] = true
	}
	for _, id := range cfg.Members {
		if c.allowed[id] || cfg.Secret != "" {
			c.absent[id] = true
		}
	}
	return c
}

// Next does what is due, and hands over all there is to do.
func (c *Coordinator) Next(now time.Time) Todo {
	c.now = now
	if at := c.m.Wake(); !at.IsZero() && !at.After(now) {
		c.do(c.m.Expire(now))
	}
	next := times.Earliest(c.forgetGone(), c.endSettling())
	c.keep()
	next = times.Earliest(next, c.m.Wake()) // after what may have changed it
	out := c.todo
	c.todo = Todo{}
	out.Wake = next
	return out
}

// ---- membership ----

// member returns the member that sent a message. Nil: the sender is no member, and is told.
func (c *Coordinator) member(by From, id share.ID, now time.Time) *member {
	c.now = now
	mb := c.members[by.Peer]
	switch {
	case !c.allowed[by.Peer]:
		c.refuse(by.Peer)
		return nil
	case mb == nil || mb.gone() || by.Reply != mb.port || id != c.cfg.Share:
		c.decline(by, wire.CodeNotJoined, retrySoon)
		return nil
	}
	return mb
}

// Allow is told which peers may be members from now on. A member that no longer may is removed.
func (c *Coordinator) Allow(list []peers.ID, now time.Time) {
	c.now = now
	clear(c.allowed)
	c.allowed[c.cfg.Self] = true
	for _, id := range list {
		c.allowed[id] = true
		delete(c.strangers, id)
	}
	for _, mb := range c.order {
		if !c.allowed[mb.peer] && !mb.gone() {
			c.decline(From{mb.peer, mb.port}, c.notAllowed(), retryJoin)
			c.goes(mb, MemberDisallowed)
		}
	}
	for _, id := range slices.Collect(maps.Keys(c.absent)) {
		if !c.allowed[id] {
			c.back(id)
		}
	}
}

// refuse counts a message of a peer that is not allowed.
func (c *Coordinator) refuse(peer peers.ID) {
	c.refused++
	if c.allowed[peer] || c.strangers[peer] || len(c.strangers) >= maxStrangers {
		return
	}
	c.strangers[peer] = true
	c.notify(peer, NotAllowed)
}

func (c *Coordinator) decline(by From, why wire.Code, retry time.Duration) {
	c.send(by.Reply, wire.SubscribeResult{Share: c.cfg.Share, Reason: wire.Why(why), Retry: retry})
}

// Unknown is told that a peer sent what no member sends.
func (c *Coordinator) Unknown(by From) { c.refuse(by.Peer) }

// Term is told the term that a peer follows, and whether it is a member.
func (c *Coordinator) Term(by From, m wire.FleetTerm, now time.Time) {
	c.now = now
	switch {
	case !c.cfg.Secret.Proves(m.Proof, c.cfg.Share, by.Peer, c.cfg.Self):
		c.refuse(by.Peer)
		return
	case !c.allowed[by.Peer] && len(c.allowed) < maxAdmitted:
		c.allowed[by.Peer] = true
	}
	if m.Term != c.cfg.Epoch {
		c.todo.Reports = append(c.todo.Reports, Report{by.Peer, m})
	}
}

// Deposed is told who coordinates from now on, and tells the members.
func (c *Coordinator) Deposed(seat Seat, now time.Time) {
	c.now = now
	for _, mb := range c.order {
		if !mb.gone() {
			c.send(mb.port, wire.FleetTerm{Share: c.cfg.Share, Term: seat.Term, Coordinator: seat.Peer, Proof: c.cfg.Secret.Proof(c.cfg.Share, c.cfg.Self, mb.peer)})
		}
	}
}

// Subscribe is told that a peer wants to be a member, and how others reach it.
func (c *Coordinator) Subscribe(by From, id share.ID, addrs []string, now time.Time) {
	c.now = now
	switch {
	case !c.allowed[by.Peer]:
		c.refuse(by.Peer)
		c.decline(by, c.notAllowed(), retryJoin)
		return
	case id != c.cfg.Share:
		c.decline(by, wire.CodeOtherShare, 0)
		return
	case by.Reply == Port{}:
		return // it could not be told anything
	}
	mb := c.members[by.Peer]
	if mb == nil {
		mb = &member{peer: by.Peer, have: share.NewSet(c.cfg.Layout.Pieces())}
		c.members[by.Peer] = mb
		c.order = append(c.order, mb)
		c.unsaved = true
	} else {
		c.takeBack(mb)
	}
	mb.port, mb.addrs, mb.ready = by.Reply, addrs, false
	c.send(mb.port, Watch{})
	c.send(mb.port, wire.SubscribeResult{Share: c.cfg.Share, Accepted: true})
	c.introduce(mb)
	c.notify(mb.peer, MemberJoined)
}

func (c *Coordinator) notAllowed() wire.Code {
	if c.cfg.Secret != "" {
		return wire.CodeNoSecret
	}
	return wire.CodeNotListed
}

// introduce tells a new member and the others about each other. A member is no
// longer a source outside the fleet.
func (c *Coordinator) introduce(mb *member) {
	var others []peers.Addr
	for _, o := range c.order {
		if o == mb || o.gone() {
			continue
		}
		others = append(others, peers.Addr{ID: o.peer, Addrs: o.addrs})
		if x := c.outlets[outletID(o.peer, mb.peer)]; x != nil {
			c.close(x)
		}
		c.send(o.port, wire.FleetMembers{Share: c.cfg.Share, Members: []peers.Addr{{ID: mb.peer, Addrs: mb.addrs}}})
	}
	for part := range slices.Chunk(others, wire.MaxMembers) {
		c.send(mb.port, wire.FleetMembers{Share: c.cfg.Share, Members: part})
	}
}

// takeBack ends all leases of a member, and its membership for now.
func (c *Coordinator) takeBack(mb *member) {
	c.send(mb.port, Unwatch{})
	mb.port, mb.ready = Port{}, false
	for _, o := range slices.Clone(mb.outlets) {
		c.close(o)
	}
	c.believe(mb)
}

// Unsubscribe is told that a member leaves.
func (c *Coordinator) Unsubscribe(by From, id share.ID, now time.Time) {
	if mb := c.member(by, id, now); mb != nil {
		c.goes(mb, MemberLeft)
	}
}

// Ended is told that a watched actor has ended.
func (c *Coordinator) Ended(who Port, now time.Time) {
	c.now = now
	for _, mb := range c.order {
		if mb.port == who && !mb.gone() {
			c.goes(mb, MemberLost)
			return
		}
	}
}

// goes takes back the leases of a member; what it has counts for a while longer. One that left is back soon, if its
// program was only begun anew, or not at all; nobody waits for it if it has nothing that is not here.
func (c *Coordinator) goes(mb *member, how Change) {
	c.takeBack(mb)
	wait := c.cfg.Settle
	if how == MemberLeft {
		wait /= 4
		if !c.needed(mb) {
			wait = 0
		}
	}
	mb.until = c.now.Add(wait)
	c.notify(mb.peer, how)
}

// needed reports whether a member has pieces that no member has that is here.
func (c *Coordinator) needed(mb *member) bool {
	rest := mb.have
	for _, o := range c.order {
		if o != mb && !o.gone() {
			rest = rest.Minus(o.have)
		}
	}
	return rest.Count() > 0
}

// forgetGone forgets the members that have been gone for long, and returns when that is
// due next.
func (c *Coordinator) forgetGone() (next time.Time) {
	for _, mb := range slices.Clone(c.order) {
		switch {
		case !mb.gone():
		case mb.until.After(c.now):
			next = times.Earliest(next, mb.until)
		default:
			c.forget(mb)
		}
	}
	return next
}

// forget forgets a member and all it has.
func (c *Coordinator) forget(mb *member) {
	delete(c.members, mb.peer)
	c.order = slices.DeleteFunc(c.order, func(o *member) bool { return o == mb })
	c.unsaved = true
	for p := range mb.have.All() {
		c.claim(mb, p, false)
	}
	c.back(mb.peer)
}

// broken ends the membership of a node that speaks of another share.
func (c *Coordinator) broken(mb *member) {
	c.decline(From{mb.peer, mb.port}, wire.CodeBadHaves, retryJoin)
	c.takeBack(mb)
	c.forget(mb)
	c.notify(mb.peer, MemberBroken)
}

// ---- the start of a run ----

// waiting is why nothing new is leased to a member yet.
func (c *Coordinator) waiting(mb *member) wire.Code {
	switch {
	case len(c.absent) > 0:
		return wire.CodeSettling
	case !mb.ready:
		return wire.CodeNoHaves
	}
	return 0
}

// back notes that a member of the last run has said what it has, or never will.
func (c *Coordinator) back(peer peers.ID) {
	if c.absent[peer] {
		delete(c.absent, peer)
		c.settled()
	}
}

// endSettling ends the wait for the members of the last run when it has been long
// enough, and returns when that is.
func (c *Coordinator) endSettling() (next time.Time) {
	switch {
	case len(c.absent) == 0:
	case c.settle.After(c.now):
		return c.settle
	default:
		clear(c.absent)
		c.unsaved = true
		c.settled()
	}
	return next
}

// settled ends the wait for the members of the last run, if it is over.
func (c *Coordinator) settled() {
	if len(c.absent) == 0 {
		for _, mb := range c.order {
			c.unpark(mb)
		}
	}
}

// unpark tells a member to ask again that was told to wait for the start of the run.
func (c *Coordinator) unpark(mb *member) {
	if c.waiting(mb) != 0 {
		return
	}
	for _, o := range mb.outlets {
		if o.parked {
			o.parked = false
			c.send(mb.port, wire.LeasesAvailable{Share: c.cfg.Share, Source: o.source})
		}
	}
}

// keep has the members stored for the next run, if they have changed.
func (c *Coordinator) keep() {
	if c.saving || !c.unsaved {
		return
	}
	c.unsaved, c.saving, c.todo.Keep = false, true, true
	for id := range c.absent {
		c.todo.Members = append(c.todo.Members, id)
	}
	for _, mb := range c.order {
		if !c.absent[mb.peer] {
			c.todo.Members = append(c.todo.Members, mb.peer)
		}
	}
	slices.Sort(c.todo.Members)
}

// Kept is told that the members have been stored.
func (c *Coordinator) Kept() { c.saving = false }
