package actors

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"golang.org/x/time/rate"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/share"
)

// A Ration bounds how many bytes a second a node asks for over all its transfers and
// sources, or over one transfer: [Ration.Within]. It is spent when bytes are asked for,
// not when they come, so no bytes beyond the limit pile up on the way. Each pool takes
// its own part with [Ration.For]. Both are safe for concurrent use.
//
// A pool that may not ask now has booked its turn: turns come in the order in
// which they were booked, so all sources that could send more get equal shares.
type Ration struct {
	s      *system.System
	within *Ration // the node's Ration, which bounds this one too; nil: this is the node's

	mu    sync.Mutex
	limit *rate.Limiter // nil: there is none
	rate  int64         // bytes per second
	turns []*turn       // of running pools
}

// part is what one pool may ask for: it has a turn by each limit that bounds it.
type part []*turn

// turn is when a pool may ask for more, by one limit.
type turn struct {
	r      *Ration
	who    *actor.PID
	booked *rate.Reservation // nil: no turn is waited for
	at     time.Time         // ... when it comes
	bytes  int               // ... and for how much
	slowed bool              // the limits are what holds the pool up
}

// rationChanged, Ration -> FetchPool: the limit has changed.
type rationChanged struct{}

// burstTime is how much of the limit may be asked for at once by a pool that was held up
// for less than that time.
const burstTime = 125 * time.Millisecond

// NewRation makes a limit in bytes per second; 0 is none.
func NewRation(s *system.System, bytesPerSecond int64) *Ration {
	r := &Ration{s: s}
	r.SetRate(bytesPerSecond)
	return r
}

// Within makes a limit in bytes per second within r; 0 is none.
func (r *Ration) Within(bytesPerSecond int64) *Ration {
	own := NewRation(r.s, bytesPerSecond)
	own.within = r
	return own
}

// SetRate changes the limit, from now on; 0 or less is none.
func (r *Ration) SetRate(bytesPerSecond int64) {
	r.mu.Lock()
	now := r.s.Now()
	r.rate = max(bytesPerSecond, 0)
	was := r.limit
	r.limit = nil
	if r.rate > 0 {
		burst := int(min(max(float64(r.rate)*burstTime.Seconds(), share.BlockSize), math.MaxInt32))
		r.limit = rate.NewLimiter(rate.Limit(r.rate), burst)
		if was != nil { // what was saved up is kept, what was owed is forgotten
			saved := min(max(int(was.TokensAt(now)), 0), burst)
			r.limit.ReserveN(now, burst-saved)
		}
	}
	for _, t := range r.turns {
		t.booked = nil // by a limit that no longer holds
	}
	turns := slices.Clone(r.turns)
	r.mu.Unlock()
	for _, t := range turns {
		r.s.Send(t.who, rationChanged{})
	}
}

// Rate is the lowest limit in force, in bytes per second; 0 is none.
func (r *Ration) Rate() int64 {
	rate, _ := r.lowest()
	return rate
}

// lowest is Rate, and whether it is that of one transfer, not the node's.
func (r *Ration) lowest() (rate int64, own bool) {
	r.mu.Lock()
	rate = r.rate
	r.mu.Unlock()
	if r.within == nil {
		return rate, false
	}
	if all := r.within.Rate(); rate == 0 || all > 0 && all < rate {
		return all, false
	}
	return rate, true
}

// queue is how long a pool that books a turn now waits for it.
func (r *Ration) queue(now time.Time) (d time.Duration) {
	for ; r != nil; r = r.within {
		r.mu.Lock()
		if r.limit != nil {
			d = max(d, time.Duration(-r.limit.TokensAt(now)/float64(r.rate)*float64(time.Second)))
		}
		r.mu.Unlock()
	}
	return d
}

// For is a pool's part of it, until it is closed.
func (r *Ration) For(who *actor.PID) (p part) {
	for ; r != nil; r = r.within {
		t := &turn{r: r, who: who}
		r.mu.Lock()
		r.turns = append(r.turns, t)
		r.mu.Unlock()
		p = append(p, t)
	}
	return p
}

// due says whether n bytes may be asked for now. If not, a turn is booked.
func (p part) due(n int, now time.Time) bool {
	due := true
	for _, t := range p {
		due = t.due(n, now) && due
	}
	return due
}

// spend takes n bytes that were due.
func (p part) spend(n int, now time.Time) {
	for _, t := range p {
		t.spend(n, now)
	}
}

// wait is when the booked turn comes; zero if none was booked.
func (p part) wait() (at time.Time) {
	for _, t := range p {
		if w := t.wait(); w.After(at) {
			at = w
		}
	}
	return at
}

// cancel gives up the turn that was booked.
func (p part) cancel(now time.Time) {
	for _, t := range p {
		t.cancel(now)
	}
}

// tell says whether the limits are what holds the pool up.
func (p part) tell(slowed bool) {
	for _, t := range p {
		t.r.mu.Lock()
		t.slowed = slowed
		t.r.mu.Unlock()
	}
}

// holdsUp reports whether the limits hold up any of its pools.
func (r *Ration) holdsUp() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.turns, func(t *turn) bool { return t.slowed })
}

// close ends the pool's part.
func (p part) close(now time.Time) {
	for _, t := range p {
		t.close(now)
	}
}

func (t *turn) due(n int, now time.Time) bool {
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	if t.r.limit == nil {
		return true
	}
	if t.booked == nil {
		t.r.forgo(now)
		t.bytes = min(n, t.r.limit.Burst())
		t.booked = t.r.limit.ReserveN(now, t.bytes)
		t.at = now.Add(t.booked.DelayFrom(now))
	}
	return !t.at.After(now)
}

// forgo gives up what a pause has saved up: a pool that begins to ask, or begins again,
// keeps to the limit from the first byte on. mu is held.
func (r *Ration) forgo(now time.Time) {
	if r.limit.TokensAt(now) >= float64(r.limit.Burst()) {
		r.limit.ReserveN(now, r.limit.Burst())
	}
}

func (t *turn) spend(n int, now time.Time) {
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	if t.booked == nil {
		return
	}
	if more := min(n-t.bytes, t.r.limit.Burst()); more > 0 { // it asks for more than it booked
		t.r.limit.ReserveN(now, more)
	}
	t.booked = nil
}

func (t *turn) wait() time.Time {
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	if t.booked == nil {
		return time.Time{}
	}
	return t.at
}

func (t *turn) cancel(now time.Time) {
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	if t.booked != nil {
		t.booked.CancelAt(now)
		t.booked = nil
	}
}

func (t *turn) close(now time.Time) {
	t.cancel(now)
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	t.r.turns = slices.DeleteFunc(t.r.turns, func(x *turn) bool { return x == t })
}
