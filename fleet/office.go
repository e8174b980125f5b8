package fleet

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/piecelease/fetcher/internal/times"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/rounds"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// DefaultHeartbeat is how often a coordinator that was elected says that it lives.
const DefaultHeartbeat = 2 * time.Second

const (
	deputies   = 5 // members that look most often whether the office is free
	askAtOnce  = 8 // members that are asked who coordinates, while the store is silent
	maxReports = 64
)

// Seat is who coordinates a share, in which term. Without a peer it is nobody that we
// could find.
type Seat struct {
	Term uint64
	Peer peers.Addr
}

// OfficeConfig is a share whose fleet elects its coordinator, and this node.
type OfficeConfig struct {
	Share     share.ID
	Self      peers.ID
	Secret    Secret
	Heartbeat time.Duration // 0: DefaultHeartbeat
}

// Office decides for one node who coordinates a share, and whether it is this node.
// The round in the store of the fleet says who it is, for as long as the store
// answers. While it is silent the highest term counts that a member shows.
//
//	following --Won--> holding --Lost, or a later term while the store is silent--+
//	    ^                                                                        |
//	    +------------------------------------------------------------------------+
//
// A coordinator whose store is silent goes on: see package rounds.
type Office struct {
	cfg   OfficeConfig
	now   time.Time
	seat  Seat
	held  bool // seat is ours, and its run has begun
	over  bool // this node leaves
	why   string
	views []View

	calling  bool
	next     time.Time // when to call the store; not while calling
	last     time.Time // when it was called last
	answered time.Time // when it answered last; zero: never
	ask      time.Time // when to ask other members
	asked    int       // of them, whose turn is next

	todo OfficeTodo
}

// Call is what the owner of an Office has to ask the store; it tells with Answer what
// came of it. There is one call at a time.
type Call uint8

const (
	NoCall      Call = iota
	TakeOffice       // take the office if it is free
	KeepOffice       // it is ours, and goes on
	LeaveOffice      // give it back
)

// Outcome is what came of a Call.
type Outcome uint8

const (
	CallFailed Outcome = iota // nobody knows
	Won                       // it is ours, under a new term
	Held                      // somebody else has it
	Kept                      // it is ours still
	Lost                      // it was ours
)

// Answer is what came of a Call: with Won our new seat and the members of the run
// before, with Held and Lost who has it.
type Answer struct {
	Outcome Outcome
	Seat    Seat
	Members []peers.ID
	Again   time.Duration // Held: when to ask again
	Why     string        // CallFailed, or a seat that cannot be read: for people
}

// View is how the members of this node stand to the coordinator.
type View struct {
	Of      Port // the member
	Seated  bool
	Fetches bool       // it lacks something
	Fellows []peers.ID // the other members
}

// Report is a term that a member goes by.
type Report struct {
	From peers.ID
	Term wire.FleetTerm
}

// OfficeTodo is what the owner of an Office has to do, in this order.
type OfficeTodo struct {
	// End the run of the coordinator, which tells its members of the seat.
	End bool
	// Begin a run of the coordinator, with these members of the run before.
	Begin   bool
	Members []peers.ID
	// Follow says that the members of this node are to lease from the seat, or, if it is
	// nobody, why.
	Follow bool
	Seat   Seat
	Why    string
	// Heard are terms that the round is to know of before the call, and Absurd those
	// that do not count.
	Heard, Absurd []Report
	Call          Call
	// Tell the offices of other members which term counts here.
	Tell []Told
	Wake time.Time // when to call Next though nothing happens; zero: never
}

// Told is a message for the office of another member.
type Told struct {
	Peer peers.ID
	Term wire.FleetTerm
}

// NewOffice is an office of which nothing is known yet.
func NewOffice(cfg OfficeConfig, now time.Time) *Office {
	cfg.Heartbeat = cmp.Or(cfg.Heartbeat, DefaultHeartbeat)
	return &Office{cfg: cfg, now: now, next: now, ask: now.Add(cfg.Heartbeat), why: "no coordinator is known"}
}

