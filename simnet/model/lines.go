package model

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/piecelease/fetcher/actors/system"
)

// Packet is the size of a packet in bytes.
const Packet = 1400

const (
	mathis  = 1.22
	minStep = 1 << 10 // bytes that travel as one, between these bounds
	maxStep = 64 << 10
)

// Path is the way from one node to another, in one direction.
type Path struct {
	Latency time.Duration
	Jitter  time.Duration
	Loss    float64
	Pipes   []*Pipe // after the sender's own line
}

// Delay draws how long n bytes take besides the time in pipes. rtt is for packets
// that are sent again.
func (p *Path) Delay(n int, rtt time.Duration, rng *rand.Rand) time.Duration {
	d := p.Latency
	if p.Jitter > 0 {
		d += time.Duration(rng.Int64N(int64(p.Jitter)))
	}
	if p.Loss == 0 {
		return d
	}
	packets := (n + Packet - 1) / Packet
	if rng.Float64() >= 1-math.Pow(1-p.Loss, float64(packets)) {
		return d
	}
	d += rtt
	for wait := max(2*rtt, 200*time.Millisecond); rng.Float64() < p.Loss && wait < time.Minute; wait *= 2 {
		d += wait
	}
	return d
}

// Step is how many bytes travel as one: what the slowest pipe passes in a
// twentieth of a second, within bounds.
func (p *Path) Step(up, pace float64) int {
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

func (p *Path) rates() (out []float64) {
	for _, x := range p.Pipes {
		out = append(out, x.Rate)
	}
	return out
}

// Limit is how fast one connection can send on the path; 0 is no limit.
func (p *Path) Limit(rtt time.Duration) float64 {
	if p.Loss == 0 {
		return 0
	}
	return Packet * mathis / (max(rtt, time.Millisecond).Seconds() * math.Sqrt(p.Loss))
}

// Pipe passes bytes on at a rate: urgent ones first, otherwise first in, first out.
// So nothing small waits behind a queue of bulk, which is short in a real network: a
// sender's window bounds it, and fair queues let through senders that send little (RFC 8290).
type Pipe struct {
	World *system.World
	Rate  float64       // bytes per second; 0 is no limit
	Burst time.Duration // how much idle time counts as work done ahead

	free   time.Duration // when what passes will be out
	busy   bool          // something is passing
	urgent []parcel
	bulk   []parcel
}

// Pass calls then when n bytes are through.
func (p *Pipe) Pass(n int, urgent bool, then func()) {
	if urgent {
		p.urgent = append(p.urgent, parcel{n, then})
	} else {
		p.bulk = append(p.bulk, parcel{n, then})
	}
	p.next()
}

// next passes the next bytes, if none are passing now.
func (p *Pipe) next() {
	for !p.busy {
		line := &p.urgent
		if len(p.urgent) == 0 {
			line = &p.bulk
		}
		if len(*line) == 0 {
			return
		}
		x := (*line)[0]
		*line = (*line)[1:]
		now := p.World.Elapsed()
		p.free = max(p.free, now-p.Burst)
		if p.Rate > 0 {
			p.free += duration(float64(x.size) / p.Rate)
		}
		if p.free <= now {
			x.sent()
			continue
		}
		p.busy = true
		p.World.After(p.free-now, func() {
			p.busy = false
			x.sent()
			p.next()
		})
	}
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// parcel is bytes that travel as one.
type parcel struct {
	size int
	sent func() // called when they are through
}

// Uplink is a node's line out. Messages go first; then each stream sends a
// parcel in turn.
type Uplink struct {
	World  *system.World
	Rate   float64
	busy   bool
	urgent []parcel
	turns  []*Flow
}

// Flow is one stream on an uplink.
type Flow struct {
	Up     *Uplink
	queue  []parcel
	listed bool
	Pace   float64       // bytes per second at most; 0 is no limit
	next   time.Duration // when the pace allows the next
}

// Message sends bytes ahead of all streams, and calls sent when they have left.
func (u *Uplink) Message(size int, sent func()) {
	u.urgent = append(u.urgent, parcel{size, sent})
	u.pump()
}

// Send sends bytes when the stream's turn comes, and calls sent when they have left.
func (f *Flow) Send(size int, sent func()) {
	f.queue = append(f.queue, parcel{size, sent})
	f.list()
	f.Up.pump()
}

// Drop forgets what has not been sent.
func (f *Flow) Drop() { f.queue = nil }

// list puts the flow in line when its pace allows.
func (f *Flow) list() {
	if f.listed || len(f.queue) == 0 {
		return
	}
	f.listed = true
	if wait := f.next - f.Up.World.Elapsed(); f.Pace > 0 && wait > 0 {
		f.Up.World.After(wait, func() {
			f.Up.turns = append(f.Up.turns, f)
			f.Up.pump()
		})
		return
	}
	f.Up.turns = append(f.Up.turns, f)
}

// pump sends the next parcel if the line is free.
func (u *Uplink) pump() {
	for !u.busy {
		x, ok := u.take()
		if !ok {
			return
		}
		if u.Rate == 0 {
			x.sent()
			continue
		}
		u.busy = true
		u.World.After(duration(float64(x.size)/u.Rate), func() {
			u.busy = false
			x.sent()
			u.pump()
		})
	}
}

func (u *Uplink) take() (x parcel, ok bool) {
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
		if f.Pace > 0 {
			f.next = max(f.next, u.World.Elapsed()) + duration(float64(x.size)/f.Pace)
		}
		f.list()
		return x, true
	}
	return parcel{}, false
}
