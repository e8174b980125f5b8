package simnet

import (
	"testing"
	"time"
)

// A panic is a fault of whoever logs it: a node that may complain, one that nobody knows, under the log of an actor.
func TestHRPanics(t *testing.T) {
	for _, with := range [][]any{{}, {"node", "nobody"}} {
		s := &Scenario{Name: "panics", Set: func(r *Run) {
			x := r.Add(NodeConfig{Name: "node"})
			x.MayComplain(true)
			r.After(time.Second, func() { r.World.Log.With(with...).With("actor", "x").Error("actor panicked", "reason", "y") })
		}}
		if got := ruled(s.Run(1, 0), "error"); len(got) != 1 {
			t.Errorf("%v: %v", with, got)
		}
	}
}

// Clocks that differ by little, or not at all, are not called ahead by nothing.
func TestHRClocks(t *testing.T) {
	var r2 *Run
	s := &Scenario{Name: "clocks", Set: func(r *Run) {
		r2 = r
		x := r.Add(NodeConfig{Name: "node"})
		for _, d := range []time.Duration{0, 500 * time.Microsecond, -90 * time.Second, -150 * time.Hour} {
			r.After(time.Second, func() { x.SetClock(d) })
		}
	}}
	s.Run(1, 0)
	t.Log(r2.Timeline().last(20))
}
