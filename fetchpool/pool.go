package fetchpool

import (
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/piecelease/fetcher/internal/times"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// State is the state of a pool towards its source.
type State uint8

const (
	Idle        State = iota // not begun
	Dialing                  // a link is being made
	Subscribing              // connected, and asking for the have-map
	Ready                    // fetching, or idle for want of pieces
	Waiting                  // until the next dial
	Gone                     // for ever
)

func (s State) String() string {
	return [...]string{"idle", "dialing", "subscribing", "ready", "waiting", "gone"}[s]
}

// Outcome is how a request ended without its blocks.
type Outcome uint8

const (
	Busy      Outcome = iota // asked to come again later
	NotFound                 // the source does not have the piece
	NoShare                  // GONE: the source no longer has the share
	Refused                  // the source will not serve us
	Elsewhere                // the source has just given the piece to others: fetch it from them
)

// Permission says whether bytes may be asked for. The owner of a Pool gives it.
type Permission uint8

const (
	Granted  Permission = iota
	NoMemory            // enough bytes are in flight on the node
	TooSoon             // the node's own limit of bytes a second is used up
)

// Todo is what the owner of a Pool is to do, in this order: cancel, give back
// the budget of what ended, return leases, close, dial, subscribe, send. Its
// slices are good until the next call of Next.
type Todo struct {
	Cancel    []uint64      // requests to withdraw on the link
	Ended     []Request     // every request once: finished, failed, cancelled or lost; its bytes go back to the budget
	Return    []Return      // leases to give back
	Close     bool          // the link, if there is one, is given up; Lost need not be told
	Dial      bool          // make a new link
	Subscribe bool          // ask for the have-map
	Believe   []share.Piece // that the source has these after all: it said so, and NOT_FOUND was long ago
	Requests  []Request     // to be sent; their bytes were taken from the budget
	Want      int           // how many more pieces could be used. A level, not an event: ask once, and again after the answer
	Starved   bool          // the answer was NoMemory: call Next again when there is room
	Paced     bool          // the answer was TooSoon: call Next again when it is time
	Wake      time.Time     // call Next again then; zero: not before something happens
	Gone      bool          // the pool has ended; Why says how
}

// Pool is the work on one source. It has one owner; it is not safe for
// concurrent use. Time must not go backwards from call to call.
type Pool struct {
	cfg    Config
	layout *share.Layout
	rng    *rand.Rand
	piece  float64       // mean bytes of a piece: of the share, then of those leased lately
	mute   time.Duration // how long it had been silent when nothing was left to wait for
	idle   time.Time     // when that was
	now    time.Time

	state State
	until time.Time     // Dialing, Subscribing, early: give up then, zero: never; Waiting: dial then
	early bool          // Ready, and the subscription is not yet accepted
	asked bool          // Subscribing, early: the subscription is under way
	again time.Time     // Subscribing: ask then, after Declined
	wait  time.Duration // Waiting, or the last wait for a busy source: how long
	cause string        // Gone, Declined, Held: why
	lost  string        // why the last link was lost, until another works
	stood bool          // ... though the source was connected
	ready time.Time     // when the state became Ready
	broke int           // links in a row that broke the protocol

	redial, subscribe, busy backoff
	dialAt                  time.Time // waiting: before that a dial does not count as failed
	brought                 time.Time // when bytes came last, on whatever link
	barren                  int       // links in a row that gave nothing of what was asked for; -1: this one gave something

	leases   map[share.Piece]*lease
	list     lease    // of all leases: next is the oldest
	queue    []*lease // with blocks to ask for, in turn; some may be over
	ahead    int      // bytes not asked for, of all leases
	requests map[uint64]*request
	id       uint64
	inFlight int // bytes asked for and not arrived
	pipeline int // requests that may be in flight; shrinks when the source is busy
	credit   int // requests finished since it last grew

	win     window
	heard   time.Time     // last sign of life, or when something was first asked for
	pace    float64       // the rate then
	gap     time.Duration // the longest between two signs, lately
	check   time.Time     // look at the deadlines then, at the latest
	pause   time.Time     // ask for nothing before: the source is busy
	starved bool
	paced   bool
	looked  time.Time     // when it last asked whether it may ask
	waited  time.Duration // of the second before that, for the limit
	span    time.Duration // ... or of less, at the beginning
	most    float64       // bytes a second that the node may ask for, of all sources; 0: no limit
	whose   string        // limit that is

	refused bool      // there are no leases for this pool
	askAt   time.Time // ... until then; zero: until it is woken
	refusal string

	absent   map[share.Piece]time.Time // NOT_FOUND: do not ask before
	absentAt time.Time                 // the first of these times; zero: none
	misses   int                       // NOT_FOUND in a row

	todo, spare Todo
}

// New makes a Pool for one source of a share. The first Next dials.
func New(cfg Config, layout *share.Layout, seed uint64, now time.Time) *Pool {
	cfg = cfg.withDefaults()
	p := &Pool{
		cfg:      cfg,
		layout:   layout,
		rng:      rand.New(rand.NewPCG(seed, 0x706f6f6c)),
		piece:    max(float64(layout.Bytes())/float64(max(layout.Pieces(), 1)), 1),
		now:      now,
		leases:   map[share.Piece]*lease{},
		requests: map[uint64]*request{},
		absent:   map[share.Piece]time.Time{},
		pipeline: cfg.MaxRequests,
		heard:    now,
	}
	wait := backoff{min: cfg.RedialMin, max: cfg.RedialMax}
	p.redial, p.subscribe, p.busy = wait, wait, wait
	p.list.prev, p.list.next = &p.list, &p.list
	p.win.init(&p.cfg, now)
	return p
}

// State is the state of the pool.
func (p *Pool) State() State { return p.state }

// Dials is how many links in a row gave nothing: none since bytes last arrived.
func (p *Pool) Dials() int { return p.redial.failed }

// LastLoss is why the last link was lost, or never came up; empty once another one works.
func (p *Pool) LastLoss() string { return p.lost }

// Stood says that the source was connected when the last link was lost.
func (p *Pool) Stood() bool { return p.stood }

// Busy says that the source answers that it is busy, and has sent nothing since.
func (p *Pool) Busy() bool { return p.state == Ready && p.busy.failed > 0 && p.misses < manyMisses }

// Leases is the number of leases held.
func (p *Pool) Leases() int { return len(p.leases) }

// InFlight is the bytes asked for and not arrived, and the bytes that may be: the window.
func (p *Pool) InFlight() (bytes, window int) { return p.inFlight, p.win.limit() }

// Measure is what the source delivers, in bytes per second, and its round trip.
// known is false before the first reply.
func (p *Pool) Measure() (rate float64, rtt time.Duration, known bool) {
	return p.win.rate, p.win.rtt, p.win.rate > 0
}

// Held says that the link being made waits for other links of this node, and why. The
// source is not late.
func (p *Pool) Held(why string, now time.Time) {
	p.now = now
	if p.state == Dialing {
		p.until, p.cause = time.Time{}, why
	}
}

// IsHeld reports whether the link waits because of Held.
func (p *Pool) IsHeld() bool { return p.state == Dialing && p.until.IsZero() }

// Opened says that the link is up. rtt is its round trip, 0 when it is not known.
func (p *Pool) Opened(rtt time.Duration, now time.Time) {
	p.now = now
	if p.state != Dialing {
		return
	}
	p.state, p.early, p.asked, p.again, p.until = Subscribing, false, false, time.Time{}, time.Time{}
	size := p.cfg.FirstWindow
	if p.barren > 0 { // the last link gave nothing: risk less
		size = p.cfg.MinWindow
	}
	p.win.opened(rtt, size, now)
	p.pause, p.misses, p.mute = time.Time{}, 0, 0
}

// Early says, after Opened, that it is known what the source has. It is asked for pieces before it has
// answered the subscription.
func (p *Pool) Early(now time.Time) {
	p.now = now
	if p.state == Subscribing {
		p.begin()
		p.early = true
	}
}

// joining says whether the source has still to accept the subscription.
func (p *Pool) joining() bool { return p.state == Subscribing || p.state == Ready && p.early }

// Subscribed says that the source accepted our subscription.
func (p *Pool) Subscribed(now time.Time) {
	p.now = now
	if !p.joining() {
		return
	}
	if p.state == Subscribing {
		p.begin()
	}
	p.early, p.until, p.lost = false, time.Time{}, ""
	p.subscribe.reset()
}

// begin makes the pool Ready.
func (p *Pool) begin() {
	p.state, p.ready = Ready, p.now
	p.refused, p.refusal = false, ""
}

// Declined says that the source did not accept our subscription: ask again after
// retry (0: as the back-off says; negative: never). The link stays, but nothing is asked for on it.
// If the source had accepted an earlier one, its last word counts: it announces nothing more.
func (p *Pool) Declined(retry time.Duration, why string, now time.Time) {
	p.now = now
	switch {
	case p.state != Subscribing && p.state != Ready:
		return
	case retry < 0:
		p.end(why)
		return
	}
	wait := p.subscribe.next(p.rng)
	if retry > 0 {
		wait = min(max(retry, p.cfg.RedialMin), p.cfg.RedialMax)
	}
	p.returnAll(SourceBusy)
	p.state, p.asked, p.again, p.until = Subscribing, false, now.Add(wait), time.Time{}
	p.wait, p.cause = wait, why
}

// Lost says that the link is down, or never came up. Leases return and the pool
// dials again after a while; a source whose links broke the protocol three times
// in a row is Gone.
func (p *Pool) Lost(err error, now time.Time) {
	p.now = now
	switch p.state {
	case Dialing, Subscribing, Ready:
	default:
		return
	}
	if errors.Is(err, peers.ErrProtocol) {
		if p.broke++; p.broke == 3 {
			p.end("broke the protocol again and again: " + strings.TrimPrefix(err.Error(), peers.ErrProtocol.Error()+": "))
			return
		}
	}
	p.lose(err.Error(), LinkLost, errors.Is(err, peers.ErrStream))
}

// Elsewhere says that the source may have another address: if it could not be reached, or
// was lost, it is dialled now, and dials is true.
func (p *Pool) Elsewhere(now time.Time) (dials bool) {
	if p.now = now; p.state == Waiting {
		p.until = now
	}
	return p.state == Waiting
}

// Stop ends the pool for a reason. Everything is returned.
func (p *Pool) Stop(why string, now time.Time) {
	p.now = now
	p.end(why)
}

func (p *Pool) end(why string) {
	if p.state == Gone {
		return
	}
	p.dropAll(Stopped, Stopped)
	p.state, p.cause = Gone, why
}

// lose gives up the link and waits for the next dial.
func (p *Pool) lose(cause string, busyLeases Reason, stood bool) {
	if p.state == Ready && p.now.Sub(p.ready) >= p.cfg.RedialMax {
		p.reached() // the link held long enough to count as a success
	}
	if p.barren < 0 || len(p.requests) > 0 || p.mute > 0 { // one on which nothing was asked for says nothing
		p.barren++
	}
	p.dropAll(busyLeases, LinkLost)
	p.state, p.lost, p.stood = Waiting, cause, stood
	p.wait = p.redialWait()
	p.until = p.now.Add(p.wait)
	p.todo.Close = true
}

// reached notes that the source could be reached.
func (p *Pool) reached() {
	p.redial.reset()
	p.dialAt = time.Time{}
}

// redialWait is how long to wait before the next dial: after failures ever longer. A source
// that has brought something may be back at any time: it is dialled more often, after a quarter of the time that
// it has brought nothing. Such dials do not count as failed.
func (p *Pool) redialWait() time.Duration {
	if !p.now.Before(p.dialAt) {
		p.dialAt = p.now.Add(p.redial.next(p.rng))
	}
	wait := p.dialAt.Sub(p.now)
	if !p.brought.IsZero() && p.barren == 0 {
		wait = min(wait, spread(max(p.cfg.RedialMin, p.now.Sub(p.brought)/4), p.rng))
	}
	return wait
}

// Limit says how many bytes a second the node may ask for, of all its sources, and whose limit that is, for people; 0
// is no limit. With a limit the pool asks for little at a time and holds few leases.
// Next's take decides when it may ask at all, and a source is never blamed for that.
func (p *Pool) Limit(bytesPerSecond float64, whose string, now time.Time) {
	p.now = now
	p.most, p.whose = max(bytesPerSecond, 0), whose
	p.refused = false // there may be more leases for this pool than before
}

// Next returns what to do now. It calls take to ask whether it may request some bytes,
// for each request and only when that would be sent.
func (p *Pool) Next(now time.Time, take func(bytes int) Permission) Todo {
	p.now = now
	p.turn()
	p.overdue()
	p.trim()
	p.ask(take)
	t := p.todo
	t.Want, t.Starved, t.Paced, t.Gone = p.want(), p.starved, p.paced, p.state == Gone
	t.Wake = p.wake()
	p.todo, p.spare = p.spare, t
	p.todo = Todo{Cancel: p.todo.Cancel[:0], Ended: p.todo.Ended[:0], Return: p.todo.Return[:0], Requests: p.todo.Requests[:0], Believe: p.todo.Believe[:0]}
	return t
}

// turn does what time alone brings about.
func (p *Pool) turn() {
	p.believe()
	switch p.state {
	case Subscribing, Ready:
		p.join()
	case Dialing:
		if !p.until.IsZero() && !p.now.Before(p.until) {
			p.lose("no answer", LinkLost, false)
		}
	case Idle:
		p.dial()
	case Waiting:
		if !p.now.Before(p.until) {
			p.dial()
		}
	}
}

// join subscribes, and gives up a source that does not answer that.
func (p *Pool) join() {
	switch {
	case !p.joining():
	case !p.until.IsZero() && !p.now.Before(p.until):
		p.lose("it is connected, and did not say what it has", LinkLost, true)
	case !p.asked && !p.now.Before(p.again):
		p.asked, p.until = true, p.now.Add(p.cfg.SubscribeFor)
		p.todo.Subscribe = true
	}
}

func (p *Pool) dial() {
	p.state, p.until = Dialing, p.now.Add(p.cfg.DialFor)
	p.todo.Dial = true
}

// wake is when Next has something to do even if nothing happens.
func (p *Pool) wake() (at time.Time) {
	switch p.state {
	case Dialing, Waiting:
		return p.until
	case Subscribing:
		if !p.asked {
			return p.again
		}
		return p.until
	case Ready:
		if at = p.absentAt; p.early {
			at = times.Earliest(at, p.until)
		}
		if len(p.requests) > 0 {
			at = times.Earliest(at, p.check)
		}
		if p.pause.After(p.now) {
			at = times.Earliest(at, p.pause)
		}
		if p.refused && p.askAt.After(p.now) {
			at = times.Earliest(at, p.askAt)
		}
	}
	return at
}
