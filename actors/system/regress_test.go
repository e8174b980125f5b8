package system

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Each test of this file is about one defect of protoactor-go (v0.0.0-20240822) that
// we have reproduced, and checks our answer to it.

// Defect 1: SetReceiveTimeout runs its handler on the timer's goroutine (a data
// race). Answer: an alarm only sends.
func TestAlarmOnlySends(t *testing.T) {
	s, _ := newNode(t)
	rings, sets, done := 0, 0, make(chan struct{})
	pid := s.Spawn(nil, "sleeper", 10, func() actor.Actor {
		var wake Alarm
		return actor.ReceiveFunc(func(ctx actor.Context) {
			switch ctx.Message().(type) {
			case WakeDue: // the race detector sees any other goroutine in here
				if rings++; rings == 20 {
					close(done)
				}
			case *actor.Stopping:
				wake.Stop()
				return
			}
			sets++
			wake.Set(s, ctx, s.Now().Add(time.Duration(sets%3)*100*time.Microsecond))
		})
	}, OnPanicStop)
	for range 500 {
		s.Send(pid, ping{})
	}
	<-done
}

// Defect 2: SendRepeatedly races, and a slow actor collects a heap of ticks.
// Answer: an alarm rings once for each time it is set.
func TestSlowActorCollectsNoTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newNode(t)
		rings := 0
		s.Spawn(nil, "slow", 10, func() actor.Actor {
			var wake Alarm
			return actor.ReceiveFunc(func(ctx actor.Context) {
				switch ctx.Message().(type) {
				case WakeDue:
					rings++
					time.Sleep(time.Minute)
				case *actor.Stopping, *actor.Stopped:
					wake.Stop()
					return
				}
				wake.Set(s, ctx, s.Now().Add(time.Second))
			})
		}, OnPanicStop)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if rings > 10 {
			t.Errorf("%d rings in ten minutes, each a minute's work: want at most 10", rings)
		}
	})
}

// Defect 3: a future can hold both a result and an error, and wakes one waiter.
// Answer: ask has one waiter and one outcome.
func TestAskHasOneOutcome(t *testing.T) {
	s, _ := newNode(t)
	echo := s.Spawn(nil, "echo", 10000, receive(func(ctx actor.Context) {
		if m, ok := ctx.Message().(ping); ok {
			ctx.Respond(pong{m.N})
			ctx.Respond(pong{m.N + 1}) // dropped
		}
	}), OnPanicStop)
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*time.Microsecond)
			defer cancel()
			r, err := Ask[pong](ctx, s, echo, ping{N: 7})
			if err == nil && r.N != 7 || err != nil && (r != pong{} || !errors.Is(err, context.DeadlineExceeded)) {
				t.Errorf("ask = %v, %v", r, err)
			}
		})
	}
	wg.Wait()
}

// Defect 4: a message to a name while it is being spawned is a nil dereference.
// Answer: our mailbox queues before its start.
func TestMessagesDuringSpawnWait(t *testing.T) {
	s, _ := newNode(t)
	var sent, got atomic.Int64
	for i := range 300 {
		name, stop := fmt.Sprint("svc", i), make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() {
			for pid := s.NewLocalPID(name); ; {
				select {
				case <-stop:
					return
				default:
				}
				if s.Send(pid, ping{}) {
					sent.Add(1)
				}
				s.Root.Send(actor.NewPID(s.Address(), name), pong{})
			}
		})
		s.Spawn(nil, name, 1<<20, receive(func(ctx actor.Context) {
			if _, ok := ctx.Message().(ping); ok {
				got.Add(1)
			}
		}), OnPanicStop)
		close(stop)
		wg.Wait()
	}
	closeNode(t, s)
	if got.Load() > sent.Load() {
		t.Errorf("got %d of %d", got.Load(), sent.Load())
	}
}