// TTL is how long the office lasts without a heartbeat.
func (c OfficeConfig) TTL() time.Duration { return cmp.Or(c.Heartbeat, DefaultHeartbeat) * 3 / 2 }

// Why says, while nobody coordinates that we could find, why.
func (o *Office) Why() string { return o.why }

// Seat is who coordinates, as far as this node knows, and whether it is this node.
func (o *Office) Seat() (seat Seat, ours bool) { return o.seat, o.held }

// Next does what is due, and hands over all there is to do.
func (o *Office) Next(now time.Time) OfficeTodo {
	o.now = now
	if !o.calling && !o.over && !o.next.After(now) {
		o.calling, o.last, o.todo.Call = true, now, TakeOffice
		if o.held {
			o.todo.Call = KeepOffice
		}
	}
	o.askOthers()
	out := o.todo
	o.todo = OfficeTodo{}
	out.Seat, out.Why = o.seat, o.why
	if !o.over {
		out.Wake = o.ask
		if !o.calling {
			out.Wake = times.Earliest(out.Wake, o.next)
		}
	}
	return out
}

// silent says whether the store has not answered for so long that the office may
// have changed hands.
func (o *Office) silent() bool {
	return o.answered.IsZero() || o.now.Sub(o.answered) > o.cfg.TTL()
}

// ---- the store ----

// Answer is told what came of the call.
func (o *Office) Answer(a Answer, now time.Time) {
	o.now, o.calling = now, false
	if a.Outcome != CallFailed {
		o.answered, o.why = now, a.Why
	}
	switch a.Outcome {
	case CallFailed:
		o.failed(a.Why)
	case Won:
		o.won(a)
	case Kept:
		o.next = o.last.Add(o.cfg.Heartbeat)
		if !o.held { // it was given up for what a member said
			o.next = now
		}
	case Lost:
		o.turn(a.Seat)
		o.next = now.Add(o.pause(a.Again))
	case Held:
		if a.Seat.Term > 0 && !same(a.Seat, o.seat) {
			o.turn(a.Seat)
		}
		o.next = now.Add(o.pause(a.Again))
	}
}

// failed is told that the store did not answer. What runs goes on.
func (o *Office) failed(why string) {
	o.why = "the store of the fleet does not answer: " + why
	o.next = o.last.Add(o.cfg.Heartbeat / 2)
	if o.next.Before(o.now) {
		o.next = o.now.Add(o.cfg.Heartbeat / 4)
	}
	o.todo.Follow = true
}

func (o *Office) won(a Answer) {
	o.end()
	o.seat, o.held = a.Seat, true
	o.next = o.last.Add(o.cfg.Heartbeat)
	o.todo.Begin, o.todo.Members, o.todo.Follow = true, a.Members, true
}

// pause is how long the store need not be asked who has the office. Some members look
// often, so that it is not free for long; the others too when they have lost it.
func (o *Office) pause(again time.Duration) time.Duration {
	often := max(min(again, o.cfg.Heartbeat/4), 10*time.Millisecond)
	if o.held || !o.seated() || o.rank() < deputies {
		return often
	}
	if slices.ContainsFunc(o.views, func(v View) bool { return v.Fetches }) {
		return o.cfg.Heartbeat * 7 / 10 // answers further apart than a heartbeat do not count
	}
	return 5 * o.cfg.Heartbeat
}

func (o *Office) seated() bool {
	return slices.ContainsFunc(o.views, func(v View) bool { return v.Seated })
}

// rank is this node's place among the members that it knows: another order for each
// share, the same for all of them.
func (o *Office) rank() (before int) {
	own := o.weight(o.cfg.Self)
	for _, id := range o.fellows() {
		if o.weight(id) < own {
			before++
		}
	}
	return before
}

func (o *Office) weight(id peers.ID) uint64 {
	h := fnv.New64a()
	h.Write(o.cfg.Share.Bytes())
	h.Write([]byte(id))
	return h.Sum64()
}

