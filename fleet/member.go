package fleet

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/piecelease/fetcher/internal/times"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

const (
	joinWithin  = 10 * time.Second       // an attempt to join
	answerIn    = 15 * time.Second       // a LeaseRequest
	askAnyway   = 15 * time.Second       // after a refusal that nobody took back
	linger      = 10 * time.Second       // how long leases go on without the coordinator
	firstRejoin = 250 * time.Millisecond // wait before another attempt; doubles
	lastRejoin  = 2 * time.Second        // well below the time that a new run waits for members
	doubtAfter  = 10 * time.Second       // without a verified byte, to doubt what other members say they have
)

// MemberConfig is a share that a node fetches in a fleet, and the fleet.
type MemberConfig struct {
	Share       share.ID
	Pieces      int // of the share
	Self        peers.ID
	Coordinator peers.ID // may be Self; empty: Follow says who it is
	Secret      Secret   // of a fleet that elects its coordinator
	// Alone is the time without the coordinator, or with it but without a verified
	// byte, after which the member goes on by itself, until it joins again; 0 is never.
	Alone time.Duration
	// Mine are the pieces verified here, Wanted those to be fetched; nil is all. Both
	// belong to the member from then on.
	Mine, Wanted *share.Set
}

// Member decides for a node what it fetches from outside its fleet. It hides from the
// lease manager of the node what the fleet has not leased to this node: to that manager
// an outside source has only the pieces that the coordinator granted. The owner passes
// on everything else.
//
//	away --time--> dialing --Linked--> subscribing --accepted--> seated
//	 ^                |                   |                         |
//	 +--- refused, unreachable, silent, lost -----------------------+
//
// When the coordinator is lost, leases go on for linger; then, if MemberConfig says so,
// the node goes on alone. When it joins again it asks again for all that it is fetching,
// and pieces that somebody else has got meanwhile end.
type Member struct {
	sources
	stop    time.Time  // not seated: when the leases end; zero when there are none
	over    bool       // it has left for good
	office  Seat       // the one followed last
	epoch   Epoch      // of the last lease
	doubted time.Time  // when the others were last reported to send nothing
	asked   []question // of the lease manager, which answers in order
}

// MemberTodo is what the owner of a Member has to do.
type MemberTodo struct {
	Do   []any     // in this order: one of the types below, or Send with Watch or Unwatch for a pool
	Wake time.Time // when to call Next even if nothing happens; zero: never
}

// Actions for the owner.
type (
	// Forward is to pass the message that is being handled on to the lease manager.
	Forward struct{}
	// Question is to pass it on so that the answer comes to the owner, which tells it
	// with Granted or Planned.
	Question struct{}
	// Allow tells the lease manager all that may be fetched from a source; nil is
	// nothing, because the source is not connected. AllowMore adds to it, Forbid takes away.
	Allow struct {
		Source peers.ID
		Pieces *share.Set
	}
	AllowMore struct {
		Source peers.ID
		Pieces []share.Piece
	}
	Forbid struct {
		Source peers.ID
		Pieces []share.Piece
	}
	// NotLate tells the lease manager that the source of a lease is not late, though nothing comes.
	NotLate struct {
		Source peers.ID
		Piece  share.Piece
		Lease  share.Token
	}
	// Dial is to connect with the coordinator, and to say Linked or Lost.
	Dial struct{}
	// Join is to subscribe to the coordinator and to watch it, and to call Lost if this
	// node should coordinate but does not. First, if not nil, is sent before the Subscribe.
	Join struct{ First *wire.FleetTerm }
	// Tell is a message of package wire for the coordinator.
	Tell struct{ Message any }
	// Unseat is to let go of the coordinator: its messages are ignored until Join.
	// Resign is to unsubscribe, if subscribed, and to let go for good.
	Unseat struct{}
	Resign struct{}
	// Name tells the Finder of the other members.
	Name struct{ Members []peers.Addr }
)

// NewMember is a member that has not joined yet.
func NewMember(cfg MemberConfig, now time.Time) *Member {
	return &Member{sources: sources{cfg: cfg, now: now, seat: seat{since: now, retry: now, why: "not tried yet"},
		byID: map[peers.ID]*origin{}, stale: map[peers.ID]int{}, fellows: fellows{}}}
}

