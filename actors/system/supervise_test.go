package system

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
)

func TestPolicies(t *testing.T) {
	for _, c := range []struct {
		name          string
		parent, child RestartPolicy
		want          string
	}{
		{"stop", OnPanicStop, OnPanicStop, "parent child childFailed(false)"},
		{"restart", OnPanicStop, OnPanicRestart, "parent child child childFailed(true)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, n, log := newWorld(1, "a")
			s := n[0]
			var did []string
			var child *actor.PID
			s.OnRootFailed(func(name string, _ any, _ bool) { t.Errorf("root failed: %s", name) })
			root := s.Spawn(nil, "parent", 10, receive(func(ctx actor.Context) {
				switch m := ctx.Message().(type) {
				case *actor.Started:
					did = append(did, "parent")
					child = s.Spawn(ctx, "child", 10, receive(func(ctx actor.Context) {
						switch ctx.Message().(type) {
						case *actor.Started:
							did = append(did, "child")
						case ping:
							panic("x")
						}
					}), c.child)
				case ChildFailed:
					did = append(did, fmt.Sprintf("childFailed(%v)", m.Restarted))
				}
			}), c.parent)
			w.Settle()
			s.Send(child, ping{})
			w.Settle()
			slices.Sort(did[2:]) // the news and the new life race
			want := strings.Fields(c.want)
			slices.Sort(want[2:])
			if !slices.Equal(did, want) {
				t.Errorf("did %v, want %v", did, want)
			}
			if s.box(root) == nil {
				t.Error("the parent has ended too")
			}
			closeNode(t, s)
			if len(log.Take()) == 0 {
				t.Error("no panic in the log")
			}
		})
	}
}

// Messages in the queue of an actor that panicked are for its next life.
func TestQueueSurvivesARestart(t *testing.T) {
	w, n, log := newWorld(1, "a")
	var got []uint32
	lives := 0
	pid := n[0].Spawn(nil, "x", 10, receive(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *actor.Started:
			lives++
		case ping:
			if m.N == 1 {
				panic("one")
			}
			got = append(got, m.N)
		}
	}), OnPanicRestart)
	for i := range uint32(4) {
		n[0].Send(pid, ping{N: i})
	}
	w.Settle()
	if !slices.Equal(got, []uint32{0, 2, 3}) || lives != 2 {
		t.Errorf("got %v in %d lives", got, lives)
	}
	closeNode(t, n[0])
	if len(log.Take()) != 1 {
		t.Error("want one panic in the log")
	}
}

func TestPanicInProducerLeavesTheNameFree(t *testing.T) {
	s, _ := newNode(t)
	func() {
		defer func() { recover() }()
		s.Spawn(nil, "x", 10, func() actor.Actor { panic("no") }, OnPanicStop)
	}()
	s.Spawn(nil, "x", 10, receive(func(actor.Context) {}), OnPanicStop)
}

func TestRootThatPanicsStops(t *testing.T) {
	w, n, log := newWorld(1, "a")
	failed := 0
	n[0].OnRootFailed(func(string, any, bool) { failed++ })
	pid := n[0].Spawn(nil, "x", 10, receive(func(ctx actor.Context) {
		if _, ok := ctx.Message().(ping); ok {
			panic("x")
		}
	}), OnPanicStop)
	n[0].Send(pid, ping{})
	w.Settle()
	if failed != 1 || n[0].Send(pid, ping{}) {
		t.Error("failed", failed)
	}
	closeNode(t, n[0])
	log.Take()
}

func TestRootTalksToNobodyAbove(t *testing.T) {
	w, n, log := newWorld(1, "a")
	n[0].Spawn(nil, "x", 10, receive(func(ctx actor.Context) {
		if _, ok := ctx.Message().(*actor.Started); ok {
			ctx.Send(ctx.Parent(), ping{}) // the library's guardian panics
		}
	}), OnPanicStop)
	w.Settle()
	if n[0].DeadLetters() != 1 {
		t.Error(n[0].DeadLetters())
	}
	closeNode(t, n[0])
	log.None(t)
}
