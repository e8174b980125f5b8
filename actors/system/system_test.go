package system

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/internal/rig"
)

type worked struct{ n int }

// worker runs the tasks it is sent and keeps their results.
type worker struct {
	s   *System
	got []any
}

func (k *worker) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case func(context.Context) any:
		k.s.Task(ctx, m)
	case worked, owner:
		k.got = append(k.got, m)
	case ping:
		panic("asked to")
	}
}

func TestTaskRunsBesideTheMailboxAndReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newNode(t)
		k := &worker{s: s}
		pid := s.Spawn(nil, "worker", 10, func() actor.Actor { return k }, OnPanicStop)
		s.Send(pid, func(context.Context) any { time.Sleep(2 * time.Second); return worked{2} })
		s.Send(pid, func(context.Context) any { time.Sleep(time.Second); return worked{1} })
		s.Send(pid, func(context.Context) any { return nil }) // no result, no message
		time.Sleep(time.Minute)
		synctest.Wait()
		if !slices.Equal(k.got, []any{worked{1}, worked{2}}) {
			t.Error("got", k.got)
		}
	})
}

func TestTaskIsCancelledWhenItsActorStopsAndCloseWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newNode(t)
		pid := s.Spawn(nil, "worker", 10, func() actor.Actor { return &worker{s: s} }, OnPanicStop)
		var told atomic.Int32
		ended := false
		s.Send(pid, func(ctx context.Context) any {
			<-ctx.Done()
			time.Sleep(5 * time.Second) // finishes what it was at
			ended = true
			return owner{&told}
		})
		synctest.Wait()
		began := time.Now()
		closeNode(t, s)
		if !ended || time.Since(began) != 5*time.Second {
			t.Errorf("closed after %v, task ended: %v", time.Since(began), ended)
		}
		if told.Load() != 1 {
			t.Error("the result that came too late was not told so")
		}
	})
}

func TestPanicInTaskIsAPanicOfItsActor(t *testing.T) {
	for _, virtual := range []bool{false, true} {
		t.Run(fmt.Sprint("virtual=", virtual), func(t *testing.T) {
			var s *System
			var log *rig.Errors
			wait := func() {}
			if virtual {
				w, n, l := newWorld(1, "a")
				s, log, wait = n[0], l, func() { w.Run(time.Second) }
			} else {
				s, log = newNode(t)
			}
			lives := make(chan *worker, 10)
			pid := s.Spawn(nil, "worker", 10, func() actor.Actor { k := &worker{s: s}; lives <- k; return k }, OnPanicRestart)
			<-lives
			s.Send(pid, func(context.Context) any { panicHere(); return nil })
			wait()
			<-lives // a second life
			closeNode(t, s)
			if got := strings.Join(log.Take(), "\n"); !strings.Contains(got, "panicHere") || !strings.Contains(got, "TaskPanic") {
				t.Error("logged", got)
			}
		})
	}
}

// A restarted actor has asked for nothing yet.
func TestResultOfAnEarlierLifeIsDead(t *testing.T) {
	w, n, log := newWorld(1, "a")
	w.TaskDelay = nil
	s := n[0]
	var lives []*worker
	pid := s.Spawn(nil, "worker", 10, func() actor.Actor { k := &worker{s: s}; lives = append(lives, k); return k }, OnPanicRestart)
	var told atomic.Int32
	delay := time.Second
	w.TaskDelay = fixedDelay(&delay)
	var cancelled error
	s.Send(pid, func(ctx context.Context) any { cancelled = ctx.Err(); return owner{&told} })
	s.Send(pid, ping{})
	s.Send(pid, func(context.Context) any { return worked{2} })
	w.Run(time.Minute)
	if len(lives) != 2 || len(lives[0].got) != 0 || !slices.Equal(lives[1].got, []any{worked{2}}) {
		t.Errorf("%d lives, results %v", len(lives), lives[len(lives)-1].got)
	}
	if told.Load() != 1 || cancelled == nil {
		t.Errorf("told %d times, context %v", told.Load(), cancelled)
	}
	closeNode(t, s)
	if len(log.Take()) != 1 {
		t.Error("want the one panic in the log")
	}
}

