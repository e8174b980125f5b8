package system

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	cmap "github.com/orcaman/concurrent-map"

	"github.com/piecelease/fetcher/peers"
)

// A World runs any number of systems on one goroutine in virtual time. The
// actors, the library under them and the bytes between them are the real ones;
// only the clock, the order in which things happen and the links are made up, and
// all of that follows from a seed: the same seed gives the same run in every
// process, whatever the machine, and another seed another interleaving.
//
// Which of the mailboxes that have something to do goes next is drawn, a message
// at a time. When none has, the clock moves to the next event. A World is not
// safe for concurrent use. Its fields may be set before the first system is made.
type World struct {
	// Latency is how long a frame takes; default 10 ms, always. Frames of one
	// direction keep their order.
	Latency func(from, to peers.ID, rng *rand.Rand) time.Duration
	// Drop says whether a frame is lost, and with it, as on any reliable stream,
	// the connection. Default never.
	Drop func(from, to peers.ID, rng *rand.Rand) bool
	// Patience is how long it takes until both ends know that a connection has
	// gone; default 10 s. A cut that heals before only delays.
	Patience time.Duration
	// TaskDelay is how long a task takes; default up to 2 ms.
	TaskDelay func(rng *rand.Rand) time.Duration
	// Log gets what the systems log, with virtual times; default nobody.
	Log *slog.Logger
	// Observe is told of every message as it is handed to its actor; default
	// nobody.
	Observe func(Delivery)
	// Interrupted says whether whoever lets the world run from inside a step, for a system to
	// close or an answer to come, gives up. It is asked now and then; default never.
	Interrupted func() bool

	seed   uint64
	now    time.Duration
	events heap
	seq    uint64
	ready  []turn

	order, chance, links *rand.Rand // one stream of chance for each use

	nodes  map[peers.ID]*System
	frozen map[*System]*frost
	wires  map[[2]peers.ID]*cable
	recv   map[peers.ID]receiver

	steps uint64
	trace uint64
	types map[reflect.Type]uint64
}

// A Delivery is one message handed to one actor.
type Delivery struct {
	At       time.Duration // since the world began
	Message  any
	from, to *actor.PID
}

// From and To are address/ID; From is empty when the message names no sender. They are made when somebody asks.
func (d Delivery) From() string { return namePID(d.from) }
func (d Delivery) To() string   { return namePID(d.to) }

// turn is a mailbox that has something to do.
type turn struct {
	s   *System
	run func()
}

// epoch is when every world begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// NewWorld makes a world in which nothing has happened yet.
func NewWorld(seed uint64) *World {
	w := &World{seed: seed, Patience: 10 * time.Second,
		nodes: map[peers.ID]*System{}, frozen: map[*System]*frost{}, wires: map[[2]peers.ID]*cable{}, recv: map[peers.ID]receiver{},
		types: map[reflect.Type]uint64{}}
	w.order, w.chance, w.links = w.Rand("order"), w.Rand("tasks"), w.Rand("links")
	w.Latency = func(_, _ peers.ID, _ *rand.Rand) time.Duration { return 10 * time.Millisecond }
	w.Drop = func(_, _ peers.ID, _ *rand.Rand) bool { return false }
	w.Interrupted = func() bool { return false }
	w.TaskDelay = func(rng *rand.Rand) time.Duration { return time.Duration(rng.Int64N(int64(2 * time.Millisecond))) }
	return w
}

// Rand is a source of chance for one use, derived from the world's seed.
func (w *World) Rand(what string) *rand.Rand { return rand.New(rand.NewPCG(derive(w.seed, what), 0)) }

// Runtime is the door to this world for the node of that name.
func (w *World) Runtime(name string) *Runtime {
	r := &Runtime{name: name, seed: w.seed, world: w, log: slog.New(slog.DiscardHandler)}
	if w.Log != nil {
		r.log = slog.New(stamped{w.Log.Handler(), w}).With("node", name)
	}
	return r
}

// Now is the present in this world.
func (w *World) Now() time.Time { return epoch.Add(w.now) }

// Elapsed is how long the world has run, in its own time.
func (w *World) Elapsed() time.Duration { return w.now }

// After calls f once d has passed. The returned function takes that back.
func (w *World) After(d time.Duration, f func()) (stop func()) {
	e := w.schedule(nil, d, f)
	return func() { e.Stop() }
}

func (w *World) schedule(owner *System, d time.Duration, f func()) *event {
	w.seq++
	e := &event{w: w, at: w.now + max(0, d), seq: w.seq, f: f, owner: owner}
	w.events.push(e)
	return e
}

