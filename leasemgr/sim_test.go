package leasemgr

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// sim is the pure core over a modelled network, in virtual time, with sources of all
// speeds that come and go, gain pieces, freeze, lie and give back.
type sim struct {
	t      *testing.T
	rnd    *rand.Rand
	m      *Manager
	now    time.Time
	pieces int
	nodes  []*node
	index  map[peers.ID]int
	due    events
	churn  float64 // chance that a source is gone after a lease
	seq    int
	alarm  time.Time
	came   []float32 // bytes that arrived, by piece, except from sources that were lost
	calls  int
	trace  uint64 // of every event, lease and order, for comparing runs
}

func (s *sim) note(facts ...uint64) {
	for _, f := range facts {
		s.trace = mix(s.trace ^ f*0x9e3779b97f4a7c15)
	}
}

type node struct {
	id      peers.ID
	life    int // grows with each reconnection, so that old events are recognised
	on      bool
	density float64
	rate    float64
	frozen  bool
	lies    float64
	queue   []Lease
	busy    bool
	since   time.Time // until when the first of its queue has arrived
	left    float64   // bytes of it that have not
	waits   bool
}

type simEvent struct {
	at   time.Time
	seq  int
	kind int
	node int
	life int
}

const (
	evAsk = iota
	evPart
	evBack
	evAlarm
)

type events []simEvent

func (h events) Len() int { return len(h) }
func (h events) Less(i, j int) bool {
	return h[i].at.Before(h[j].at) || h[i].at.Equal(h[j].at) && h[i].seq < h[j].seq
}
func (h events) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *events) Push(x any)   { *h = append(*h, x.(simEvent)) }
func (h *events) Pop() any     { o := *h; x := o[len(o)-1]; *h = o[:len(o)-1]; return x }

func newSim(t *testing.T, pieces, sources int, seed uint64) *sim {
	s := &sim{
		t: t, rnd: rand.New(rand.NewPCG(seed, 77)), now: time.Unix(1, 0), pieces: pieces,
		index: map[peers.ID]int{}, churn: 0.002, came: make([]float32, pieces),
	}
	s.m = New(Config{}, Plan{Layout: even{pieces, mib}, Epoch: 1, Seed: seed}, s.now)
	for i := range sources {
		n := &node{id: peers.ID(fmt.Sprintf("12D3KooW%08d", i)), rate: mib * (0.2 + 20*s.rnd.Float64()*s.rnd.Float64())}
		n.density = []float64{1, 1, 0.5, 0.02}[s.rnd.IntN(4)]
		switch s.rnd.IntN(20) {
		case 0:
			n.lies = 0.05
		case 1:
			n.rate /= 50
		}
		if i == 0 { // one honest source of everything
			n.density, n.lies, n.rate = 1, 0, 20*mib
		}
		s.index[n.id] = i
		s.nodes = append(s.nodes, n)
		s.connect(i)
	}
	return s
}

func (s *sim) at(d time.Duration, kind, node, life int) {
	s.seq++
	heap.Push(&s.due, simEvent{s.now.Add(d), s.seq, kind, node, life})
}

func (s *sim) connect(i int) {
	n := s.nodes[i]
	n.on, n.busy, n.waits, n.frozen = true, false, false, false
	n.life++
	s.m.AddSource(n.id, s.now)
	s.apply(s.m.SetHave(n.id, randomSet(s.rnd, s.pieces, n.density), s.now))
	s.at(time.Duration(s.rnd.IntN(1000))*time.Millisecond, evAsk, i, n.life)
}

func (s *sim) leave(i int) {
	n := s.nodes[i]
	if n.busy {
		s.came[n.queue[0].Piece] -= float32(mib - n.left)
	}
	n.on, n.busy, n.queue = false, false, nil
	s.apply(s.m.RemoveSource(n.id, s.now))
	s.at(time.Duration(s.rnd.IntN(20_000))*time.Millisecond, evBack, i, n.life)
}