// Defects 5 and 6: the sender to a full Bounded mailbox spins, and so does the
// idle actor of a BoundedDropping one. Answer: refuse, and be idle. In a bubble
// whatever spins would hang the test.
func TestFullMailboxRefusesAndIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newNode(t)
		dead := deadLetters(s)
		gate, got := make(chan struct{}), 0
		pid := s.Spawn(nil, "slow", 4, receive(func(ctx actor.Context) {
			if _, ok := ctx.Message().(ping); ok {
				<-gate
				got++
			}
		}), OnPanicStop)
		s.Send(pid, ping{})
		synctest.Wait() // it waits at the gate
		took := 0
		for range 50 {
			if s.Send(pid, ping{}) {
				took++
			}
			s.Root.Send(pid, ping{})
		}
		if took != 2 { // and two more of Root's
			t.Errorf("took %d, want 2", took)
		}
		if n := len(dead()); n != 96 {
			t.Errorf("%d dead letters, want 96", n)
		}
		close(gate)
		synctest.Wait()
		if got != 5 {
			t.Errorf("got %d, want 5", got)
		}
		if !s.Send(pid, ping{}) {
			t.Error("refused when empty again")
		}
	})
}

// Defect 7: a panic in Stopping restarts the actor, which then never stops.
// Answer: the shell lets nothing out of the end of a life.
func TestPanicWhileStoppingStillStops(t *testing.T) {
	for _, last := range []any{&actor.Stopping{}, &actor.Stopped{}, &actor.Terminated{}, ping{}} {
		t.Run(fmt.Sprintf("%T", last), func(t *testing.T) {
			s, log := newNode(t)
			var starts, stops atomic.Int32
			met := make(chan struct{})
			pid := s.Spawn(nil, "bad", 10, receive(func(ctx actor.Context) {
				switch ctx.Message().(type) {
				case *actor.Started:
					starts.Add(1)
					s.Spawn(ctx, "child", 10, receive(func(c actor.Context) {
						_, stopped := c.Message().(*actor.Stopped)
						if _, inPing := last.(ping); stopped && inPing {
							c.Send(c.Parent(), ping{})
							<-met // or Terminated overtakes it, and it is a dead letter
						}
					}), OnPanicStop)
				case *actor.Stopped:
					stops.Add(1)
				case ping:
					close(met)
				}
				if fmt.Sprintf("%T", ctx.Message()) == fmt.Sprintf("%T", last) {
					panic("at the end")
				}
			}), OnPanicRestart)
			closeNode(t, s)
			if starts.Load() != 1 || stops.Load() != 1 {
				t.Errorf("%d starts, %d stops", starts.Load(), stops.Load())
			}
			if _, there := s.ProcessRegistry.GetLocal(pid.Id); there || s.box(pid) != nil {
				t.Error("still registered")
			}
			if got := log.Take(); len(got) != 1 || !strings.Contains(got[0], "at the end") {
				t.Errorf("logged %q", got)
			}
		})
	}
}

// Defect 8: Terminated overtakes the child's last message. Answer: the end of any work
// is a message of its own, and no message is lost when it is overtaken.
func TestLastMessageArrivesThoughTerminatedOvertakes(t *testing.T) {
	w, n, log := newWorld(1, "a")
	var order []string
	n[0].Spawn(nil, "parent", 10, receive(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case *actor.Started:
			n[0].Spawn(ctx, "child", 10, receive(func(c actor.Context) {
				if _, ok := c.Message().(*actor.Started); ok {
					c.Send(c.Parent(), pong{})
					c.Stop(c.Self())
				}
			}), OnPanicStop)
			ctx.Send(ctx.Self(), ping{}) // something to do first
		case pong:
			order = append(order, "result")
		case *actor.Terminated:
			order = append(order, "Terminated")
		}
	}), OnPanicStop)
	w.Settle()
	if slices.Sort(order); !slices.Equal(order, []string{"Terminated", "result"}) {
		t.Error("parent saw", order)
	}
	closeNode(t, n[0])
	log.None(t)
}

