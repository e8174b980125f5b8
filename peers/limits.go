package peers

import (
	"maps"
	"math"
	"slices"
	"time"

	"golang.org/x/time/rate"
)

// gate bounds what is sent of one share. Its requests wait here, and meanwhile take no
// turn of their child: its other requests go before them.
type gate struct {
	limit *rate.Limiter
	held  []*job    // in order of arrival
	at    time.Time // when the limit lets the next of them through

	// Its children share by start-time fair queueing, as those of Uploads do.
	clock float64        // of the child that was let through last
	given map[ID]float64 // the clocks of children that are ahead of it, at least
}

// start is when it is a child's turn.
func (g *gate) start(c *child) float64 { return max(g.given[c.id], g.clock) }

// gave notes that a request is let through.
func (g *gate) gave(j *job) {
	g.clock = g.start(j.child)
	g.given[j.child.id] = g.clock + float64(j.Bytes)
	if len(g.given) > 2*len(g.held)+64 {
		maps.DeleteFunc(g.given, func(_ ID, at float64) bool { return at <= g.clock })
	}
}

// limited sets l to bytesPerSecond, or makes a new limiter if l is nil. A burst of 0 is the
// default.
func limited(l *rate.Limiter, bytesPerSecond int64, burst int, now time.Time) *rate.Limiter {
	if burst <= 0 {
		burst = int(min(max(bytesPerSecond/4, 256<<10), math.MaxInt32))
	}
	if l == nil {
		return rate.NewLimiter(rate.Limit(bytesPerSecond), burst)
	}
	l.SetLimitAt(now, rate.Limit(bytesPerSecond))
	l.SetBurstAt(now, burst)
	return l
}

// take takes n bytes from a limit, or the burst if that is less, or returns when they are available.
func take(l *rate.Limiter, n int, now time.Time) (paid int, at time.Time) {
	n = min(n, l.Burst())
	r := l.ReserveN(now, n)
	if d := r.DelayFrom(now); d > 0 {
		r.CancelAt(now)
		return 0, now.Add(d)
	}
	return n, time.Time{}
}

// SetRate changes the limit in bytes per second; 0 or less is none. It applies to
// requests that are not yet being served.
func (u *Uploads) SetRate(bytesPerSecond int64, now time.Time) {
	u.tokenAt = time.Time{}
	if bytesPerSecond <= 0 {
		u.limit = nil
		return
	}
	u.limit = limited(u.limit, bytesPerSecond, u.cfg.Burst, now)
}

// SetShareRate changes the limit of one share in bytes per second, within that of all; 0
// or less is none. next are those that may be served now.
func (u *Uploads) SetShareRate(key string, bytesPerSecond int64, now time.Time) (next []Job) {
	g := u.gates[key]
	switch {
	case bytesPerSecond > 0:
		if g == nil {
			g = &gate{given: map[ID]float64{}}
			u.gates[key] = g
		}
		g.limit = limited(g.limit, bytesPerSecond, u.cfg.Burst, now)
	case g != nil:
		delete(u.gates, key)
		for _, j := range slices.Clone(g.held) {
			u.unhold(j)
			u.enter(j)
		}
	}
	return u.run(now)
}

// Withdraw forgets what was sent of a share that is no longer served. Its limit stays.
func (u *Uploads) Withdraw(key string) { u.sent.forget(key) }

// pass lets a request through the gate of its share, or holds it there.
func (u *Uploads) pass(j *job, now time.Time) bool {
	g := u.gates[j.Key]
	if g == nil {
		return true
	}
	if j.gate = g; len(g.held) == 0 {
		if j.toll, g.at = take(g.limit, j.Bytes, now); g.at.IsZero() {
			g.gave(j)
			return true
		}
		u.holding = append(u.holding, g)
	}
	g.held = append(g.held, j)
	j.held = true
	j.child.held++
	return false
}

// unhold takes a request out of its gate.
func (u *Uploads) unhold(j *job) {
	j.held = false
	j.child.held--
	g := j.gate
	g.held = slices.DeleteFunc(g.held, func(x *job) bool { return x == j })
	if len(g.held) == 0 {
		u.holding = slices.DeleteFunc(u.holding, func(x *gate) bool { return x == g })
	}
}

// open lets through what the limits of shares allow.
func (u *Uploads) open(now time.Time) {
	for _, g := range slices.Clone(u.holding) {
		for len(g.held) > 0 {
			first := g.held[0]
			for _, j := range g.held[1:] {
				if g.start(j.child) < g.start(first.child) {
					first = j
				}
			}
			if first.toll, g.at = take(g.limit, first.Bytes, now); !g.at.IsZero() {
				break
			}
			g.gave(first)
			u.unhold(first)
			u.enter(first)
		}
	}
}

// refund gives back the part of a request's toll that was not sent.
func (j *job) refund(left int, now time.Time) {
	if n := min(left, j.toll); n > 0 {
		j.gate.limit.ReserveN(now, -n) // adds to what may be sent
		j.toll -= n
	}
}