func (s *sim) apply(todo Todo) {
	for kind, leases := range [][]Lease{todo.Expired, todo.Revoked, todo.Finished} {
		for _, l := range leases {
			s.note(uint64(kind), uint64(l.Piece), uint64(l.Token))
		}
	}
	for _, id := range todo.Wake {
		s.note(uint64(s.index[id]))
	}
	for _, l := range todo.Expired {
		if n := s.nodes[s.index[l.Source]]; n.busy && n.queue[0].Token == l.Token {
			s.came[l.Piece] -= float32(mib - n.left)
			n.left = 0
		}
	}
	for _, l := range slices.Concat(todo.Revoked, todo.Expired) {
		n := s.nodes[s.index[l.Source]]
		if n.busy && len(n.queue) > 0 && n.queue[0].Token == l.Token {
			s.receive(n)
			n.busy, n.life = false, n.life+1
			s.at(time.Millisecond, evAsk, s.index[l.Source], n.life)
		}
		n.queue = slices.DeleteFunc(n.queue, func(q Lease) bool { return q.Token == l.Token })
	}
	for _, id := range todo.Wake {
		i := s.index[id]
		if n := s.nodes[i]; n.waits {
			n.waits = false
			s.at(time.Millisecond, evAsk, i, n.life)
		}
	}
}

// setAlarm keeps one timer, as an actor does.
func (s *sim) setAlarm() {
	at := s.m.Wake()
	if at.IsZero() || at.Equal(s.alarm) {
		return
	}
	s.alarm = at
	s.at(max(at.Sub(s.now), 0), evAlarm, 0, 0)
}

func (s *sim) ask(i int) {
	n := s.nodes[i]
	n.waits = false
	got, no := s.m.Acquire(n.id, 64, s.now)
	n.queue = append(n.queue, got...)
	for _, l := range got {
		s.note(uint64(l.Piece), uint64(l.Token), uint64(l.Expires.UnixNano()))
	}
	if no.Reason != 0 {
		n.waits = true
		if !no.Until.IsZero() {
			s.at(no.Until.Sub(s.now), evAsk, i, n.life)
		}
	}
	s.work(i)
}

// work begins the next lease of a source, if it has one and is not working.
func (s *sim) work(i int) {
	n := s.nodes[i]
	if n.busy || n.frozen || len(n.queue) == 0 {
		return
	}
	n.busy, n.since, n.left = true, s.now, mib
	s.next(i)
}

// next is when more of the first of the queue has arrived: all of it, or a quarter of a second's worth.
func (s *sim) next(i int) {
	n := s.nodes[i]
	d := time.Duration(n.left/n.rate*float64(time.Second)) + time.Microsecond
	s.at(min(d, 250*time.Millisecond), evPart, i, n.life)
}

// receive counts what has arrived since the last time.
func (s *sim) receive(n *node) int {
	got := min(n.left, s.now.Sub(n.since).Seconds()*n.rate)
	n.left -= got
	n.since = s.now
	s.came[n.queue[0].Piece] += float32(got)
	return int(got)
}

func (s *sim) part(i int) {
	n := s.nodes[i]
	l, got := n.queue[0], s.receive(n)
	s.apply(s.m.Progress(n.id, l.Piece, l.Token, got, s.now))
	if n.left < 1 {
		s.finished(i)
	} else {
		s.next(i)
	}
}

func (s *sim) finished(i int) {
	n := s.nodes[i]
	n.busy = false
	l := n.queue[0]
	n.queue = n.queue[1:]
	switch x := s.rnd.Float64(); {
	case i > 0 && x < 1.2*s.churn: // gone, or frozen, at the last block
		s.came[l.Piece] -= mib
		if n.frozen = x > s.churn; !n.frozen {
			s.leave(i)
		}
		return
	case x < 1.2*s.churn+n.lies:
		s.came[l.Piece] = 0
		s.apply(s.m.Fail(n.id, l.Piece, l.Token, BadData, s.now))
	default:
		s.apply(s.m.Verified(l.Piece, s.now, l.Token))
		if s.calls++; s.calls%16 == 0 {
			s.apply(s.m.Measured(n.id, n.rate, 10*time.Millisecond, s.now))
		}
		if s.rnd.IntN(4) == 0 { // somebody else announces a piece that it got
			o := s.nodes[s.rnd.IntN(len(s.nodes))]
			if o.on && o.density < 1 {
				s.apply(s.m.Have(o.id, []share.Piece{share.Piece(s.rnd.IntN(s.pieces))}, s.now))
			}
		}
	}
	if len(n.queue) < 8 && !n.waits {
		s.ask(i)
	}
	s.work(i)
}

