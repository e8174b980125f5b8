package leasemgr

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/share"
)

// Runs given together have the same effect as given one after the other.
func TestRunsTogetherAreRunsOneByOne(t *testing.T) {
	runs := []Run{{0, 8, Skip}, {4, 8, High}, {10, 4, Low}, {90, 50, Skip}, {99, -1, High}}
	now := time.Now()
	plan := Plan{Layout: even{100, 1 << 10}, Epoch: 1, Seed: 1}
	a, b := New(Config{}, plan, now), New(Config{}, plan, now)
	for _, m := range []*Manager{a, b} {
		m.AddSource("s", now)
		m.SetHave("s", share.FullSet(100), now)
		m.Measured("s", 1e9, time.Millisecond, now)
	}
	a.SetPriorities(runs, now)
	for _, r := range runs {
		b.SetPriority(r.First, r.N, r.Priority, now)
	}
	x, _ := a.Acquire("s", 100, now)
	y, _ := b.Acquire("s", 100, now)
	if len(x) != 86 || len(y) != len(x) {
		t.Fatalf("%d and %d leases, want 86", len(x), len(y))
	}
	for i := range 6 { // 4 to 9: High
		if x[i].Piece < 4 || x[i].Piece > 9 || y[i].Piece < 4 || y[i].Piece > 9 {
			t.Errorf("lease %d: pieces %d and %d", i, x[i].Piece, y[i].Piece)
		}
	}
	for i := 82; i < 86; i++ { // 10 to 13: Low
		if x[i].Piece < 10 || x[i].Piece > 13 || y[i].Piece < 10 || y[i].Piece > 13 {
			t.Errorf("lease %d: pieces %d and %d", i, x[i].Piece, y[i].Piece)
		}
	}
}