// Next does what is due, and hands over all there is to do.
func (m *Member) Next(now time.Time) MemberTodo {
	m.now = now
	out := MemberTodo{}
	if !m.over { // else only what is below it is still ending
		out.Wake = times.Earliest(m.keepJoining(), m.endLeases(), m.goAlone(), m.askAll(), m.tell())
	}
	out.Do, m.do = m.do, nil
	return out
}

// Leave ends the membership for good.
func (m *Member) Leave(now time.Time) {
	m.now, m.over = now, true
	m.tellAll(m.news.pieces(m.cfg.Share)) // otherwise the last pieces would be leased to others
	m.then(Resign{})
}

// ---- joining ----

func (m *Member) keepJoining() (next time.Time) {
	switch m.seat.state {
	case seated:
		return next
	case away:
		if m.cfg.Coordinator == "" {
			return next
		}
		if m.seat.retry.After(m.now) {
			return m.seat.retry
		}
		m.seat.late = m.now.Add(joinWithin)
		if m.cfg.Coordinator == m.cfg.Self {
			m.subscribe()
			break
		}
		m.seat.state = dialing
		m.then(Dial{})
	default:
		if !m.seat.late.After(m.now) {
			m.lost("it does not answer")
			return m.seat.retry
		}
	}
	return m.seat.late
}

func (m *Member) subscribe() {
	m.seat.state = subscribing
	join := Join{}
	if m.cfg.Secret != "" {
		join.First = m.term()
	}
	m.then(join)
}

// term is the term that this node follows, as a message to the coordinator.
func (m *Member) term() *wire.FleetTerm {
	return &wire.FleetTerm{Share: m.cfg.Share, Term: m.office.Term, Coordinator: m.office.Peer, Proof: m.cfg.Secret.Proof(m.cfg.Share, m.cfg.Self, m.cfg.Coordinator)}
}

// Follow is told who coordinates from now on, or why nobody does.
func (m *Member) Follow(to Seat, why string, now time.Time) {
	m.now = now
	if to.Peer.ID == "" {
		if m.cfg.Coordinator == "" {
			m.seat.why = why
		}
		return
	}
	if same(to, m.office) {
		return
	}
	m.office = to
	if m.seat.state == seated {
		m.then(Tell{*m.term()}) // the coordinator may not know
	}
	m.lost("it has just been elected")
	m.cfg.Coordinator, m.seat.retry, m.seat.tries = to.Peer.ID, now, 0
	m.fellow(to.Peer.ID)
}

// Standing returns whether the member has joined, and the number of other members it
// knows. Fellows returns their IDs.
func (m *Member) Standing() (joined bool, fellows int) {
	return m.seat.state == seated, len(m.fellows)
}
func (m *Member) Fellows() []peers.ID { return slices.Sorted(maps.Keys(m.fellows)) }

// Linked is told that the coordinator is connected, a round trip away.
func (m *Member) Linked(trip time.Duration, now time.Time) {
	m.now = now
	if m.seat.state == dialing {
		m.trip = trip
		m.subscribe()
	}
}

// Lost is told that the coordinator cannot be reached, and why.
func (m *Member) Lost(why string, now time.Time) {
	m.now = now
	m.lost(why)
}

// Unheard is told that the coordinator did not get what it was sent, or is gone.
func (m *Member) Unheard(now time.Time) {
	m.now = now
	switch m.seat.state {
	case seated:
		m.lost("the connection was lost")
	case subscribing:
		m.lost("it does not coordinate the share")
	}
}

// hears says whether a message is the coordinator's.
func (m *Member) hears(by peers.ID, id share.ID, now time.Time) bool {
	m.now = now
	return m.seat.state >= subscribing && id == m.cfg.Share && by == m.cfg.Coordinator
}

// SubscribeResult is told what the coordinator answered to the subscription.
func (m *Member) SubscribeResult(by peers.ID, r wire.SubscribeResult, now time.Time) {
	switch {
	case !m.hears(by, r.Share, now):
	case !r.Accepted:
		why := r.Reason.String()
		if r.Reason.Code == wire.CodeNotListed {
			why += fmt.Sprintf(" (%s)", m.cfg.Self)
		}
		m.lost(why)
		m.seat.barred = r.Reason.Code == wire.CodeNotListed || r.Reason.Code == wire.CodeNoSecret
		if r.Retry == 0 {
			r.Retry = joinWithin
		}
		m.seat.retry = now.Add(r.Retry)
	case m.seat.state == subscribing:
		m.join()
	}
}

