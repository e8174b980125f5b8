package system

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"pgregory.net/rapid"

	"github.com/piecelease/fetcher/peers"
)

// gossip is an actor that does a little of everything: it asks neighbours and
// itself, sets alarms, starts tasks, watches, panics now and then.
type gossip struct {
	s    *System
	rng  *rand.Rand
	near []peers.ID
	wake Alarm
	sum  uint32
}

func (g *gossip) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		g.s.Export("gossip", ctx.Self())
		ctx.Watch(g.s.Remote(g.near[0], "gossip"))
	case WakeDue:
		to := g.near[g.rng.IntN(len(g.near))]
		ctx.Request(g.s.Remote(to, "gossip"), ping{N: g.rng.Uint32N(1000)})
		if g.rng.IntN(10) == 0 {
			n := g.rng.Uint32N(1000)
			g.s.Task(ctx, func(context.Context) any { return pong{n} })
		}
	case ping:
		if m.N == 13 {
			panic("unlucky")
		}
		ctx.Respond(pong{m.N + g.sum})
		ctx.Send(ctx.Self(), pong{1})
	case pong:
		g.sum += m.N
	case *actor.Terminated:
		g.sum *= 3
	case *actor.Stopping, *actor.Restarting:
		g.wake.Stop()
		return
	}
	g.wake.Set(g.s, ctx, g.s.Now().Add(time.Duration(g.rng.IntN(500))*time.Millisecond))
}

// gossips runs 20 nodes for a while over links with jitter, losses and a cut.
func gossips(seed uint64, d time.Duration) (*World, []*System) {
	w := NewWorld(seed)
	w.Latency = func(_, _ peers.ID, rng *rand.Rand) time.Duration {
		return time.Duration(1+rng.IntN(80)) * time.Millisecond
	}
	w.Drop = func(_, _ peers.ID, rng *rand.Rand) bool { return rng.IntN(500) == 0 }
	w.Patience = 3 * time.Second
	const N = 20
	name := func(i int) peers.ID { return peers.ID(fmt.Sprint("n", i%N)) }
	var nodes []*System
	for i := range N {
		s := NewSystem(w.Runtime(string(name(i))), name(i), w.Outbox(name(i)), testCodec{})
		nodes = append(nodes, s)
		s.Spawn(nil, "gossip", 50, func() actor.Actor {
			return &gossip{s: s, rng: rand.New(rand.NewPCG(s.Seed("gossip"), 0)), near: []peers.ID{name(i + 1), name(i + 3), name(i + 7)}}
		}, OnPanicRestart)
	}
	w.After(2*time.Second, func() { w.Cut(name(1), name(2)) })
	w.After(9*time.Second, func() { w.Heal(name(1), name(2)) })
	w.Run(d)
	return w, nodes
}

// The digests are part of the test: every process must find them, whatever the
// machine, the number of cores or the race detector does.
func TestSameSeedSameTraceEverywhere(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, procs := range []int{1, 2} {
		runtime.GOMAXPROCS(procs)
		for seed, want := range map[uint64]uint64{1: goldenTrace1, 2: goldenTrace2} {
			w, nodes := gossips(seed, 20*time.Second)
			if got := w.Trace(); got != want {
				t.Errorf("seed %d at GOMAXPROCS %d: trace %#x, want %#x", seed, procs, got, want)
			}
			for _, s := range nodes {
				closeNode(t, s)
			}
		}
	}
}

// These change when the scenario above, the runtime or the library changes.
const (
	goldenTrace1 = 0x778de0895a115167
	goldenTrace2 = 0xa38dca71dd787d28
)

func TestAnotherSeedIsAnotherInterleaving(t *testing.T) {
	orders := map[string]bool{}
	for seed := range uint64(20) {
		w, n, _ := newWorld(seed, "a")
		var order []string
		for i := range 5 {
			pid := n[0].Spawn(nil, fmt.Sprint(i), 10, receive(func(ctx actor.Context) {
				if _, ok := ctx.Message().(ping); ok {
					order = append(order, ctx.Self().Id)
				}
			}), OnPanicStop)
			n[0].Send(pid, ping{})
			n[0].Send(pid, ping{})
		}
		w.Settle()
		orders[strings.Join(order, "")] = true
		closeNode(t, n[0])
	}
	if len(orders) < 15 {
		t.Errorf("20 seeds, %d orders", len(orders))
	}
}

func TestWorldIsOneGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	w, nodes := gossips(1, 0)
	for range 20 {
		w.Run(time.Second)
		// Fewer are those of an earlier test that end only now.
		if got := runtime.NumGoroutine(); got > before {
			t.Fatalf("%d goroutines, had %d", got, before)
		}
	}
	for _, s := range nodes {
		closeNode(t, s)
	}
}

func TestFramesOfOneDirectionKeepTheirOrder(t *testing.T) {
	w, n, _ := newWorld(1, "a", "b")
	w.Latency = func(_, _ peers.ID, rng *rand.Rand) time.Duration {
		return time.Duration(rng.IntN(100)) * time.Millisecond
	}
	var got []uint32
	n[1].Export("x", n[1].Spawn(nil, "x", 10, receive(func(ctx actor.Context) {
		if m, ok := ctx.Message().(ping); ok {
			got = append(got, m.N)
		}
	}), OnPanicStop))
	for i := range uint32(200) {
		n[0].Send(n[0].Remote("b", "x"), ping{N: i})
		w.Run(time.Millisecond)
	}
	w.Run(time.Second)
	if len(got) != 200 || !slices.IsSorted(got) {
		t.Errorf("got %v", got)
	}
	if w.Elapsed() != 1200*time.Millisecond {
		t.Error("elapsed", w.Elapsed())
	}
	for _, s := range n {
		closeNode(t, s)
	}
}

// wired is two nodes of a world, what they are told of each other, and a way to
// send from one to the other.
type wired struct {
	w    *World
	n    []*System
	got  []uint32
	lost [2]int
	at   [2]time.Duration
}

func newWired(patience time.Duration) *wired {
	w, n, _ := newWorld(1, "a", "b")
	w.Patience = patience
	x := &wired{w: w, n: n}
	n[1].Export("x", n[1].Spawn(nil, "x", 10, receive(func(ctx actor.Context) {
		if m, ok := ctx.Message().(ping); ok {
			x.got = append(x.got, m.N)
		}
	}), OnPanicStop))
	for i, s := range n {
		w.OnMessages(s.Self(), s.Deliver, func(p peers.ID) { s.Lost(p); x.lost[i]++; x.at[i] = w.Elapsed() })
	}
	return x
}

func (x *wired) send(n uint32) bool { return x.n[0].Send(x.n[0].Remote("b", "x"), ping{N: n}) }

func TestShortCutOnlyDelays(t *testing.T) {
	x := newWired(5 * time.Second)
	x.send(1)
	x.w.Run(5 * time.Millisecond) // on its way
	x.w.Cut("a", "b")
	x.w.Cut("b", "a") // is cut already
	x.send(2)
	x.w.Run(4 * time.Second)
	if len(x.got) > 0 {
		t.Error("crossed a cut:", x.got)
	}
	x.w.Heal("a", "b")
	x.w.Heal("a", "b")
	x.send(3)
	x.w.Run(10 * time.Second)
	if !slices.Equal(x.got, []uint32{1, 2, 3}) || x.lost != [2]int{} {
		t.Errorf("got %v, lost %v", x.got, x.lost)
	}
}

func TestLongCutIsALossForBoth(t *testing.T) {
	x := newWired(5 * time.Second)
	x.send(1)
	x.w.Run(time.Second)
	x.w.Cut("a", "b")
	x.send(2)
	x.w.Run(4 * time.Second)
	if !x.send(3) {
		t.Error("refused before anybody can know")
	}
	x.w.Run(4 * time.Second)
	if x.lost != [2]int{1, 1} || x.at != [2]time.Duration{6 * time.Second, 6 * time.Second} {
		t.Errorf("lost %v at %v", x.lost, x.at)
	}
	if x.send(4) {
		t.Error("sent without a connection")
	}
	x.w.Heal("a", "b")
	if !x.send(5) {
		t.Error("refused after healing")
	}
	x.w.Run(time.Minute)
	if !slices.Equal(x.got, []uint32{1, 5}) || x.lost != [2]int{1, 1} {
		t.Errorf("got %v, lost %v", x.got, x.lost)
	}
}

