package leasemgr

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// playTakes makes random calls at the end of a transfer, with little to put at stake.
func playTakes(t *testing.T, seed uint64) (trace string, taken uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	n := 1 + rng.IntN(3)
	now := time.Unix(1000, 0)
	m := New(Config{HedgeFloor: int64(1+rng.IntN(4)) * mib, HedgeShare: -1, ShunFor: time.Duration(rng.IntN(3)-1) * 5 * time.Second}, Plan{Layout: even{n, mib}, Epoch: 1, Seed: seed}, now)
	ids := []peers.ID{"a", "b", "c", "d", "e"}
	var held []Lease
	note := func(todo Todo) {
		for _, l := range append(append(todo.Revoked, todo.Expired...), todo.Finished...) {
			for i := range held {
				if held[i].Token == l.Token {
					held = append(held[:i], held[i+1:]...)
					break
				}
			}
		}
		trace += fmt.Sprintln(todo)
	}
	for _, id := range ids {
		m.AddSource(id, now)
		note(m.SetHave(id, share.FullSet(n), now))
	}
	for range 400 {
		now = now.Add(time.Duration(rng.IntN(1500)) * time.Millisecond)
		id := ids[rng.IntN(len(ids))]
		switch rng.IntN(14) {
		case 0, 1, 2, 3, 4:
			ls, no := m.Acquire(id, 1, now)
			held = append(held, ls...)
			trace += fmt.Sprintln(ls, no)
		case 5, 6:
			if len(held) > 0 {
				l := held[rng.IntN(len(held))]
				note(m.Progress(l.Source, l.Piece, l.Token, []int{0, 1, share.BlockSize, mib / 2}[rng.IntN(4)], now))
			}
		case 7, 8:
			note(m.Measured(id, []float64{1, 4e3, 32e3, mib, 64 * mib}[rng.IntN(5)], time.Duration(rng.IntN(3))*20*time.Millisecond, now))
		case 9:
			note(m.Busy(id, now))
		case 10:
			if len(held) > 0 {
				k := rng.IntN(len(held))
				l := held[k]
				held = append(held[:k], held[k+1:]...)
				note(m.Fail(l.Source, l.Piece, l.Token, Reason(rng.IntN(6)), now))
				note(m.SetHave(l.Source, share.FullSet(n), now))
			}
		case 11:
			now = now.Add(-3 * time.Second)
		case 12:
			if rng.IntN(4) == 0 {
				m.Pause("")
			} else {
				note(m.Resume(now))
			}
		case 13:
			if rng.IntN(4) == 0 {
				note(m.RemoveSource(id, now))
				m.AddSource(id, now)
				note(m.SetHave(id, share.FullSet(n), now))
				kept := held[:0]
				for _, l := range held {
					if l.Source != id {
						kept = append(kept, l)
					}
				}
				held = kept
			} else {
				note(m.Expire(now))
			}
		}
		if m.hedged+m.stats.Duplicate > m.allowance() {
			t.Fatalf("seed %d: %d + %d over %d", seed, m.hedged, m.stats.Duplicate, m.allowance())
		}
		if err := m.check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	return trace, m.stats.Taken
}

// Leases that are taken over count as well, whatever clocks, busy sources and failures do.
func TestTakesKeepToTheAllowance(t *testing.T) {
	taken := uint64(0)
	for seed := range uint64(120) {
		a, n := playTakes(t, seed)
		if taken += n; seed%20 == 0 {
			if b, _ := playTakes(t, seed); a != b {
				t.Fatalf("seed %d: two runs differ", seed)
			}
		}
	}
	if taken < 100 {
		t.Errorf("%d takeovers", taken)
	}
}
