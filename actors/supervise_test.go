package actors

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
		parent, child restartPolicy
		want          string
	}{
		{"stop", onPanicStop, onPanicStop, "parent child childFailed(false)"},
		{"restart", onPanicStop, onPanicRestart, "parent child child childFailed(true)"},
		{"escalate to one that restarts", onPanicRestart, onPanicEscalate, "parent child parent child"},
		{"escalate to one that stops", onPanicStop, onPanicEscalate, "parent child"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, n, log := newWorld(1, "a")
			s := n[0]
			var did []string
			var child *actor.PID
			rootFailed := 0
			s.OnRootFailed(func(name string, reason any, restarted bool) {
				rootFailed++
				if name != "parent" || reason != "x" || restarted != (c.parent == onPanicRestart) {
					t.Errorf("root failed: %s, %v, %v", name, reason, restarted)
				}
			})
			root := s.spawn(nil, "parent", 10, receive(func(ctx actor.Context) {
				switch m := ctx.Message().(type) {
				case *actor.Started:
					did = append(did, "parent")
					child = s.spawn(ctx, "child", 10, receive(func(ctx actor.Context) {
						switch ctx.Message().(type) {
						case *actor.Started:
							did = append(did, "child")
						case ping:
							panic("x")
						}
					}), c.child)
				case childFailed:
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
			if (s.box(root) == nil) != (c.child == onPanicEscalate && c.parent == onPanicStop) {
				t.Errorf("parent's mailbox %v", s.box(root))
			}
			if (rootFailed == 1) != (c.child == onPanicEscalate) {
				t.Errorf("root failed %d times", rootFailed)
			}
			closeNode(t, s)
			if len(log.take()) == 0 {
				t.Error("no panic in the log")
			}
		})
	}
}

// What waits in the queue of an actor that panicked is for its next life.
func TestQueueSurvivesARestart(t *testing.T) {
	w, n, log := newWorld(1, "a")
	var got []uint32
	lives := 0
	pid := n[0].spawn(nil, "x", 10, receive(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *actor.Started:
			lives++
		case ping:
			if m.N == 1 {
				panic("one")
			}
			got = append(got, m.N)
		}
	}), onPanicRestart)
	for i := range uint32(4) {
		n[0].Send(pid, ping{N: i})
	}
	w.Settle()
	if !slices.Equal(got, []uint32{0, 2, 3}) || lives != 2 {
		t.Errorf("got %v in %d lives", got, lives)
	}
	closeNode(t, n[0])
	if len(log.take()) != 1 {
		t.Error("want one panic in the log")
	}
}

func TestPanicInProducerLeavesTheNameFree(t *testing.T) {
	s, _ := newNode(t)
	func() {
		defer func() { recover() }()
		s.spawn(nil, "x", 10, func() actor.Actor { panic("no") }, onPanicStop)
	}()
	s.spawn(nil, "x", 10, receive(func(actor.Context) {}), onPanicStop)
}

func TestRootThatEscalatesStops(t *testing.T) {
	w, n, log := newWorld(1, "a")
	failed := 0
	n[0].OnRootFailed(func(string, any, bool) { failed++ })
	pid := n[0].spawn(nil, "x", 10, receive(func(ctx actor.Context) {
		if _, ok := ctx.Message().(ping); ok {
			panic("x")
		}
	}), onPanicEscalate)
	n[0].Send(pid, ping{})
	w.Settle()
	if failed != 1 || n[0].Send(pid, ping{}) {
		t.Error("failed", failed)
	}
	closeNode(t, n[0])
	log.take()
}

func TestRootTalksToNobodyAbove(t *testing.T) {
	w, n, log := newWorld(1, "a")
	n[0].spawn(nil, "x", 10, receive(func(ctx actor.Context) {
		if _, ok := ctx.Message().(*actor.Started); ok {
			ctx.Send(ctx.Parent(), ping{}) // the library's guardian panics
		}
	}), onPanicStop)
	w.Settle()
	if n[0].DeadLetters() != 1 {
		t.Error(n[0].DeadLetters())
	}
	closeNode(t, n[0])
	noErrors(t, log)
}