func TestDroppedFrameIsALostConnection(t *testing.T) {
	x := newWired(2 * time.Second)
	drop := false
	x.w.Drop = func(_, _ peers.ID, _ *rand.Rand) bool { return drop }
	x.send(1)
	drop = true
	x.send(2)
	drop = false
	if !x.send(3) {
		t.Error("refused before anybody can know")
	}
	x.w.Run(time.Minute)
	x.send(4)
	x.w.Run(time.Minute)
	if !slices.Equal(x.got, []uint32{4}) || x.lost != [2]int{1, 1} || x.at[0] != 2*time.Second {
		t.Errorf("got %v, lost %v at %v", x.got, x.lost, x.at)
	}
}

func TestCrashIsFoundOutAndRestartIsWelcome(t *testing.T) {
	x := newWired(5 * time.Second)
	heard := false
	var wake Alarm
	x.n[1].Spawn(nil, "y", 10, receive(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case *actor.Started:
			wake.Set(x.n[1], ctx, x.n[1].Now().Add(time.Second))
			x.n[1].Task(ctx, func(context.Context) any { heard = true; return nil })
		default:
			heard = true
		}
	}), OnPanicStop)
	x.send(1)
	x.w.Settle()
	x.w.Crash(x.n[1])
	x.w.Run(time.Second)
	if !x.send(2) {
		t.Error("refused before anybody can know")
	}
	closeNode(t, x.n[1]) // of a crashed system: nothing to do
	again := NewSystem(x.w.Runtime("b"), "b", x.w.Outbox("b"), testCodec{})
	var got []uint32
	again.Export("x", again.Spawn(nil, "x", 10, receive(func(ctx actor.Context) {
		if m, ok := ctx.Message().(ping); ok {
			got = append(got, m.N)
		}
	}), OnPanicStop))
	if again.Send(again.Remote("a", "x"), ping{}) {
		t.Error("the new one sent on the old one's connection")
	}
	x.w.Run(10 * time.Second)
	if x.lost != [2]int{1, 0} || x.at[0] != 5*time.Second {
		t.Errorf("lost %v at %v", x.lost, x.at)
	}
	x.send(3)
	x.w.Run(time.Second)
	if heard || len(x.got) > 0 || !slices.Equal(got, []uint32{3}) {
		t.Errorf("heard %v, the old got %v, the new %v", heard, x.got, got)
	}
	closeNode(t, again)
	closeNode(t, x.n[0])
}

func TestLastWordsOfAClosingNodeArrive(t *testing.T) {
	x := newWired(time.Minute)
	var last []any
	x.n[0].Export("y", x.n[0].Spawn(nil, "y", 10, receive(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *actor.Started:
			ctx.Watch(x.n[0].Remote("b", "x"))
		case pong:
			last = append(last, m)
		case *actor.Terminated:
			last = append(last, m.Why)
		}
	}), OnPanicStop))
	x.n[1].Spawn(nil, "z", 10, receive(func(ctx actor.Context) {
		if _, ok := ctx.Message().(*actor.Stopping); ok {
			ctx.Send(x.n[1].Remote("a", "y"), pong{1})
		}
	}), OnPanicStop)
	x.w.Run(time.Second)
	closeNode(t, x.n[1])
	x.w.Run(time.Second)
	if !slices.Equal(last, []any{pong{1}, actor.TerminatedReason_Stopped}) || x.lost != [2]int{1, 0} {
		t.Errorf("last heard %v, lost %v", last, x.lost)
	}
	closeNode(t, x.n[0])
}

func TestTasksTakeTheirDelay(t *testing.T) {
	w, n, _ := newWorld(1, "a")
	delay := 3 * time.Second
	w.TaskDelay = fixedDelay(&delay)
	var at time.Duration
	n[0].Spawn(nil, "x", 10, receive(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case *actor.Started:
			n[0].Task(ctx, func(context.Context) any { return worked{} })
		case worked:
			at = w.Elapsed()
		}
	}), OnPanicStop)
	w.Run(time.Minute)
	if at != delay {
		t.Errorf("done at %v, want %v", at, delay)
	}
	closeNode(t, n[0])
}

