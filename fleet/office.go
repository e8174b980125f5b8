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
	deputies   = 5 // members that check most often whether the office is free
	askAtOnce  = 8 // members that are asked who coordinates, while the store is silent
	maxReports = 64
)

// Seat is who coordinates a share, and in which term. Without a peer it is nobody that
// we could find.
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
// answers. While it is silent, the highest term that a member shows counts.
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

// Call is what the owner of an Office has to ask the store; it passes the result to
// Answer. There is one call at a time.
type Call uint8

const (
	NoCall     Call = iota
	TakeOffice      // take the office if it is free
	KeepOffice      // it is ours, and goes on
)

// Outcome is the result of a Call.
type Outcome uint8

const (
	CallFailed Outcome = iota // nobody knows
	Won                       // it is ours, under a new term
	Held                      // somebody else has it
	Kept                      // it is ours still
	Lost                      // it was ours
)

// Answer is the answer to a Call: with Won our new seat and the members of the run
// before, with Held and Lost the holder.
type Answer struct {
	Outcome Outcome
	Seat    Seat
	Members []peers.ID
	Again   time.Duration // Held: when to ask again
	Why     string        // CallFailed, or a seat that cannot be read: for people
}

// View is the standing of this node's members with the coordinator.
type View struct {
	Of      Port // the member
	Seated  bool
	Fetches bool       // it lacks something
	Fellows []peers.ID // the other members
}

// Report is a term that a member follows.
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
	// Follow tells the members of this node to lease from the seat, or why there is
	// nobody to lease from.
	Follow bool
	Seat   Seat
	Why    string
	// Heard are terms that the round is told of before the call, and Absurd those that do
	// not count.
	Heard, Absurd []Report
	Call          Call
	// Tell the offices of other members which term counts here.
	Tell []Told
	Wake time.Time // when to call Next even if nothing happens; zero: never
}

// Told is a message for the office of another member.
type Told struct {
	Peer peers.ID
	Term wire.FleetTerm
}

// NewOffice makes an office that knows nothing yet.
func NewOffice(cfg OfficeConfig, now time.Time) *Office {
	cfg.Heartbeat = cmp.Or(cfg.Heartbeat, DefaultHeartbeat)
	return &Office{cfg: cfg, now: now, next: now, ask: now.Add(cfg.Heartbeat), why: "no coordinator is known"}
}

// TTL is how long the office lasts without a heartbeat.
func (c OfficeConfig) TTL() time.Duration { return cmp.Or(c.Heartbeat, DefaultHeartbeat) * 3 / 2 }

// Why is the reason why we could find nobody that coordinates, while that is so.
func (o *Office) Why() string { return o.why }

// Seat is who coordinates, as far as this node knows, and whether it is this node.
func (o *Office) Seat() (seat Seat, ours bool) { return o.seat, o.held }

// Next does what is due, and hands over all there is to do.
func (o *Office) Next(now time.Time) OfficeTodo {
	o.now = now
	if !o.calling && !o.next.After(now) {
		o.calling, o.last, o.todo.Call = true, now, TakeOffice
		if o.held {
			o.todo.Call = KeepOffice
		}
	}
	o.askOthers()
	out := o.todo
	o.todo = OfficeTodo{}
	out.Seat, out.Why = o.seat, o.why
	if out.Wake = o.ask; !o.calling {
		out.Wake = times.Earliest(out.Wake, o.next)
	}
	return out
}

// silent says whether the store has not answered for so long that the office may
// have changed hands.
func (o *Office) silent() bool {
	return o.answered.IsZero() || o.now.Sub(o.answered) > o.cfg.TTL()
}

// ---- the store ----

// Answer is told the result of the call.
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
		if !o.held { // it was given up because of what a member said
			o.next = now
		}
	case Lost:
		o.turn(a.Seat)
		o.next = now.Add(o.pause(a.Again))
	case Held:
		if a.Seat.Term > 0 && !(same(a.Seat, o.seat) && slices.Equal(a.Seat.Peer.Addrs, o.seat.Peer.Addrs)) {
			o.turn(a.Seat)
		}
		o.next = now.Add(o.pause(a.Again))
	}
}

// failed is told why the store did not say who coordinates. What runs goes on.
func (o *Office) failed(why string) {
	o.why = "the store of the fleet does not say who coordinates: " + why
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

// pause is how long the store need not be asked who has the office. Some members check
// often, so that it is not free for long; so do the others once they have lost it.
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

// rank is this node's place among the members that it knows. The order differs from share
// to share, and is the same for all members.
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

// turn makes all members of this node follow another coordinator.
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

// Failed is told that a bug has ended the run of the coordinator. The next run has another
// term.
func (o *Office) Failed(now time.Time) {
	o.now = now
	if o.held {
		o.held = false
		o.next = now.Add(o.cfg.Heartbeat)
	}
}

// ---- the members ----

// Seen is told the standing of a member of this node; ended: it is no longer one.
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

// Report is told the term that a peer follows. If it is later than ours, it counts while
// the store is silent; otherwise the store is asked.
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

// term is the seat as a message to a peer.
func (o *Office) term(to peers.ID) wire.FleetTerm {
	return wire.FleetTerm{Share: o.cfg.Share, Term: o.seat.Term, Coordinator: o.seat.Peer, Proof: o.cfg.Secret.Proof(o.cfg.Share, o.cfg.Self, to)}
}

func (o *Office) tell(peer peers.ID) { o.todo.Tell = append(o.todo.Tell, Told{peer, o.term(peer)}) }

// askOthers asks some of the other members who coordinates, when neither the
// coordinator nor the store can be reached. Those that know a later term say so.
func (o *Office) askOthers() {
	if o.ask.After(o.now) {
		return
	}
	o.ask = o.now.Add(o.cfg.Heartbeat)
	if o.held || o.seated() || !o.silent() {
		return
	}
	all := o.fellows()
	if n := len(all); n > askAtOnce { // different ones each time
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
