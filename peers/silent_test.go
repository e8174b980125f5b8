package peers

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// silence is a Silent whose connections have numbers.
type silence struct {
	*Silent[string]
	now time.Time
	n   int
}

// came has 20 connections come, and returns how many may stay, and those that gave way.
func (s *silence) came(addr, net string) (stay int, gone []string) {
	for range 20 {
		s.n++
		id := fmt.Sprint(addr, "#", s.n)
		g, ok := s.Came(id, addr, net, id, s.now)
		if ok {
			stay++
		}
		if g != "" {
			gone = append(gone, g)
		}
	}
	return stay, gone
}

func TestSilent(t *testing.T) {
	s := &silence{NewSilent[string](SilentConfig{All: 10, OfNet: 6, OfOne: 3, For: 5 * time.Second}), time.Unix(1e9, 0), 0}
	came := func(addr, net string, want int, gone ...string) {
		t.Helper()
		if n, g := s.came(addr, net); n != want || !slices.Equal(g, gone) {
			t.Errorf("%d of %s in %s may stay, want %d; %v gave way, want %v", n, addr, net, want, g, gone)
		}
	}
	came("a1", "a", 3)
	came("a2", "a", 3)
	came("a3", "a", 0) // the network has its share
	s.now = s.now.Add(time.Second)
	came("b1", "b", 3)
	came("c1", "c", 3, "a1#1", "a1#2")  // all places are taken, most of them by a
	came("d1", "d", 2, "a1#3", "a2#21") // a third would be more than what others have
	came("a3", "a", 0)
	s.Spoke("b1#61")
	s.Spoke("b1#61")
	s.Spoke("nobody")
	came("d1", "d", 1)
	s.now = s.now.Add(4 * time.Second) // those of a are over
	came("a3", "a", 2)
	s.now = s.now.Add(time.Hour)
	for range 20 {
		s.came(fmt.Sprint(s.n), fmt.Sprint(s.n))
	}
	if len(s.each) != 10 {
		t.Errorf("%d are remembered", len(s.each))
	}
}

// A connection that is alone in its network gives way to none, however many come from elsewhere.
func TestWhoeverIsAloneKeepsItsPlace(t *testing.T) {
	s := &silence{NewSilent[string](SilentConfig{All: 10, OfNet: 6, OfOne: 3, For: 5 * time.Second}), time.Unix(1e9, 0), 0}
	s.came("a1", "a")
	s.Came("honest", "h1", "h", "honest", s.now)
	for i := range 30 {
		if _, gone := s.came(fmt.Sprint(i), fmt.Sprint(i)); slices.Contains(gone, "honest") {
			t.Fatal("it gave way to", i)
		}
	}
	if _, ok := s.Came("late", "l1", "l", "late", s.now); ok {
		t.Error("ten networks have one place each, and an eleventh got one")
	}
}