// Defect 9: what is queued when an actor stops vanishes. Answer: dead letters, each of
// which tells its owner and its asker.
func TestQueuedAtStopBecomesDeadLetters(t *testing.T) {
	s, _ := newNode(t)
	dead := deadLetters(s)
	hold, started := make(chan struct{}), make(chan struct{})
	pid := s.Spawn(nil, "busy", 100, receive(func(ctx actor.Context) {
		if m, ok := ctx.Message().(ping); ok && m.N == 0 {
			close(started)
			<-hold
		}
	}), OnPanicStop)
	s.Send(pid, ping{})
	<-started
	for i := range uint32(9) {
		s.Root.Send(pid, ping{N: 1 + i})
	}
	var told atomic.Int32
	s.Send(pid, owner{&told})
	asked := make(chan error, 1)
	go func() {
		_, err := Ask[pong](context.Background(), s, pid, ping{N: 99})
		asked <- err
	}()
	for s.box(pid).UserMessageCount() < 11 {
		time.Sleep(time.Millisecond)
	}
	s.Root.Stop(pid)
	close(hold)
	if err := <-asked; !errors.Is(err, ErrNoAnswer) {
		t.Error("ask:", err)
	}
	closeNode(t, s)
	if n := len(dead()); n != 11 {
		t.Errorf("%d dead letters, want 11: %v", n, dead())
	}
	s.Send(pid, owner{&told})
	s.Root.Send(pid, owner{&told})
	if told.Load() != 3 {
		t.Errorf("owners told %d times, want 3", told.Load())
	}
}

// owner is a message that owns something.
type owner struct{ told *atomic.Int32 }

func (o owner) Undelivered() { o.told.Add(1) }

// Defect 10: Stash replays the last first and loses the sender. Answer: we do not use it,
// nor the other features that we do not need.
func TestBannedPartsOfTheLibraryAreNotUsed(t *testing.T) {
	banned := strings.Fields(`SetReceiveTimeout Stash Become Unbecome BecomeStacked ReenterAfter RequestFuture
		StopFuture PoisonFuture NewFuture PipeTo Bounded BoundedDropping Unbounded UnboundedLockfree
		NewRestartingStrategy NewOneForOneStrategy NewAllForOneStrategy NewExponentialBackoffStrategy`)
	world := strings.Fields(`time.Now time.Since time.Until time.Sleep time.After time.AfterFunc time.NewTimer
		time.NewTicker time.Tick rand.Int rand.IntN rand.N rand.Uint64 rand.Float64 rand.Shuffle rand.Perm`)
	files, err := filepath.Glob("*.go")
	program, _ := filepath.Glob("../*.go")
	files = append(files, program...)
	if err != nil || len(program) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		src, err := parser.ParseFile(fset, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, imp := range src.Imports {
			p := strings.Trim(imp.Path.Value, `"`)
			lib, ok := strings.CutPrefix(p, "github.com/asynkron/protoactor-go/")
			if ok && lib != "actor" && lib != "eventstream" || p == "math/rand" {
				t.Errorf("%s imports %s", file, p)
			}
		}
		ast.Inspect(src, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				if file != "runtime.go" {
					t.Errorf("%s: go statement", fset.Position(n.Pos()))
				}
			case *ast.SelectorExpr:
				if slices.Contains(banned, n.Sel.Name) {
					t.Errorf("%s: %s", fset.Position(n.Pos()), n.Sel.Name)
				}
				if x, ok := n.X.(*ast.Ident); ok && file != "runtime.go" && slices.Contains(world, x.Name+"."+n.Sel.Name) {
					t.Errorf("%s: %s.%s", fset.Position(n.Pos()), x.Name, n.Sel.Name)
				}
			}
			return true
		})
	}
}

// Defect 11: a panic is logged with its reason only, at info. Answer: at error
// level, with the message's type and the stack.
func TestPanicIsLoggedWithStackAndType(t *testing.T) {
	s, log := newNode(t)
	pid := s.Spawn(nil, "bad", 10, receive(func(ctx actor.Context) {
		if _, ok := ctx.Message().(ping); ok {
			panicHere()
		}
	}), OnPanicStop)
	if _, err := Ask[pong](context.Background(), s, pid, ping{}); !errors.Is(err, ErrNoAnswer) {
		t.Error("the asker of a question that panics must hear of it:", err)
	}
	closeNode(t, s)
	got := strings.Join(log.Take(), "\n")
	for _, want := range []string{"actor=bad", "type=system.ping", "reason=boom", "panicHere"} {
		if !strings.Contains(got, want) {
			t.Errorf("log has no %s:\n%s", want, got)
		}
	}
}

