package simnet

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors"
	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/peers"
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

// spinner is an actor with which a program runs in circles, up to a number of turns so that the test ends.
type spinner struct {
	s     *system.System
	turns int
}

func (a *spinner) Receive(ctx actor.Context) {
	if _, ok := ctx.Message().(spin); ok && a.turns < 5*spinning*4 {
		a.turns++
		a.s.Send(ctx.Self(), spin{})
	}
}

type spin struct{}

// A program that runs in circles as it is closed is found, as it is at any other time, and the run ends.
func TestAProgramMayNotSpinAsItIsClosed(t *testing.T) {
	a := &spinner{}
	s := &Scenario{Name: "spins", Set: func(r *Run) {
		a.s = system.NewSystem(r.World.Runtime("spinner"), "spinner", nil, nil)
		pid := a.s.Spawn(nil, "spinner", 10, func() actor.Actor { return a }, system.OnPanicStop)
		var x *Node
		remember := func([]peers.Record) {
			if x.state == leaving {
				a.s.Send(pid, spin{})
			}
		}
		c := r.File("film", 1<<20)
		x = r.Add(NodeConfig{Name: "node", Deps: func(d *actors.Deps) { d.Remember = remember }})
		x.Fetch(c, r.Add(NodeConfig{Name: "source"}).Seed(c))
	}}
	if r := s.Run(1, 0); len(ruled(r, "spin")) == 0 || a.turns > 2*spinning*4 {
		t.Errorf("%d turns at one instant, and the referee said: %v", a.turns, r.Faults)
	}
}