// run is a whole transfer.
func (s *sim) run(every int) {
	for steps := 0; !s.m.Done(); steps++ {
		if len(s.due) == 0 || steps > 60*s.pieces+1_000_000 {
			s.t.Fatalf("no end in sight after %d events\n%s", steps, s.m.Missing(10, s.now))
		}
		e := heap.Pop(&s.due).(simEvent)
		s.now = e.at
		s.note(uint64(e.at.UnixNano()), uint64(e.kind), uint64(e.node))
		n := s.nodes[e.node]
		switch {
		case e.kind == evAlarm:
			s.alarm = time.Time{}
			s.apply(s.m.Expire(s.now))
		case e.life != n.life:
		case e.kind == evAsk && n.on && !n.frozen:
			s.ask(e.node)
		case e.kind == evPart && n.on && n.busy:
			s.part(e.node)
		case e.kind == evBack:
			s.connect(e.node)
		}
		s.setAlarm()
		if steps%every == 0 {
			wanted, leased, verified := s.m.Counts()
			if wanted+leased+verified != s.pieces {
				s.t.Fatalf("%d + %d + %d of %d", wanted, leased, verified, s.pieces)
			}
			if s.pieces*len(s.nodes) < 100_000 {
				if err := s.m.check(); err != nil {
					s.t.Fatal(err)
				}
			}
		}
	}
}

// TestTransferWithChurn runs whole transfers from hundreds of sources that come and
// go, freeze and lie; with LONG=1 a million pieces from a thousand sources, and
// from a hundred thousand.
func TestTransferWithChurn(t *testing.T) {
	for _, c := range []struct {
		pieces, sources int
		long            bool
	}{
		{1000, 30, false},
		{20_000, 200, false},
		{500, 3000, false},
		{1_000_000, 1000, true},
		{100_000, 100_000, true},
	} {
		t.Run(fmt.Sprintf("%d pieces, %d sources", c.pieces, c.sources), func(t *testing.T) {
			if c.long {
				testrig.OnlyLong(t)
			}
			real := time.Now()
			s := newSim(t, c.pieces, c.sources, 1)
			start := s.now
			s.run(1 + c.pieces/10)
			st := s.m.Stats()
			waste := 0.0
			for _, got := range s.came {
				waste += max(0, float64(got)-mib)
			}
			t.Logf("%s of virtual time in %s; trace %016x; %+v; %.1f MiB came twice", s.now.Sub(start).Round(time.Second), time.Since(real).Round(time.Millisecond), s.trace, st, waste/mib)
			if limit := s.m.allowance(); st.Duplicate > limit {
				t.Errorf("%d bytes twice, over %d", st.Duplicate, limit)
			}
			if limit := float64(s.m.allowance()); waste > limit {
				t.Errorf("%.0f bytes came twice, over %.0f", waste, limit)
			}
		})
	}
}

// Every decision of a transfer, its time and its order follow from the seed.
func TestSameSeedSameTransfer(t *testing.T) {
	transfer := func(seed uint64) uint64 {
		s := newSim(t, 3000, 300, seed)
		s.run(1000)
		return s.trace
	}
	a, again, other := transfer(1), transfer(1), transfer(2)
	if a != again {
		t.Errorf("the same seed gave two transfers: %x and %x", a, again)
	}
	if a == other {
		t.Error("another seed gave the same transfer")
	}
}