// Step does one thing: a drawn mailbox has a turn or, when none has anything to
// do, the next event happens. False: nothing is left.
func (w *World) Step() bool {
	if len(w.ready) > 0 {
		i := w.order.IntN(len(w.ready))
		t := w.ready[i]
		w.step(uint64(i), uint64(len(w.ready)))
		last := len(w.ready) - 1
		w.ready[i], w.ready[last] = w.ready[last], turn{}
		w.ready = w.ready[:last]
		t.run()
		return true
	}
	if len(w.events) == 0 {
		return false
	}
	e := w.events.pop()
	w.now = e.at
	w.step(uint64(e.at), e.seq)
	if f := w.frozen[e.owner]; f != nil {
		f.events = append(f.events, e)
		return true
	}
	e.f()
	return true
}

// Next is when the next event is due; not ok: there is none.
func (w *World) Next() (at time.Duration, ok bool) {
	if len(w.events) == 0 {
		return 0, false
	}
	return w.events[0].at, true
}

// Settle does everything that is to be done at the present instant by mailboxes, or gives up.
func (w *World) Settle() error {
	for n := 1; len(w.ready) > 0; n++ {
		if w.interrupted(n) {
			return errInterrupted
		}
		w.Step()
	}
	return nil
}

var errInterrupted = errors.New("the world was interrupted")

// interrupted asks Interrupted, in one of many steps.
func (w *World) interrupted(step int) bool { return step%1024 == 0 && w.Interrupted() }

// Run does everything that happens within d, and leaves the clock there.
func (w *World) Run(d time.Duration) {
	w.RunUntil(func() bool { return false }, d)
}

// RunUntil runs until done returns true, checking after every step, or until d has
// passed. It returns the last result of done.
func (w *World) RunUntil(done func() bool, d time.Duration) bool {
	end := w.now + d
	for {
		if done() {
			return true
		}
		if len(w.ready) == 0 && (len(w.events) == 0 || w.events[0].at > end) {
			w.now = end
			return false
		}
		w.Step()
	}
}

// askFor bounds an ask in virtual time.
const askFor = 10 * time.Minute

func (w *World) await(ctx context.Context, answer <-chan any) (any, error) {
	end := w.now + askFor
	for n := 1; w.now <= end; n++ {
		select {
		case a := <-answer:
			return a, nil
		default:
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if w.interrupted(n) {
			return nil, errInterrupted
		}
		if !w.Step() {
			return nil, ErrNoAnswer
		}
	}
	return nil, context.DeadlineExceeded
}

// ---- tasks ----

func (w *World) runLater(s *System, f func()) {
	var e *event
	e = w.schedule(s, w.TaskDelay(w.chance), func() {
		s.tasks = slices.DeleteFunc(s.tasks, func(x *event) bool { return x == e })
		f()
	})
	s.tasks = append(s.tasks, e)
}

// finishTasks runs the remaining tasks of a system now.
func (w *World) finishTasks(s *System) {
	for len(s.tasks) > 0 {
		e := s.tasks[0]
		e.Stop()
		e.f()
	}
}

// ---- looking in ----

// Hear asks an actor something from inside the world's loop, where nobody may wait.
// then is called there with the one answer.
func (s *System) Hear(to *actor.PID, msg any, then func(answer any)) {
	h := &hearer{s: s, then: then}
	h.pid, _ = s.ProcessRegistry.Add(h, "ask"+s.ProcessRegistry.NextId())
	s.Root.RequestWithCustomSender(to, msg, h.pid)
}

// hearer waits for one answer, without a goroutine.
type hearer struct {
	s    *System
	pid  *actor.PID
	then func(any)
}

func (h *hearer) SendUserMessage(_ *actor.PID, m any) {
	h.s.ProcessRegistry.Remove(h.pid)
	answer := actor.UnwrapEnvelopeMessage(m)
	h.s.world.After(0, func() { h.then(answer) })
}
func (*hearer) SendSystemMessage(*actor.PID, any) {}
func (*hearer) Stop(*actor.PID)                   {}

// Pending returns the times until the tasks and timers of a system of a world are due.
func (s *System) Pending() (due []time.Duration) {
	for _, e := range s.world.events {
		if e.owner == s {
			due = append(due, e.at-s.world.now)
		}
	}
	return due
}

// Remains is what is left of a system of a world: actors, pending events, what it
// knows of peers, and what they know of it. After Close nothing is left.
func (s *System) Remains() (what []string) {
	what = s.Running()
	for _, d := range s.Pending() {
		what = append(what, fmt.Sprintf("a task or timer due in %v", d))
	}
	if n := s.active.n.Load(); n != 0 {
		what = append(what, fmt.Sprintf("tasks or busy actors: %d", n))
	}
	s.remote.mu.Lock()
	defer s.remote.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.sessions)) {
		what = append(what, fmt.Sprintf("a session with %s (tokens: %d)", id, len(s.sessions[id].tokens)))
	}
	if s.world.nodes[s.self] == s {
		what = append(what, "its place in the world")
	}
	return what
}

