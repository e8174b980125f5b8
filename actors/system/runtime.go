package system

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// A Runtime is one node's door to time, chance and work. There are two kinds:
// [Real], and [World.Runtime] on a virtual clock. No other file of this package,
// nor of package actors, reads a clock, sets a timer or starts a goroutine.
type Runtime struct {
	name  string
	log   *slog.Logger
	seed  uint64
	wall  func() time.Time
	world *World // nil: real
}

// Real is the runtime of a process that serves its user: the system's clock and
// goroutines. It logs to log; nil logs nowhere.
func Real(log *slog.Logger) *Runtime {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	var b [8]byte
	crand.Read(b[:]) // never fails
	return &Runtime{log: log, seed: binary.LittleEndian.Uint64(b[:])}
}

// Now is the present, for deadlines: compare it, don't store it.
func (r *Runtime) Now() time.Time {
	if r.world != nil {
		return r.world.Now()
	}
	return time.Now()
}

// Wall is the time of day in UTC without a monotonic reading, for what is
// stored or shown.
func (r *Runtime) Wall() time.Time {
	if r.wall != nil {
		return r.wall().UTC().Round(0)
	}
	return r.Now().UTC().Round(0)
}

// SetWall replaces what [Runtime.Wall] reads; nil restores it. Call it before
// the runtime is used.
func (r *Runtime) SetWall(wall func() time.Time) { r.wall = wall }

// Seed derives a seed for one use of chance. The same runtime gives the same use
// the same seed, so what should name the user too ("leases of " + share ID).
// Two real runtimes differ; in a World the seed follows from the world's seed,
// the runtime's name and what.
func (r *Runtime) Seed(what string) uint64 { return derive(r.seed, r.name, what) }

// World is the world that the runtime belongs to; nil when it is real.
func (r *Runtime) World() *World { return r.world }

// Log is the node's logger.
func (r *Runtime) Log() *slog.Logger { return r.log }

// derive mixes a seed with names. Names are separated by a byte that no UTF-8
// text holds, so ("a", "bc") and ("ab", "c") differ.
func derive(seed uint64, names ...string) uint64 {
	h := uint64(fnvOffset)
	for range 8 {
		h, seed = (h^seed&0xff)*fnvPrime, seed>>8
	}
	for _, n := range names {
		for i := range len(n) {
			h = (h ^ uint64(n[i])) * fnvPrime
		}
		h = (h ^ 0xff) * fnvPrime
	}
	return mix(h)
}

// Of FNV-1a with 64 bits, as in hash/fnv, which takes twice as long: worlds hash two names for each message.
const (
	fnvOffset = 14695981039346656037
	fnvPrime  = 1099511628211
)

// mix is the finalizer of splitmix64: FNV alone leaves the seeds of similar
// names similar.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// stopper is a set timer: *time.Timer or *event.
type stopper interface{ Stop() bool }

// after calls f once d has passed: on a goroutine of its own, or from the
// world's loop.
func (r *Runtime) after(owner *System, d time.Duration, f func()) stopper {
	if r.world != nil {
		return r.world.schedule(owner, d, f)
	}
	return time.AfterFunc(d, f)
}

// beside runs f outside the actors: on a goroutine, or later on the world's loop.
func (s *System) beside(f func()) {
	if s.world != nil {
		s.world.runLater(s, f)
		return
	}
	go f()
}

// await waits, outside the actors, for an answer.
func (s *System) await(ctx context.Context, answer <-chan any) (any, error) {
	if s.world != nil {
		return s.world.await(ctx, answer)
	}
	select {
	case a := <-answer:
		return a, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// errInside says that a step of the world waits for the world.
var errInside = errors.New("called from inside the world's loop")

// awaitGone waits until a root has stopped.
func (s *System) awaitGone(ctx context.Context, r *root) error {
	if s.world != nil {
		settled := s.world.Settle()
		select {
		case <-r.gone:
			return nil
		default:
			return cmp.Or(settled, errInside)
		}
	}
	select {
	case <-r.gone:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// awaitIdle waits until no mailbox and no task runs.
func (s *System) awaitIdle(ctx context.Context) error {
	if s.world != nil {
		s.world.finishTasks(s)
		settled := s.world.Settle()
		if s.active.n.Load() != 0 {
			return cmp.Or(settled, errInside)
		}
		return nil
	}
	return s.active.wait(ctx)
}

// dispatcher says how the mailboxes of s get to run.
func (r *Runtime) dispatcher(s *System) actor.Dispatcher {
	if r.world != nil {
		return drawn{r.world, s}
	}
	return spawned{}
}

// spawned runs each busy mailbox on a goroutine. An idle one has none.
type spawned struct{}

func (spawned) Schedule(run func()) { go run() }
func (spawned) Throughput() int     { return 0 } // until it is empty; Go shares the cores out

// WakeDue is a hint to check the clock; it carries nothing. Alarm -> own actor.
type WakeDue struct{}

// ringAgain is the least time between two rings for one and the same instant.
// An actor whose core wants to be woken now, and does nothing about it when
// woken, costs a thousand messages a second: no spinning core, and virtual time
// moves on.
const ringAgain = time.Millisecond

// An Alarm is an actor's one timer. The zero alarm is stopped. Only its actor
// touches it, inside Receive.
//
// When it rings, the actor gets a WakeDue. That message promises nothing: it
// may be late, early or one too many, and its handler asks the core what is due.
// It is never refused by a full mailbox.
type Alarm struct {
	at   time.Time
	bell *bell
	over bool // it cannot be set again
}

// bell is one setting of an alarm.
type bell struct {
	timer stopper
	rang  atomic.Bool
}

// Set makes the alarm ring at that time, in place of any earlier setting: at
// once if it has passed, never if it is zero. Setting it to what it is set to
// already costs nothing, so call it after every message.
func (a *Alarm) Set(s *System, ctx actor.Context, at time.Time) {
	rang := a.bell != nil && a.bell.rang.Load()
	same := at.Equal(a.at)
	if same && !rang || a.over {
		return
	}
	a.silence()
	if at.IsZero() {
		return
	}
	wait := max(0, at.Sub(s.Now()))
	if same {
		wait = max(wait, ringAgain)
	}
	self, b := ctx.Self(), new(bell)
	b.timer = s.after(s, wait, func() {
		b.rang.Store(true)
		s.Assure(self, WakeDue{}, nil)
	})
	a.at, a.bell = at, b
}

// Stop silences the alarm for good: an actor that stops goes on receiving, and
// would set it again. A WakeDue already on its way still arrives.
func (a *Alarm) Stop() {
	a.silence()
	a.over = true
}

func (a *Alarm) silence() {
	if a.bell != nil {
		a.bell.timer.Stop()
	}
	a.at, a.bell = time.Time{}, nil
}
