package leasemgr

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

type even struct {
	n      int
	length int
}

func (g even) Pieces() int              { return g.n }
func (g even) Bytes() int64             { return int64(g.n) * int64(g.length) }
func (g even) PieceLen(share.Piece) int { return g.length }

func TestSmoke(t *testing.T) {
	now := time.Unix(1000, 0)
	m := New(Config{}, Plan{Layout: even{100, 1 << 20}, Epoch: 1, Seed: 7}, now)
	m.AddSource("a", now)
	m.AddSource("b", now)
	m.SetHave("a", share.FullSet(100), now)
	m.SetHave("b", share.FullSet(100), now)
	for range 1000 {
		for _, id := range []peers.ID{"a", "b"} {
			ls, _ := m.Acquire(id, 1, now)
			for _, l := range ls {
				m.Verified(l.Piece, now, l.Token)
			}
		}
	}
	if !m.Done() {
		t.Fatal(m.Counts())
	}
}
