package leasemgr

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// randomSet holds each of n pieces with probability 1/2^k; k = 0 is all of them.
func randomSet(r *rand.Rand, n int, density float64) *share.Set {
	if density == 1 {
		return share.FullSet(n)
	}
	b := make([]byte, (n+7)/8)
	for i := range b {
		if density == 0.5 {
			b[i] = byte(r.Uint32())
			continue
		}
		for bit := range 8 {
			if r.Float64() < density {
				b[i] |= 1 << bit
			}
		}
	}
	if n%8 != 0 {
		b[len(b)-1] &= 1<<(n%8) - 1
	}
	s, err := share.ParseSet(n, b)
	if err != nil {
		panic(err)
	}
	return s
}

// swarm is a manager with sources that have random pieces.
type swarm struct {
	m   *Manager
	ids []peers.ID
	now time.Time
	out []ring
}

// ring holds the leases of a source: no more than the benchmark needs.
type ring struct {
	first, n int
	leases   [8]struct {
		piece share.Piece
		token share.Token
	}
}

func newSwarm(pieces, sources int, density float64) *swarm {
	r := rand.New(rand.NewPCG(1, uint64(pieces)))
	now := time.Unix(1, 0)
	s := &swarm{now: now, out: make([]ring, sources)}
	s.m = New(Config{}, Plan{Layout: even{pieces, share.MinPiece}, Epoch: 1, Seed: 1}, now)
	for i := range sources {
		id := peers.ID(fmt.Sprintf("12D3KooWQYV9dGMFoRzNStwpXztXaBUjtPqi6aU76Zg%08d", i))
		s.ids = append(s.ids, id)
		s.m.AddSource(id, now)
		s.m.SetHave(id, randomSet(r, pieces, density), now)
		s.m.Measured(id, 8<<20, time.Second, now)
	}
	return s
}

// step lets source i complete its oldest lease and take a new one; it reports
// whether one was granted.
func (s *swarm) step(i int) bool {
	q := &s.out[i]
	if q.n == len(q.leases) {
		l := q.leases[q.first]
		s.m.Verified(l.piece, s.now, l.token)
		q.first = (q.first + 1) % len(q.leases)
		q.n--
	}
	got, _ := s.m.Acquire(s.ids[i], 1, s.now)
	for _, l := range got {
		x := &q.leases[(q.first+q.n)%len(q.leases)]
		x.piece, x.token = l.Piece, l.Token
		q.n++
	}
	return len(got) > 0
}

// BenchmarkGrantAndCompletion runs whole transfers, including the end with its refusals
// and hedges.
func BenchmarkGrantAndCompletion(b *testing.B) {
	for _, c := range []struct {
		pieces, sources int
		density         float64
	}{
		{10_000, 100, 1}, {1_000_000, 100, 1},
		{10_000, 1000, 0.5}, {1_000_000, 1000, 1}, {1_000_000, 1000, 0.5}, {1_000_000, 1000, 0.02},
	} {
		b.Run(fmt.Sprintf("pieces=%d/sources=%d/density=%g", c.pieces, c.sources, c.density), func(b *testing.B) {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			grants, heap, cpu := 0, uint64(0), time.Duration(0)
			for b.Loop() {
				b.StopTimer()
				s := newSwarm(c.pieces, c.sources, c.density)
				runtime.GC()
				cpu -= cpuTime()
				b.StartTimer()
				for alive := 1; alive > 0; {
					alive = 0
					for i := range s.ids {
						s.now = s.now.Add(time.Microsecond)
						if s.step(i) {
							grants++
							alive++
						}
					}
				}
				b.StopTimer()
				cpu += cpuTime()
				runtime.GC()
				runtime.ReadMemStats(&after)
				heap = max(heap, after.HeapAlloc-before.HeapAlloc)
				runtime.KeepAlive(s)
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(grants), "ns/grant")
			b.ReportMetric(float64(cpu.Nanoseconds())/float64(grants), "cpu-ns/grant")
			b.ReportMetric(float64(heap)/(1<<20), "MiB")
		})
	}
}

func BenchmarkHaveMap(b *testing.B) {
	for _, density := range []float64{1, 0.5, 0.02} {
		b.Run(fmt.Sprint("density=", density), func(b *testing.B) {
			s := newSwarm(1_000_000, 100, density)
			set := randomSet(rand.New(rand.NewPCG(9, 9)), 1_000_000, density)
			for b.Loop() {
				s.m.SetHave(s.ids[0], set, s.now)
			}
		})
	}
}

func BenchmarkSort(b *testing.B) {
	for _, density := range []float64{1, 0.5, 0.02} {
		b.Run(fmt.Sprint("density=", density), func(b *testing.B) {
			s := newSwarm(1_000_000, 1000, density)
			for b.Loop() {
				s.m.sort()
			}
		})
	}
}

func BenchmarkMissing(b *testing.B) {
	s := newSwarm(1_000_000, 1000, 0.5)
	for i := range s.ids {
		s.step(i)
	}
	for b.Loop() {
		s.m.Missing(50, s.now)
	}
}