func TestCloseStopsYoungestRootFirstAndWhatIsBelow(t *testing.T) {
	for _, virtual := range []bool{false, true} {
		var s *System
		if virtual {
			_, n, _ := newWorld(1, "a")
			s = n[0]
		} else {
			s, _ = newNode(t)
		}
		stopped := make(chan string, 10)
		note := func(ctx actor.Context) {
			if _, ok := ctx.Message().(*actor.Stopped); ok {
				stopped <- ctx.Self().Id
			}
		}
		s.Spawn(nil, "first", 10, receive(func(ctx actor.Context) {
			if _, ok := ctx.Message().(*actor.Started); ok {
				s.Spawn(ctx, "child", 10, receive(note), OnPanicStop)
			}
			note(ctx)
		}), OnPanicStop)
		s.Spawn(nil, "second", 10, receive(note), OnPanicStop)
		if !virtual {
			for s.box(s.NewLocalPID("first/child")) == nil {
				time.Sleep(time.Millisecond)
			}
		} else {
			s.world.Settle()
		}
		closeNode(t, s)
		close(stopped)
		var order []string
		for id := range stopped {
			order = append(order, id)
		}
		if !slices.Equal(order, []string{"second", "first/child", "first"}) {
			t.Error("stopped", order)
		}
	}
}

// In a World time stands still while a system closes: its tasks end now.
func TestCloseEndsTheTasksOfAWorld(t *testing.T) {
	w, n, log := newWorld(1, "a")
	delay := time.Hour
	w.TaskDelay = fixedDelay(&delay)
	k := &worker{s: n[0]}
	pid := n[0].Spawn(nil, "worker", 10, func() actor.Actor { return k }, OnPanicStop)
	var order []int
	var told atomic.Int32
	for i := range 3 {
		n[0].Send(pid, func(ctx context.Context) any {
			if ctx.Err() == nil {
				t.Error("not cancelled")
			}
			order = append(order, i)
			return owner{&told}
		})
	}
	w.Settle()
	closeNode(t, n[0])
	if len(order) != 3 || told.Load() != 3 || w.Elapsed() != 0 {
		t.Errorf("tasks %v ended, %d results told, after %v", order, told.Load(), w.Elapsed())
	}
	if w.Step() {
		t.Error("something is left in the world")
	}
	log.None(t)
}

func TestCloseNamesWhoDoesNotStop(t *testing.T) {
	s, _ := newNode(t)
	gate := make(chan struct{})
	s.Spawn(nil, "stuck", 10, receive(func(ctx actor.Context) {
		if _, ok := ctx.Message().(*actor.Stopping); ok {
			<-gate
		}
	}), OnPanicStop)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	err := s.Close(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(err.Error(), "close: not stopped in time: ") || !strings.Contains(err.Error(), "stuck") {
		t.Error("Close:", err)
	}
	close(gate)
	closeNode(t, s) // again, now to the end
}

func TestNothingIsSpawnedWhileStopping(t *testing.T) {
	s, _ := newNode(t)
	var lived atomic.Int32
	child := func(ctx actor.Context) *actor.PID {
		return s.Spawn(ctx, fmt.Sprint("late", time.Now().UnixNano()), 10, receive(func(actor.Context) { lived.Add(1) }), OnPanicStop)
	}
	terminated := make(chan struct{})
	s.Spawn(nil, "parent", 10, receive(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case *actor.Stopping:
			child(ctx)
			child(nil)
		case *actor.Started:
			s.Spawn(ctx, "first", 10, receive(func(actor.Context) {}), OnPanicStop)
		case *actor.Terminated:
			ctx.Watch(child(ctx)) // told at once that it is not there
			close(terminated)
		}
	}), OnPanicStop)
	closeNode(t, s)
	<-terminated
	if lived.Load() != 0 {
		t.Error("something lived")
	}
	if pid := child(nil); s.Send(pid, ping{}) {
		t.Error("a closed system took a message")
	}
}

func TestTakenNameIsABug(t *testing.T) {
	s, _ := newNode(t)
	s.Spawn(nil, "one", 10, receive(func(actor.Context) {}), OnPanicStop)
	defer func() {
		if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "one") {
			t.Error("panicked with", r)
		}
	}()
	s.Spawn(nil, "one", 10, receive(func(actor.Context) {}), OnPanicStop)
}

func TestNameIsFreeOnceItsActorHasStopped(t *testing.T) {
	w, n, log := newWorld(3, "a")
	lives := 0
	n[0].Spawn(nil, "parent", 10, receive(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case *actor.Started, *actor.Terminated:
			if lives++; lives < 50 {
				ctx.Stop(n[0].Spawn(ctx, "child", 10, receive(func(actor.Context) {}), OnPanicStop))
			}
		}
	}), OnPanicStop)
	w.Settle()
	if lives != 50 {
		t.Error(lives)
	}
	closeNode(t, n[0])
	log.None(t)
}

