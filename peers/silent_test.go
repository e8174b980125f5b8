package peers

import (
	"fmt"
	"testing"
	"time"
)

func TestSilent(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := NewSilent(SilentConfig{All: 10, OfNet: 6, OfOne: 3, For: 5 * time.Second})
	came := func(addr, net string, want int) {
		t.Helper()
		n := 0
		for range 20 {
			if s.Came(addr, net, now) {
				n++
			}
		}
		if n != want {
			t.Errorf("%d of %s in %s may stay, want %d", n, addr, net, want)
		}
	}
	came("a1", "a", 3)
	came("a2", "a", 3)
	came("a3", "a", 0) // the network has its share
	now = now.Add(time.Second)
	came("b1", "b", 3)
	came("c1", "c", 1) // all places are taken
	s.Spoke("a1")
	s.Spoke("a1")
	s.Spoke("nobody")
	came("c1", "c", 2)
	now = now.Add(4 * time.Second) // those of a are over
	came("a3", "a", 3)
	came("a1", "a", 1)
	now = now.Add(time.Hour)
	for i := range 20 {
		s.Came(fmt.Sprint(i), fmt.Sprint(i), now)
	}
	if len(s.each) != 10 {
		t.Errorf("%d are remembered", len(s.each))
	}
}
