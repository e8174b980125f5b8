package leasemgr

import (
	"slices"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// world has sources that fetch what they are granted, at their rates, one lease
// after the other, in virtual time.
type world struct {
	r     *rig
	start time.Time
	peers map[peers.ID]*worker
	order []peers.ID
}

type worker struct {
	rate    float64
	trip    time.Duration
	queue   []Lease
	part    float64 // bytes of the first of the queue that have arrived
	got     int64
	since   time.Time
	stopped bool
	ask     time.Time // when it may ask again
}

func newWorld(r *rig) *world {
	return &world{r: r, start: r.now, peers: map[peers.ID]*worker{}}
}

func (w *world) join(id peers.ID, rate float64, trip time.Duration) {
	w.peers[id] = &worker{rate: rate, trip: trip, since: w.r.now}
	w.order = append(w.order, id)
}

func (w *world) apply(todo Todo) {
	for _, l := range slices.Concat(todo.Revoked, todo.Expired) {
		x := w.peers[l.Source]
		i := slices.IndexFunc(x.queue, func(q Lease) bool { return q.Token == l.Token })
		if i < 0 {
			continue
		}
		if i == 0 {
			x.part = 0
		}
		x.queue = slices.Delete(x.queue, i, i+1)
	}
	for _, id := range todo.Wake {
		w.peers[id].ask = w.r.now
	}
}

// run lets time pass in steps of 5 ms until the story is over.
func (w *world) run(over func() bool) {
	const step = 5 * time.Millisecond
	r := w.r
	for tick := 0; !over(); tick++ {
		if tick > 5_000_000 {
			r.t.Fatalf("no end in sight:\n%s", r.m.Describe())
		}
		r.pass(step)
		w.apply(r.m.Expire(r.now))
		for _, id := range w.order {
			w.work(id, step)
		}
		for _, id := range w.order {
			x := w.peers[id]
			if x.stopped || x.ask.After(r.now) {
				continue
			}
			got, no := r.m.Acquire(id, 4096, r.now)
			x.queue = append(x.queue, got...)
			w.apply(r.m.Expire(r.now))
			if no.Reason != 0 {
				x.ask = no.Until
				if no.Until.IsZero() {
					x.ask = r.now.Add(time.Hour) // it waits to be woken
				}
			}
		}
	}
}

// work lets a source fetch for a while.
func (w *world) work(id peers.ID, d time.Duration) {
	x, r := w.peers[id], w.r
	if x.stopped {
		return
	}
	left := x.rate * d.Seconds()
	for left > 0 && len(x.queue) > 0 {
		l := x.queue[0]
		if r.now.Sub(l.Granted) < x.trip {
			return
		}
		size := float64(r.m.layout.PieceLen(l.Piece))
		n := min(left, size-x.part)
		left -= n
		x.part += n
		x.got += int64(n)
		w.apply(r.m.Progress(id, l.Piece, l.Token, int(n), r.now))
		if x.part >= size {
			x.part = 0
			x.queue = x.queue[1:]
			w.apply(r.m.Verified(l.Piece, r.now, l.Token))
		}
	}
	if age := r.now.Sub(x.since); age > 500*time.Millisecond && x.got > 0 {
		w.apply(r.m.Measured(id, x.rate, x.trip, r.now))
		x.since = r.now
	}
}