func TestAskErrors(t *testing.T) {
	s, _ := newNode(t)
	pid := s.Spawn(nil, "odd", 10, receive(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case ping:
			if m.N == 0 {
				ctx.Respond(errors.New("mine"))
			} else {
				ctx.Respond(local{})
			}
		}
	}), OnPanicStop)
	ctx := context.Background()
	if _, err := Ask[pong](ctx, s, pid, ping{}); err == nil || err.Error() != "mine" {
		t.Error("an error as the answer:", err)
	}
	if _, err := Ask[pong](ctx, s, pid, ping{N: 1}); err == nil || !strings.Contains(err.Error(), "system.local") {
		t.Error("an answer of another type:", err)
	}
	if _, err := Ask[pong](ctx, s, s.NewLocalPID("nobody"), ping{}); !errors.Is(err, ErrNoAnswer) {
		t.Error("nobody there:", err)
	}
	if _, err := Ask[pong](ctx, s, s.Remote("peer", "x"), ping{}); !errors.Is(err, ErrNoAnswer) {
		t.Error("peer not connected:", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := Ask[pong](ctx, s, pid, local{}); !errors.Is(err, context.Canceled) {
		t.Error("cancelled:", err)
	}
	w, n, _ := newWorld(1, "a")
	mute := n[0].Spawn(nil, "mute", 10, receive(func(actor.Context) {}), OnPanicStop)
	if _, err := Ask[pong](context.Background(), n[0], mute, ping{}); !errors.Is(err, ErrNoAnswer) {
		t.Error("nothing left to happen in the world:", err)
	}
	var tick func()
	tick = func() { w.After(time.Second, tick) }
	tick()
	if _, err := Ask[pong](context.Background(), n[0], mute, ping{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error("a world that goes on for ever:", err)
	}
	closeNode(t, n[0])
}

func TestUnexpectedMessageIsAnError(t *testing.T) {
	w, n, log := newWorld(1, "a")
	pid := n[0].Spawn(nil, "x", 10, receive(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case actor.SystemMessage, actor.AutoReceiveMessage:
		default:
			Unexpected(ctx)
		}
	}), OnPanicStop)
	n[0].Send(pid, &actor.DeadLetterResponse{}) // who does not care has no case for it
	w.Settle()
	log.None(t)
	n[0].Send(pid, ping{})
	n[0].Send(pid, nil)
	w.Settle()
	if got := log.Take(); len(got) != 2 || !strings.Contains(got[0], "system.ping") {
		t.Errorf("logged %q", got)
	}
	closeNode(t, n[0])
}

func TestQueueKeepsOrderAndLetsMemoryGo(t *testing.T) {
	var q Queue[int]
	next, want := 0, 0
	for round := range 50 {
		for range round * 7 % 200 {
			q.Push(next)
			next++
		}
		for range round * 5 % 200 {
			v, ok := q.Pop()
			if !ok {
				break
			}
			if v != want {
				t.Fatalf("got %d, want %d", v, want)
			}
			want++
		}
	}
	for v, ok := q.Pop(); ok; v, ok = q.Pop() {
		if v != want {
			t.Fatalf("got %d, want %d", v, want)
		}
		want++
	}
	burst := func(n int) (ring int) {
		for range n {
			q.Push(0)
		}
		for range n {
			q.Pop()
		}
		return len(q.buf)
	}
	for _, x := range []struct{ n, ring int }{{300, 512}, {128, 512}, {127, 0}, {65, 128}, {1, 0}, {513, 0}, {1, 8}} {
		if got := burst(x.n); got != x.ring {
			t.Errorf("after a burst of %d: a ring of %d, want %d", x.n, got, x.ring)
		}
	}
	if want != next {
		t.Errorf("popped %d of %d", want, next)
	}
	if _, ok := q.peek(); ok {
		t.Error("an empty queue has an oldest element")
	}
}

// A mailbox refuses nothing before it holds as many messages as it may.
func TestAMailboxHoldsWhatItMay(t *testing.T) {
	for _, limit := range []int{1, 9, 1000} {
		w, n, _ := newWorld(1, "a")
		got := 0
		pid := n[0].Spawn(nil, "x", limit, receive(func(ctx actor.Context) {
			if _, ok := ctx.Message().(ping); ok {
				got++
			}
		}), OnPanicStop)
		w.Settle()
		took := 0
		for range limit + 5 {
			if n[0].Send(pid, ping{}) {
				took++
			}
		}
		w.Settle()
		if took != limit || got != limit {
			t.Errorf("took %d and handled %d of %d", took, got, limit)
		}
		closeNode(t, n[0])
	}
}
