package peers

import (
	"fmt"
	"testing"
	"time"
)

func TestAllowance(t *testing.T) {
	now := time.Unix(1e9, 0)
	a := NewAllowance(100, 400)
	take := func(id ID, cost int, want time.Duration) {
		t.Helper()
		if got := a.Take(id, cost, now); got < want || got > want+2*time.Millisecond {
			t.Errorf("%s takes %d: %v, want %v", id, cost, got, want)
		}
	}
	for range 4 {
		take("a", 100, 0)
	}
	take("a", 100, time.Second)
	take("a", 1, 10*time.Millisecond)
	take("b", 400, 0)
	now = now.Add(time.Second)
	take("a", 100, 0)
	take("a", 100, time.Second)
	now = now.Add(time.Hour)
	take("a", 1000, 0) // more than the burst, when nothing is owed
	take("a", 1, 6*time.Second+10*time.Millisecond)
	now = now.Add(-time.Minute) // no time went by
	take("a", 1, 6*time.Second+10*time.Millisecond)
}

func TestAllowancesOfPeersThatOweNothingAreForgotten(t *testing.T) {
	now := time.Unix(1e9, 0)
	a := NewAllowance(100, 400)
	for i := range 100_000 {
		a.Take(ID(fmt.Sprint(i)), 100, now)
		now = now.Add(time.Millisecond)
	}
	if n := len(a.owes); n > 4*fewPeers {
		t.Errorf("%d peers are remembered, of whom 1,000 owe", n)
	}
}
