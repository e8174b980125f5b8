package simnet

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/piecelease/fetcher/actors/system"
)

const (
	packet  = 1400 // bytes
	mathis  = 1.22
	minStep = 1 << 10 // bytes that travel as one, between these bounds
	maxStep = 64 << 10
)

// path is what lies between two nodes, in one direction.
type path struct {
	latency time.Duration
	jitter  time.Duration
	loss    float64
	pipes   []*pipe // behind the sender's own line
}

// delay draws how long n bytes take besides the time in pipes. rtt is for what
// is sent again.
func (p *path) delay(n int, rtt time.Duration, rng *rand.Rand) time.Duration {
	d := p.latency
	if p.jitter > 0 {
		d += time.Duration(rng.Int64N(int64(p.jitter)))
	}
	if p.loss == 0 {
		return d
	}
	packets := (n + packet - 1) / packet
	if rng.Float64() >= 1-math.Pow(1-p.loss, float64(packets)) {
		return d
	}
	d += rtt
	for wait := max(2*rtt, 200*time.Millisecond); rng.Float64() < p.loss && wait < time.Minute; wait *= 2 {
		d += wait
	}
	return d
}

// step is how many bytes travel as one: what the slowest pipe passes in a
// twentieth of a second, in bounds.
func (p *path) step(up, pace float64) int {
	slowest := up
	for _, r := range append([]float64{pace}, p.rates()...) {
		if r > 0 && (slowest == 0 || r < slowest) {
			slowest = r
		}
	}
	if slowest == 0 {
		return maxStep
	}
	return int(min(max(slowest/20, minStep), maxStep))
}

func (p *path) rates() (out []float64) {
	for _, x := range p.pipes {
		out = append(out, x.rate)
	}
	return out
}

// limit is how fast one connection can send on the path; 0 is no limit.
func (p *path) limit(rtt time.Duration) float64 {
	if p.loss == 0 {
		return 0
	}
	return packet * mathis / (max(rtt, time.Millisecond).Seconds() * math.Sqrt(p.loss))
}

// pipe passes bytes on at a rate, first in, first out.
type pipe struct {
	w     *system.World
	rate  float64       // bytes per second; 0 is no limit
	burst time.Duration // how much idle time counts as work done ahead
	free  time.Duration // when all that is in it will be out
	queue int           // parcels in it
}

// pass calls then when n bytes are through.
func (p *pipe) pass(n int, then func()) {
	if p.rate == 0 {
		then()
		return
	}
	now := p.w.Elapsed()
	p.free = max(p.free, now-p.burst) + duration(float64(n)/p.rate)
	if p.free <= now && p.queue == 0 {
		then()
		return
	}
	p.queue++ // nobody overtakes one that comes out in this very moment
	p.w.After(max(0, p.free-now), func() {
		p.queue--
		then()
	})
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// parcel is bytes that travel as one.
type parcel struct {
	size int
	sent func() // it has left the node
}

// uplink is a node's line out. Messages go first; of the streams each sends a
// parcel in its turn.
type uplink struct {
	w      *system.World
	rate   float64
	busy   bool
	urgent []parcel
	turns  []*flow
}

// flow is one stream on an uplink.
type flow struct {
	up     *uplink
	queue  []parcel
	listed bool
	pace   float64       // bytes per second at most; 0 is no limit
	next   time.Duration // when the pace allows the next
}

func (u *uplink) message(size int, sent func()) {
	u.urgent = append(u.urgent, parcel{size, sent})
	u.pump()
}

func (f *flow) send(size int, sent func()) {
	f.queue = append(f.queue, parcel{size, sent})
	f.list()
	f.up.pump()
}

// drop forgets what has not been sent.
func (f *flow) drop() { f.queue = nil }

// list puts the flow in line when its pace allows.
func (f *flow) list() {
	if f.listed || len(f.queue) == 0 {
		return
	}
	f.listed = true
	if wait := f.next - f.up.w.Elapsed(); f.pace > 0 && wait > 0 {
		f.up.w.After(wait, func() {
			f.up.turns = append(f.up.turns, f)
			f.up.pump()
		})
		return
	}
	f.up.turns = append(f.up.turns, f)
}

// pump sends the next parcel if the line is free.
func (u *uplink) pump() {
	for !u.busy {
		x, ok := u.take()
		if !ok {
			return
		}
		if u.rate == 0 {
			x.sent()
			continue
		}
		u.busy = true
		u.w.After(duration(float64(x.size)/u.rate), func() {
			u.busy = false
			x.sent()
			u.pump()
		})
	}
}

func (u *uplink) take() (x parcel, ok bool) {
	if len(u.urgent) > 0 {
		x, u.urgent = u.urgent[0], u.urgent[1:]
		return x, true
	}
	for len(u.turns) > 0 {
		f := u.turns[0]
		u.turns = u.turns[1:]
		f.listed = false
		if len(f.queue) == 0 {
			continue
		}
		x, f.queue = f.queue[0], f.queue[1:]
		if f.pace > 0 {
			f.next = max(f.next, u.w.Elapsed()) + duration(float64(x.size)/f.pace)
		}
		f.list()
		return x, true
	}
	return parcel{}, false
}