func TestLogHasTheWorldsTime(t *testing.T) {
	var b bytes.Buffer
	w := NewWorld(1)
	w.Log = slog.New(slog.NewTextHandler(&b, nil))
	r := w.Runtime("n7")
	w.Run(time.Hour)
	r.Log().WithGroup("g").Info("hello")
	if got := b.String(); !strings.Contains(got, "time=2000-01-01T01:00:00") || !strings.Contains(got, "node=n7") {
		t.Error(got)
	}
}

func TestObserveSeesEveryDelivery(t *testing.T) {
	w, n, _ := newWorld(1, "a", "b")
	var seen []string
	w.Observe = func(d Delivery) { seen = append(seen, fmt.Sprintf("%v %s>%s %T", d.At, d.From(), d.To(), d.Message)) }
	n[1].Export("x", n[1].Spawn(nil, "x", 10, receive(func(actor.Context) {}), OnPanicStop))
	n[0].Send(n[0].Remote("b", "x"), ping{})
	before := w.Trace()
	w.Run(time.Second)
	if !slices.Equal(seen, []string{"0s >b/x *actor.Started", "10ms a/$0>b/x system.ping"}) {
		t.Errorf("saw %q", seen)
	}
	if w.Trace() == before {
		t.Error("the trace has not changed")
	}
	before = w.Trace()
	w.Mark(1, 2)
	ab := w.Trace()
	w.trace = before
	if w.Mark(2, 1); w.Trace() == ab {
		t.Error("marks do not keep their order")
	}
	for _, s := range n {
		closeNode(t, s)
	}
}

func TestWorldTime(t *testing.T) {
	w := NewWorld(1)
	var at []time.Duration
	note := func() { at = append(at, w.Elapsed()) }
	w.After(3*time.Second, note)
	w.After(time.Second, func() { note(); w.After(time.Second, note) })
	w.After(-time.Second, note)
	stop := w.After(2*time.Second, func() { t.Error("was stopped") })
	stop()
	stop()
	if w.RunUntil(func() bool { return len(at) == 2 }, time.Minute); w.Elapsed() != time.Second {
		t.Error("stopped at", w.Elapsed())
	}
	if w.RunUntil(func() bool { return false }, time.Minute) || w.Elapsed() != 61*time.Second {
		t.Error("ran until", w.Elapsed())
	}
	if !slices.Equal(at, []time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}) {
		t.Error("events at", at)
	}
	if w.Step() {
		t.Error("something is left")
	}
	if !w.Now().Equal(epoch.Add(61 * time.Second)) {
		t.Error("now is", w.Now())
	}
}

func TestCloseInsideTheLoopIsRefused(t *testing.T) {
	w, n, _ := newWorld(1, "a")
	var err error
	n[0].Spawn(nil, "x", 10, receive(func(ctx actor.Context) {
		if _, ok := ctx.Message().(ping); ok {
			err = n[0].Close(context.Background())
		}
	}), OnPanicStop)
	n[0].Send(n[0].NewLocalPID("x"), ping{})
	w.Settle()
	if err == nil {
		t.Error("closed itself")
	}
	closeNode(t, n[0])
}

// Whatever is pushed and removed, events come in order of time, then of making.
func TestHeapIsAnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := NewWorld(1)
		var live []*event
		for range rapid.IntRange(1, 200).Draw(t, "n") {
			switch {
			case len(live) > 0 && rapid.IntRange(0, 2).Draw(t, "what") == 0:
				i := rapid.IntRange(0, len(live)-1).Draw(t, "which")
				if !live[i].Stop() || live[i].Stop() {
					t.Fatal("stopped wrong")
				}
				live = slices.Delete(live, i, i+1)
			default:
				live = append(live, w.schedule(nil, time.Duration(rapid.IntRange(0, 20).Draw(t, "at")), func() {}))
			}
		}
		slices.SortFunc(live, func(a, b *event) int {
			if a.before(b) {
				return -1
			}
			return 1
		})
		for _, want := range live {
			if got := w.events.pop(); got != want {
				t.Fatalf("got %v/%d, want %v/%d", got.at, got.seq, want.at, want.seq)
			}
		}
		if len(w.events) > 0 {
			t.Fatal("events are left")
		}
	})
}