// join tells the coordinator everything about this node: its sources with what is being
// fetched from them, and last, because that makes it a member, its pieces.
func (m *Member) join() {
	m.seat.joined(m.now)
	m.alone, m.stop = false, time.Time{}
	for _, src := range m.order {
		m.announce(src)
		m.govern(src)
		m.lease(src, src.pieces())
	}
	m.tellAll(m.fellows.lacks(m.cfg.Share, m.cfg.Mine))
	m.tellSeat(wire.HaveMap{Share: m.cfg.Share, Pieces: m.cfg.Mine.Len(), Bits: m.cfg.Mine.Bytes()})
}

// lost notes that there is no coordinator, until the next attempt.
func (m *Member) lost(why string) {
	if m.seat.state == away {
		return
	}
	if m.seat.state == seated {
		m.stop = m.now.Add(linger)
	}
	m.seat.lost(why, m.now)
	m.then(Unseat{})
	m.news = news{}
	clear(m.stale)
	for _, src := range m.order {
		src.asking, src.keep, src.again, src.refused = time.Time{}, nil, time.Time{}, wire.Reason{}
	}
}

// endLeases ends what was leased by a coordinator that has been away too long.
func (m *Member) endLeases() time.Time {
	if m.stop.IsZero() || m.stop.After(m.now) {
		return m.stop
	}
	m.stop = time.Time{}
	if !m.alone {
		for _, src := range m.order {
			m.take(src, src.pieces())
		}
	}
	return m.stop
}

// goAlone lets the lease manager lease whatever it likes after a long time without a
// coordinator.
func (m *Member) goAlone() (next time.Time) {
	if m.seat.state == seated || m.alone || m.cfg.Alone <= 0 {
		return next
	}
	if at := m.seat.since.Add(m.cfg.Alone); at.After(m.now) {
		return at
	}
	m.startAlone()
	return next
}

func (m *Member) startAlone() {
	if m.alone {
		return
	}
	m.alone, m.stop = true, time.Time{}
	for _, src := range m.order {
		m.govern(src)
	}
}

// FleetMembers is told of other members: they are sources that need no permission.
func (m *Member) FleetMembers(by peers.ID, f wire.FleetMembers, now time.Time) {
	if !m.hears(by, f.Share, now) {
		return
	}
	for _, p := range f.Members {
		m.fellow(p.ID)
	}
	m.then(Name{f.Members})
}

// fellow notes another member: it is no longer a source outside the fleet.
func (m *Member) fellow(id peers.ID) {
	if id == m.cfg.Self {
		return
	}
	m.fellows.add(id)
	if src := m.byID[id]; src != nil {
		m.forget(src)
		m.down(src)
		if src.have != nil {
			m.then(Allow{src.id, src.have})
		}
	}
}

// PlanQuery is told that somebody asks for the state of the plan, and since when the
// transfer has waited for a verified byte, if it does. A member whose coordinator leases
// it nothing waits for what other members say they have.
func (m *Member) PlanQuery(from Port, quiet, now time.Time) {
	m.now = now
	m.quiet(quiet)
	m.ask(question{from: from})
}

func (m *Member) quiet(since time.Time) {
	if m.seat.state != seated || since.IsZero() {
		return
	}
	since = latest(since, m.seat.since)
	if m.cfg.Alone > 0 && m.now.Sub(since) >= m.cfg.Alone {
		m.startAlone()
	}
	if m.now.Sub(latest(since, m.doubted)) >= doubtAfter {
		m.doubted = m.now
		m.tellAll(missing(m.cfg.Share, "", m.unleased()))
	}
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// ---- news for the coordinator ----

// tell sends what was gathered and is due.
func (m *Member) tell() time.Time {
	if due(&m.news.bytesAt, m.now) {
		for _, src := range m.order {
			m.tellAll(src.progress(m.cfg.Share))
		}
	}
	if due(&m.news.tellAt, m.now) {
		m.tellAll(m.news.pieces(m.cfg.Share))
		m.tellAll(m.news.lacking())
	}
	return times.Earliest(m.news.tellAt, m.news.bytesAt)
}
