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

// A Ration bounds how many bytes a second a node asks for, over all its transfers
// and sources. It is spent when bytes are asked for and not when they come, so
// nothing that the limit does not let through piles up on the way. Each pool has
// its own [Ration.For] of it. Both are safe for concurrent use.
//
// A pool that may not ask now has booked its turn: turns come in the order in
// which they were booked, so all sources that could send more get equal shares.
type Ration struct{ *rations }

// rations is what the rations of all pools have in common.
type rations struct {
	s *system.System

	mu    sync.Mutex
	limit *rate.Limiter // nil: there is none
	rate  int64         // bytes per second
	parts []*part       // of running pools
}

// part is what one pool may ask for.
type part struct {
	r      *rations
	who    *actor.PID
	booked *rate.Reservation // nil: no turn is waited for
	at     time.Time         // ... when it comes
	bytes  int               // ... and for how much
}

// rationChanged, Ration -> FetchPool: the limit is another.
type rationChanged struct{}

// burstTime is how much of the limit may be asked for at once by whoever was held up
// for less time than that.
const burstTime = 125 * time.Millisecond

// NewRation is a limit of bytes per second; 0 is none.
func NewRation(s *system.System, bytesPerSecond int64) *Ration {
	r := &Ration{&rations{s: s}}
	r.SetRate(bytesPerSecond)
	return r
}

// SetRate changes the limit, from now on; 0 or less is none.
func (r *rations) SetRate(bytesPerSecond int64) {
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
	for _, p := range r.parts {
		p.booked = nil // of a limit that does not hold any more
	}
	parts := slices.Clone(r.parts)
	r.mu.Unlock()
	for _, p := range parts {
		r.s.Send(p.who, rationChanged{})
	}
}

// Rate is the limit in bytes per second; 0 is none.
func (r *rations) Rate() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rate
}

// For is a pool's part of it, until it is closed.
func (r *rations) For(who *actor.PID) *part {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &part{r: r, who: who}
	r.parts = append(r.parts, p)
	return p
}

// due says whether n bytes may be asked for now. If not, a turn is booked.
func (p *part) due(n int, now time.Time) bool {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	if p.r.limit == nil {
		return true
	}
	if p.booked == nil {
		p.r.forgo(now)
		p.bytes = min(n, p.r.limit.Burst())
		p.booked = p.r.limit.ReserveN(now, p.bytes)
		p.at = now.Add(p.booked.DelayFrom(now))
	}
	return !p.at.After(now)
}

// forgo gives up what a pause has saved up: who begins to ask, or begins again, keeps
// to the limit from the first byte on. mu is held.
func (r *rations) forgo(now time.Time) {
	if r.limit.TokensAt(now) >= float64(r.limit.Burst()) {
		r.limit.ReserveN(now, r.limit.Burst())
	}
}

// spend takes n bytes that were due.
func (p *part) spend(n int, now time.Time) {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	if p.booked == nil {
		return
	}
	if more := min(n-p.bytes, p.r.limit.Burst()); more > 0 { // it asks for more than it booked
		p.r.limit.ReserveN(now, more)
	}
	p.booked = nil
}

// wait is when the turn comes that was booked; zero if none was.
func (p *part) wait() time.Time {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	if p.booked == nil {
		return time.Time{}
	}
	return p.at
}

// cancel gives up the turn that was booked.
func (p *part) cancel(now time.Time) {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	if p.booked != nil {
		p.booked.CancelAt(now)
		p.booked = nil
	}
}

// close ends the pool's part.
func (p *part) close(now time.Time) {
	p.cancel(now)
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.r.parts = slices.DeleteFunc(p.r.parts, func(x *part) bool { return x == p })
}