// ---- the order of things ----

// drawn is the dispatcher of a system in a world.
type drawn struct {
	w *World
	s *System
}

func (d drawn) Schedule(run func()) {
	if d.s.crashed {
		return
	}
	if f := d.w.frozen[d.s]; f != nil {
		f.turns = append(f.turns, turn{d.s, run})
		return
	}
	d.w.ready = append(d.w.ready, turn{d.s, run})
}

// Throughput: one message, then others may be drawn.
func (drawn) Throughput() int { return 1 }

// Crash ends a system between two steps, as kill -9 ends a process: no actor
// is told, no task ends, nothing more is sent. Its peers find out.
func (w *World) Crash(s *System) {
	s.crashed = true
	delete(w.frozen, s)
	w.ready = slices.DeleteFunc(w.ready, func(t turn) bool { return t.s == s })
	for _, e := range slices.Clone(w.events) {
		if e.owner == s {
			e.Stop()
		}
	}
	w.crash(s)
}

// frost is what a frozen system has not got to.
type frost struct {
	turns  []turn
	events []*event
}

// Freeze stops a system between two steps, as SIGSTOP stops a process: what is
// sent to it waits, its alarms ring late, and it does not notice.
func (w *World) Freeze(s *System) {
	if w.frozen[s] != nil || s.crashed {
		return
	}
	f := &frost{}
	w.frozen[s] = f
	w.ready = slices.DeleteFunc(w.ready, func(t turn) bool {
		if t.s == s {
			f.turns = append(f.turns, t)
		}
		return t.s == s
	})
}

// Thaw lets a frozen system go on, with all it has missed.
func (w *World) Thaw(s *System) {
	f := w.frozen[s]
	if f == nil {
		return
	}
	delete(w.frozen, s)
	w.ready = append(w.ready, f.turns...)
	for _, e := range f.events { // the same events, so that they can still be taken back
		w.seq++
		e.at, e.seq = w.now, w.seq
		w.events.push(e)
	}
}

// ---- the trace ----

// Trace is a digest of all that has happened so far: which mailbox was drawn and
// out of how many, which event came when (an alarm, a task, a part of a delivery),
// every message handed to an actor (its type, sender, receiver and time), and
// every Mark.
func (w *World) Trace() uint64 { return w.trace }

// Steps is how many mailboxes have had a turn, and events have happened.
func (w *World) Steps() uint64 { return w.steps }

func (w *World) step(a, b uint64) {
	w.steps++
	w.trace = mix(w.trace ^ a*0x9e3779b97f4a7c15 ^ b<<32)
}

// Mark folds facts into the trace.
func (w *World) Mark(facts ...uint64) {
	for _, f := range facts {
		w.trace = mix(w.trace ^ f*0x9e3779b97f4a7c15)
	}
}

func (w *World) delivered(to *actor.PID, message any) {
	_, msg, sender := actor.UnwrapEnvelope(message)
	t := reflect.TypeOf(msg)
	h, ok := w.types[t]
	if !ok {
		h = derive(0, fmt.Sprint(t)) // Sprint, because t is nil for a nil message
		w.types[t] = h
	}
	w.Mark(uint64(w.now), h, hashPID(sender), hashPID(to))
	if w.Observe != nil {
		w.Observe(Delivery{w.now, msg, sender, to})
	}
}

func hashPID(pid *actor.PID) uint64 {
	if pid == nil {
		return 0
	}
	return derive(0, pid.Address, pid.Id)
}

func namePID(pid *actor.PID) string {
	if pid == nil {
		return ""
	}
	return pid.Address + "/" + pid.Id
}

// stamped gives log records the world's time.
type stamped struct {
	slog.Handler
	w *World
}

func (h stamped) Handle(ctx context.Context, r slog.Record) error {
	r.Time = h.w.Now()
	return h.Handler.Handle(ctx, r)
}
func (h stamped) WithAttrs(as []slog.Attr) slog.Handler { return stamped{h.Handler.WithAttrs(as), h.w} }
func (h stamped) WithGroup(name string) slog.Handler    { return stamped{h.Handler.WithGroup(name), h.w} }

// Lean makes every system of this process thirty times cheaper to build (0.2 ms
// in place of 6) by changing a global variable of a library under protoactor. Other
// users of that library in the process lose what their maps held before, so it is for
// programs, never for packages that others embed: main calls it first of all.
func Lean() { cmap.SHARD_COUNT = 1 }
