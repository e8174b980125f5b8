package actors

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"pgregory.net/rapid"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/share"
)

const block = share.BlockSize

func TestBudgetBoundsBytesAndBlocks(t *testing.T) {
	b := NewBudget(nil, 4*block, 4)
	for _, c := range []struct {
		take int // negative: give back
		want bool
	}{
		{3 * block, true}, {2 * block, false}, {block, true}, {1, false},
		{-2 * block, true}, {1, true}, {1, true}, {1, false}, // two blocks are two, however short they are
		{-1, true}, {block + 1, false}, {1, true},
		{-2 * block, true}, {-1, true}, {-1, true}, {100 * block, true}, {1, false}, // alone
		{-100 * block, true},
	} {
		if c.take < 0 {
			b.Give(-c.take)
			continue
		}
		if got := b.Take(c.take); got != c.want {
			bytes, blocks := b.Used()
			t.Fatalf("Take(%d) = %v with %d bytes and %d blocks taken", c.take, got, bytes, blocks)
		}
	}
	if bytes, blocks := b.Used(); bytes != 0 || blocks != 0 {
		t.Errorf("%d bytes, %d blocks left", bytes, blocks)
	}
}

// What is taken at once and given back in parts, in any order, leaves nothing.
func TestBudgetBalances(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := NewBudget(nil, 1<<40, 1<<20)
		n := rapid.IntRange(1, 40*block).Draw(t, "n")
		b.Take(n)
		var runs []int
		for left := n; left > 0; {
			k := min(left, block*rapid.IntRange(1, 4).Draw(t, "run"))
			runs = append(runs, k)
			left -= k
		}
		for _, k := range rapid.Permutation(runs).Draw(t, "order") {
			b.Give(k)
		}
		b.Give(0)
		if bytes, blocks := b.Used(); bytes != 0 || blocks != 0 {
			t.Fatalf("%d bytes, %d blocks left", bytes, blocks)
		}
	})
}

func TestGivingTooMuchIsSaid(t *testing.T) {
	s, log := newNode(t)
	b := NewBudget(s, 4*block, 4)
	b.Take(block)
	b.Give(2 * block)
	if got := log.Take(); len(got) != 1 || !strings.Contains(got[0], "more given back") {
		t.Errorf("logged %q", got)
	}
	if !b.Take(4*block) || b.Take(1) {
		t.Error("the budget is off")
	}
}

// eater takes n at a time from a budget whenever it can, and gives it back later.
type eater struct {
	s    *system.System
	b    *Budget
	n    int
	hold time.Duration
	wake system.Alarm
	due  []time.Time
	ate  int
	most time.Duration // that it waited
	dry  time.Time
}

func (e *eater) Receive(ctx actor.Context) {
	now := e.s.Now()
	switch ctx.Message().(type) {
	case *actor.Started:
		e.b = e.b.For(ctx.Self())
	case *actor.Stopping, *actor.Stopped:
		e.wake.Stop()
		return
	case system.WakeDue:
		for len(e.due) > 0 && !e.due[0].After(now) {
			e.due = e.due[1:]
			e.b.Give(e.n)
		}
	}
	for e.b.Take(e.n) {
		e.ate++
		e.due = append(e.due, now.Add(e.hold))
		if !e.dry.IsZero() {
			e.most = max(e.most, now.Sub(e.dry))
			e.dry = time.Time{}
		}
	}
	if e.dry.IsZero() {
		e.dry = now
	}
	e.b.WaitFor(ctx.Self())
	if len(e.due) > 0 {
		e.wake.Set(e.s, ctx, e.due[0])
	} else {
		e.wake.Set(e.s, ctx, time.Time{})
	}
}

// Pools of very different appetites share one budget: none starves, and the
// budget is used up.
func TestBudgetIsFairAndIsUsed(t *testing.T) {
	for seed := range uint64(10) {
		w, n, log := newWorld(seed, "a")
		s := n[0]
		b := NewBudget(s, 16*block, 1000)
		eaters := []*eater{
			{n: block, hold: time.Millisecond}, // always given back at once
			{n: block, hold: time.Millisecond},
			{n: 4 * block, hold: 10 * time.Millisecond},
			{n: 16 * block, hold: 5 * time.Millisecond}, // needs all of it
			{n: 1, hold: 100 * time.Millisecond},
		}
		for i, e := range eaters {
			e.s, e.b = s, b
			s.Spawn(nil, fmt.Sprint("eater", i), 100, func() actor.Actor { return e }, system.OnPanicStop)
		}
		w.Run(10 * time.Second)
		for i, e := range eaters {
			if e.ate < 20 || e.most > 2*time.Second {
				t.Errorf("seed %d: eater %d ate %d times, waited up to %v", seed, i, e.ate, e.most)
			}
		}
		closeNode(t, s)
		log.None(t)
	}
}

