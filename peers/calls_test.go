package peers

import (
	"slices"
	"testing"
	"time"
)

func TestCalls(t *testing.T) {
	now := time.Unix(1e9, 0)
	c := NewCalls([]ID{"a", "b"}, 1)
	var silent []ID
	due := func(want ...ID) (next time.Duration) {
		t.Helper()
		got, late, at := c.Due(now)
		if !slices.Equal(got, want) {
			t.Fatalf("called %v, want %v", got, want)
		}
		if !slices.Equal(late, silent) {
			t.Fatalf("%v say nothing, want %v", late, silent)
		}
		if at.IsZero() {
			return 0
		}
		return at.Sub(now)
	}
	around := func(d, want time.Duration) {
		t.Helper()
		if d < want || d > want*3/2 {
			t.Fatalf("again in %v, want %v or a little more", d, want)
		}
	}
	if next := due("a", "b"); next != callWithin {
		t.Fatalf("a call lasts %v", next)
	}
	due()
	c.Stands("a", now)
	c.Stands("b", now)
	if next := due(); next != 0 {
		t.Fatalf("both stand, and the next is in %v", next)
	}
	for want := soonestCall; want < 4*rarestCall; want *= 2 { // it fails again and again
		c.Ended("a", 0, now)
		next := due()
		around(next, min(want, rarestCall))
		now = now.Add(next)
		due("a")
	}
	now, silent = now.Add(callWithin), []ID{"a"} // no answer
	next := due()
	silent = nil
	around(next, rarestCall)
	now = now.Add(next)
	due("a")
	c.Stands("a", now)
	now = now.Add(lasting)
	c.Ended("a", 0, now) // that lasted for long
	around(due(), soonestCall)
	c.Ended("a", 0, now) // it is known
	around(due(), soonestCall)

	c.Ended("b", 5*time.Minute, now) // told to come back later
	now = now.Add(soonestCall * 3)
	due("a")
	c.Stands("a", now)
	around(due()+soonestCall*3, 5*time.Minute)
	c.Ended("nobody", 0, now)
	c.Stands("b", now) // it was not called
	if next := due(); next == 0 {
		t.Error("a peer that was not called counts as connected")
	}
}

func TestManyWhoLostThePeerDoNotComeBackTogether(t *testing.T) {
	now := time.Unix(1e9, 0)
	seen := map[time.Time]bool{}
	for seed := range uint64(100) {
		c := NewCalls([]ID{"a"}, seed)
		c.Due(now)
		c.Ended("a", 0, now)
		_, _, at := c.Due(now)
		seen[at] = true
	}
	if len(seen) < 90 {
		t.Errorf("100 peers come at %d times", len(seen))
	}
}
