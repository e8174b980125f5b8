package simnet

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Ctrl-C ends a run at once, also when its fetches are over and its nodes are being stopped.
func TestACancelledRunEndsInItsLastMinuteToo(t *testing.T) {
	for name, late := range map[string]func(r *Run, cancel func()){
		"as what is in flight arrives": func(r *Run, cancel func()) { r.After(2500*time.Millisecond, cancel) },
		"at the last checks":           func(r *Run, cancel func()) { r.Finally(cancel) },
		"as its nodes stop":            func(r *Run, cancel func()) { r.Finally(func() { r.After(5*time.Second, cancel) }) },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancelled, after := false, 0
		s := &Scenario{Name: "late", Set: func(r *Run) {
			r.Add(NodeConfig{Name: "node"})
			r.AtLeast(time.Second)
			late(r, func() { cancelled = true; cancel() })
			r.Every(time.Millisecond, func() bool {
				if cancelled {
					after++
				}
				return true
			})
		}}
		if _, err := s.RunWith(ctx, RunOptions{Seed: 1}); !errors.Is(err, context.Canceled) || after > 5000 {
			t.Errorf("%s: the run ended with %v, and %d ms of its time passed after it was cancelled", name, err, after)
		}
	}
}
