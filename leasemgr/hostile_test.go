package leasemgr

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Whatever sources have, lose, fail with and are banned for, a piece is never kept from all that have it.
func TestNoPieceIsKeptFromAllThatHaveIt(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 7))
		n, now := 1+rng.IntN(4), time.Unix(1000, 0)
		m := New(Config{ShunFor: time.Hour}, Plan{Layout: even{n, mib}, Epoch: 1, Seed: seed}, now)
		ids := []peers.ID{"a", "b", "c"}
		set := func() *share.Set {
			switch rng.IntN(4) {
			case 0:
				return nil
			case 1:
				return share.FullSet(n)
			}
			s := share.NewSet(n)
			for p := range n {
				if rng.IntN(2) == 0 {
					s.Add(share.Piece(p))
				}
			}
			return s
		}
		for step := range 300 {
			now = now.Add(time.Duration(rng.IntN(100)) * time.Millisecond)
			id, p := ids[rng.IntN(3)], share.Piece(rng.IntN(n))
			what := rng.IntN(9)
			switch what {
			case 0:
				m.AddSource(id, now)
			case 1:
				if rng.IntN(3) == 0 {
					m.RemoveSource(id, now)
				}
			case 2:
				m.SetHave(id, set(), now)
			case 3:
				m.Have(id, []share.Piece{p}, now)
			case 4:
				m.Rank(id, 0, rng.IntN(2) == 0, now)
			default:
				ls, _ := m.Acquire(id, 1, now)
				for _, l := range ls {
					m.Fail(id, l.Piece, l.Token, []Reason{BadData, Missed, NotFound}[rng.IntN(3)], now)
				}
			}
			for p := range n {
				have, barred := 0, 0
				for _, s := range m.sources {
					if s != nil && !s.banned && s.have.has(uint32(p), m.space.n) {
						have++
						if s.shuns(uint32(p)) {
							barred++
						}
					}
				}
				if have > 0 && have == barred {
					t.Fatalf("seed %d, step %d (%d): piece %d kept from all %d", seed, step, what, p, have)
				}
			}
		}
	}
}