func (o *Office) fellows() (all []peers.ID) {
	for _, v := range o.views {
		all = append(all, v.Fellows...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func same(a, b Seat) bool { return a.Term == b.Term && a.Peer.ID == b.Peer.ID }

// turn has everybody here turn to another coordinator.
func (o *Office) turn(to Seat) {
	o.end()
	o.seat, o.todo.Follow = to, true
}

// end ends the run of this node, if there is one.
func (o *Office) end() {
	if o.held {
		o.held, o.todo.End = false, true
	}
}

// Failed is told that the run of the coordinator has ended by a bug. The next one has
// another term.
func (o *Office) Failed(now time.Time) {
	o.now = now
	if o.held {
		o.held = false
		o.next = now.Add(o.cfg.Heartbeat)
	}
}

// Leave ends the part that this node takes. An office that it has is given back, once
// the call that is under way has been answered.
func (o *Office) Leave(now time.Time) {
	o.now, o.over = now, true
	o.todo.Call = LeaveOffice
}

// ---- the members ----

// Seen is told how a member of this node stands; ended: it is none any more.
func (o *Office) Seen(v View, ended bool, now time.Time) {
	o.now = now
	was := o.seated()
	o.views = slices.DeleteFunc(o.views, func(x View) bool { return x.Of == v.Of })
	if !ended {
		o.views = append(o.views, v)
	}
	if was && !o.seated() && !o.held {
		o.soon()
	}
}

// soon has the store asked, but no more often than four times a heartbeat.
func (o *Office) soon() {
	at := o.last.Add(o.cfg.Heartbeat / 4)
	if at.Before(o.now) {
		at = o.now
	}
	o.next = times.Earliest(o.next, at)
}

// Report is told the term that a peer goes by. A later one than ours counts if the
// store is silent; else the store is asked.
func (o *Office) Report(from peers.ID, m wire.FleetTerm, now time.Time) {
	o.now = now
	r := Report{from, m}
	switch {
	case m.Share != o.cfg.Share || !o.cfg.Secret.Proves(m.Proof, m.Share, from, o.cfg.Self):
		return // whoever it is, it is no member
	case m.Term == o.seat.Term:
		return
	case m.Term < o.seat.Term:
		o.tell(from)
		return
	case !rounds.Plausible(m.Term, o.seat.Term):
		if len(o.todo.Absurd) < maxReports {
			o.todo.Absurd = append(o.todo.Absurd, r)
		}
		return
	}
	if len(o.todo.Heard) < maxReports {
		o.todo.Heard = append(o.todo.Heard, r)
	}
	switch {
	case !o.silent():
		o.soon()
	case m.Coordinator.ID != "" && m.Coordinator.ID != o.cfg.Self:
		o.turn(Seat{m.Term, m.Coordinator})
	}
}

// Term is the seat as it is told to a peer.
func (o *Office) term(to peers.ID) wire.FleetTerm {
	return wire.FleetTerm{Share: o.cfg.Share, Term: o.seat.Term, Coordinator: o.seat.Peer, Proof: o.cfg.Secret.Proof(o.cfg.Share, o.cfg.Self, to)}
}

func (o *Office) tell(peer peers.ID) { o.todo.Tell = append(o.todo.Tell, Told{peer, o.term(peer)}) }

// askOthers asks some of the other members who coordinates, when neither the
// coordinator nor the store is to be had. Whoever knows a later term says so.
func (o *Office) askOthers() {
	if o.over || o.ask.After(o.now) {
		return
	}
	o.ask = o.now.Add(o.cfg.Heartbeat)
	if o.held || o.seated() || !o.silent() {
		return
	}
	all := o.fellows()
	if n := len(all); n > askAtOnce { // others each time
		first := o.asked % n
		o.asked = (first + askAtOnce) % n
		all = slices.Concat(all[first:], all[:first])[:askAtOnce]
	}
	for _, id := range all {
		o.tell(id)
	}
}

// String is for people.
func (s Seat) String() string {
	if s.Peer.ID == "" {
		return fmt.Sprintf("term %d", s.Term)
	}
	return fmt.Sprintf("term %d of %s", s.Term, s.Peer.ID.Short())
}