func panicHere() { panic("boom") }

// Defect 12: the eleventh panic in ten seconds of the real clock silently stops an actor
// for good. Answer: our own count by our own clock, and a log entry.
func TestRestartsAreCountedAndTold(t *testing.T) {
	w, n, log := newWorld(1, "a")
	s := n[0]
	starts := 0
	var told []ChildFailed
	var child *actor.PID
	s.Spawn(nil, "parent", 10, receive(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *actor.Started:
			child = s.Spawn(ctx, "child", 100, receive(func(c actor.Context) {
				switch c.Message().(type) {
				case *actor.Started:
					starts++
				case ping:
					panic("x")
				}
			}), OnPanicRestart)
		case ChildFailed:
			told = append(told, m)
		}
	}), OnPanicStop)
	w.Settle()
	fail := func(times int) {
		for range times {
			s.Send(child, ping{})
		}
		w.Settle()
	}
	fail(3)
	w.Run(time.Minute)
	fail(3) // the minute is over: the count begins again
	if starts != 7 || len(told) != 6 {
		t.Fatalf("%d starts, told of %d panics; want 7 and 6", starts, len(told))
	}
	fail(2) // the fourth in a minute
	if starts != 7 || len(told) != 7 || told[6].Restarted || !told[5].Restarted || told[6].Name != "parent/child" || !told[6].Who.Equal(child) {
		t.Errorf("%d starts, told %+v", starts, told[5:])
	}
	if s.Send(child, pong{}) {
		t.Error("the child still lives")
	}
	closeNode(t, s)
	if got := strings.Join(log.Take(), "\n"); !strings.Contains(got, "stopped for good") {
		t.Error("nothing was logged of the stop")
	}
}

// Defect 13: a *PID caches where it leads, so one that crosses a simulated wire
// bypasses it. Answer: only bytes cross; PIDs are made anew.
func TestOnlyBytesCross(t *testing.T) {
	w, n, log := newWorld(1, "a", "b")
	var sender *actor.PID
	n[1].Export("b", n[1].Spawn(nil, "b", 10, receive(func(ctx actor.Context) {
		if _, ok := ctx.Message().(ping); ok {
			sender = ctx.Sender()
			ctx.Respond(pong{})
		}
	}), OnPanicStop))
	var asker *actor.PID
	var at time.Duration
	asker = n[0].Spawn(nil, "a", 10, receive(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case *actor.Started:
			ctx.Request(n[0].Remote("b", "b"), ping{})
			ctx.Request(n[0].Remote("b", "b"), local{}) // may not travel: a dead letter
		case pong:
			at = w.Elapsed()
		}
	}), OnPanicStop)
	w.Run(time.Second)
	if sender == nil || sender == asker || sender.Address != "a" || sender.Id == asker.Id {
		t.Errorf("sender at the other node is %v", sender)
	}
	if at != 20*time.Millisecond {
		t.Errorf("answered at %v, want 20 ms: both ways over the wire", at)
	}
	if n[0].DeadLetters() != 1 {
		t.Errorf("%d dead letters, want 1", n[0].DeadLetters())
	}
	for _, s := range n {
		closeNode(t, s)
	}
	log.None(t)
}

// And two defects besides the thirteen: the first dead letter starts a goroutine
// that sleeps, and a second Shutdown panics.
func TestDeadLetterStartsNoGoroutineAndCloseMayBeRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a goroutine left asleep would fail it
		s, _ := newNode(t)
		s.Root.Send(s.NewLocalPID("nobody"), ping{})
		if s.DeadLetters() != 1 {
			t.Error(s.DeadLetters())
		}
		closeNode(t, s)
		closeNode(t, s)
	})
}