func TestLineMovesInOrderAndPastTheDead(t *testing.T) {
	w, n, log := newWorld(1, "a")
	s := n[0]
	b := NewBudget(s, block, 1)
	b.Take(block)
	var turns []string
	var pids []*actor.PID
	for i := range 5 {
		pid := s.Spawn(nil, fmt.Sprint(i), 1, receive(func(ctx actor.Context) {
			if _, ok := ctx.Message().(budgetFree); ok {
				turns = append(turns, ctx.Self().Id)
			}
		}), system.OnPanicStop)
		pids = append(pids, pid)
		b.WaitFor(pid)
		b.WaitFor(pid) // already in line
	}
	w.Settle()
	if len(turns) > 0 {
		t.Fatal("a turn with nothing to be had:", turns)
	}
	s.Root.Stop(pids[1])
	w.Settle()
	for s.Send(pids[2], ping{}) { // its mailbox is full
	}
	b.Give(block)
	w.Settle()
	if !slices.Equal(turns, []string{"0", "2", "3", "4"}) { // none of them takes anything
		t.Error("turns", turns)
	}
	b.Take(block)
	s.Root.Stop(pids[0]) // in line when it stops
	b.WaitFor(pids[3])
	b.WaitFor(pids[0])
	b.WaitFor(pids[4])
	w.Settle()
	b.Give(block)
	w.Settle()
	if !slices.Equal(turns[4:], []string{"3", "4"}) {
		t.Error("turns", turns[4:])
	}
	closeNode(t, s)
	log.None(t)
}

// A pool that begins to wait after everything has come back is not forgotten.
func TestWaitingForAFreeBudgetIsNoWait(t *testing.T) {
	w, n, _ := newWorld(1, "a")
	got := 0
	pid := n[0].Spawn(nil, "x", 1, receive(func(ctx actor.Context) {
		if _, ok := ctx.Message().(budgetFree); ok {
			got++
		}
	}), system.OnPanicStop)
	NewBudget(n[0], block, 1).WaitFor(pid)
	w.Settle()
	if got != 1 {
		t.Error(got)
	}
	closeNode(t, n[0])
}

func TestBudgetIsSafeForConcurrentUse(t *testing.T) {
	s, _ := newNode(t)
	b := NewBudget(s, 8*block, 8)
	var ate atomic.Int64
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Add(1)
		left := 500
		s.Spawn(nil, fmt.Sprint("eater", i), 100, receive(func(ctx actor.Context) {
			switch ctx.Message().(type) {
			case *actor.Started, budgetFree:
			default:
				return
			}
			for mine := b.For(ctx.Self()); left > 0; {
				if !mine.Take(3 * block) {
					b.WaitFor(ctx.Self())
					return
				}
				ate.Add(1)
				s.Task(ctx, func(context.Context) any { b.Give(2 * block); b.Give(block); return nil })
				if left--; left == 0 {
					wg.Done()
				}
			}
		}), system.OnPanicStop)
	}
	wg.Wait()
	closeNode(t, s)
	if bytes, blocks := b.Used(); bytes != 0 || blocks != 0 || ate.Load() != 2000 {
		t.Errorf("%d bytes, %d blocks left after %d", bytes, blocks, ate.Load())
	}
}

// A source that this node does not ask, because all of its memory is in use, is not late.
func TestASourceThatWaitsForMemoryIsNotLate(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testFolder(t, slices.Repeat([]int{share.BlockSize}, 64)...)
	var all []*simNode
	for i := range 6 { // a block each 4.7 s, of the four that may be in flight
		all = append(all, sw.add(fmt.Sprint("source", i), 14e3).seed(m, content))
	}
	n := sw.add("node", 1e6, func(d *Deps) { d.InFlight = 4 * share.BlockSize })
	n.fetch(m.ID(), all...)
	sw.w.Run(8 * time.Second)
	p, err := n.program.Progress(t.Context(), Handle{Share: m.ID()})
	if err != nil {
		t.Fatal(err)
	}
	for _, src := range p.Sources {
		if src.Failures.Late > 0 {
			t.Errorf("%s was late %d times, and is %q", src.Peer, src.Failures.Late, src.Why)
		}
	}
}
