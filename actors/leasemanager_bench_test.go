package actors

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/verifier"
)

// BenchmarkLeaseManager measures how fast the LeaseManager actor grants: pools as actors ask
// it for leases, have each completed by a message of its own, and ask again, until
// all pieces are verified.
func BenchmarkLeaseManager(b *testing.B) {
	for _, c := range []struct {
		pieces, pools, batch int
		density              float64
	}{{100_000, 100, 1, 1}, {100_000, 100, 4, 1}, {1_000_000, 1000, 4, 1}, {1_000_000, 1000, 4, 0.5}} {
		b.Run(fmt.Sprintf("pieces=%d/pools=%d/batch=%d/density=%g", c.pieces, c.pools, c.batch, c.density), func(b *testing.B) {
			var took time.Duration
			for range b.N {
				took += leaseAll(b, c.pieces, c.pools, c.batch, c.density)
			}
			b.ReportMetric(float64(c.pieces)*float64(b.N)/took.Seconds(), "grants/s")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// leaseAll makes pools lease all pieces, and returns how long that took.
func leaseAll(b *testing.B, pieces, pools, batch int, density float64) time.Duration {
	s, _ := newNode(b)
	defer closeNode(b, s)
	done := make(chan struct{})
	transfer := s.Spawn(nil, "transfer", 1<<20, receive(func(ctx actor.Context) {
		if m, ok := ctx.Message().(PieceDone); ok && m.Last {
			close(done)
		}
	}), system.OnPanicStop)
	leases := s.Spawn(nil, "leases", 1<<16, func() actor.Actor {
		return newLeaseManager(s, transfer, NewRation(s, 0), TransferConfig{}, nil, leasemgr.Plan{Layout: evenPieces(pieces), Epoch: 1, Seed: 1})
	}, system.OnPanicStop)
	rng := rand.New(rand.NewPCG(1, 1))
	var all []*actor.PID
	for i := range pools {
		p := &benchPool{id: peers.ID(fmt.Sprint("source", i)), leases: leases, have: randomPieces(rng, pieces, density), batch: batch}
		pid := s.Spawn(nil, fmt.Sprint("pool", i), 1<<10, func() actor.Actor { return p }, system.OnPanicStop)
		if _, err := system.Ask[pong](b.Context(), s, pid, ping{}); err != nil { // it has reported its pieces
			b.Fatal(err)
		}
		all = append(all, pid)
	}
	if _, err := system.Ask[PlanStatus](b.Context(), s, leases, PlanQuery{}); err != nil { // and the report was handled
		b.Fatal(err)
	}
	began := time.Now()
	for _, pid := range all {
		s.Send(pid, LeasesAvailable{})
	}
	<-done
	return time.Since(began)
}

// evenPieces are pieces of the smallest size.
type evenPieces int

func (n evenPieces) Pieces() int              { return int(n) }
func (n evenPieces) Bytes() int64             { return int64(n) * share.MinPiece }
func (n evenPieces) PieceLen(share.Piece) int { return share.MinPiece }

func randomPieces(rng *rand.Rand, n int, density float64) *share.Set {
	if density == 1 {
		return share.FullSet(n)
	}
	s := share.NewSet(n)
	for p := range n {
		if rng.Float64() < density {
			s.Add(share.Piece(p))
		}
	}
	return s
}

// benchPool takes leases and has each piece verified at once.
type benchPool struct {
	id     peers.ID
	leases *actor.PID
	have   *share.Set
	batch  int
}

func (p *benchPool) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case ping:
		ctx.Request(p.leases, SourceUp{p.id})
		ctx.Send(p.leases, SourceHas{p.id, p.have})
		ctx.Respond(pong{})
	case LeasesAvailable:
		ctx.Request(p.leases, LeaseRequest{Source: p.id, Max: p.batch, Rate: 8 << 20, RTT: time.Second})
	case LeaseResponse:
		for _, x := range m.Leases {
			ctx.Send(p.leases, PieceVerified{x.Piece, []verifier.Credit{{Source: p.id, Token: x.Token, Bytes: share.MinPiece}}})
		}
		if len(m.Leases) > 0 {
			ctx.Request(p.leases, LeaseRequest{Source: p.id, Max: p.batch, Rate: 8 << 20, RTT: time.Second})
		}
	}
}
