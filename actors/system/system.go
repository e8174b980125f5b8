package system

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/eventstream"
	cmap "github.com/orcaman/concurrent-map"

	"github.com/piecelease/fetcher/internal/words"
	"github.com/piecelease/fetcher/peers"
)

// A System is the actors of one node and all they have started. Its methods are
// safe for concurrent use where they do not say otherwise.
type System struct {
	*actor.ActorSystem
	*Runtime
	*remote

	disp   actor.Dispatcher
	top    *guardian
	boxes  sync.Map // actor ID -> *mailbox
	active activity

	letters atomic.Int64 // dead ones

	onRootFailed func(name string, reason any, restarted bool)

	crashed bool // by World.Crash

	closeMu sync.Mutex // held by Close
	closed  bool

	mu      sync.Mutex
	closing bool
	roots   []*root  // in order of spawn
	tasks   []*event // in a World: those not run yet, in order
}

// root is an actor without a parent.
type root struct {
	pid  *actor.PID
	gone chan struct{} // closed when it has stopped
}

// NewSystem makes the system of the node whose peer ID is self. Messages to
// actors of other nodes leave as frames through out, in the form that codec gives
// them; what arrives is passed to [System.Deliver] and [System.Lost]. It starts
// no goroutine. It must be closed.
func NewSystem(rt *Runtime, self peers.ID, out Outbox, c Codec) *System {
	s := &System{Runtime: rt}
	s.active.idle = make(chan struct{}, 1)
	s.disp = rt.dispatcher(s)
	// We log ordinary events ourselves, and better than the library; only its
	// warnings and errors are kept.
	lib := slog.New(atLeast{rt.log.Handler(), slog.LevelWarn})
	s.ActorSystem = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return lib }))
	s.ProcessRegistry.Address = string(self) // before any actor has a PID

	// The registry comes as 1024 maps of 32 shards each: 2.8 MiB a system, for a
	// few hundred names. One map of 32 shards does the same. (Setting
	// cmap.SHARD_COUNT instead would reach into every other user of that package
	// in the process, and break those of its maps that hold something already.)
	s.ProcessRegistry.LocalPIDs = &actor.SliceMap{LocalPIDs: []cmap.ConcurrentMap{cmap.New()}}

	// The library's own handler of dead letters starts a goroutine that sleeps.
	// Ours says the same without it.
	s.EventStream = eventstream.NewEventStream()
	s.EventStream.Subscribe(s.deadLetter)

	s.top = &guardian{s: s}
	s.top.pid, _ = s.ProcessRegistry.Add(s.top, "top")
	s.remote = newRemote(s, self, out, c)
	s.ProcessRegistry.RegisterAddressResolver(func(pid *actor.PID) (actor.Process, bool) {
		return s.remote, pid.Address != ""
	})
	if rt.world != nil {
		rt.world.join(s)
	}
	return s
}

// Spawn starts an actor: below the actor whose ctx is given, or a root when
// parent is nil. Its ID is name, below its parent's. limit bounds how many
// messages of local senders its mailbox holds; policy says what follows a panic.
// producer is called again after a restart and must return a new value.
//
// The name must be free: names are chosen by the program, so one that is taken is a
// bug, and panics. A parent that is stopping, and a closing system, get the
// PID of an actor that never lived.
func (s *System) Spawn(parent actor.Context, name string, limit int, producer func() actor.Actor, policy RestartPolicy) *actor.PID {
	id := name
	if parent != nil {
		id = parent.Self().Id + "/" + name
	}
	box := newMailbox(s, s.NewLocalPID(id), limit, policy)
	if parent != nil {
		box.parent = parent.Self()
	}
	if s.stopping(box.parent) || !s.claim(box) {
		s.log.Debug("not spawned: stopping", "actor", id)
		return box.pid
	}
	props := actor.PropsFromProducer(
		func() actor.Actor { return &shell{producer(), box} },
		actor.WithDispatcher(s.disp),
		actor.WithMailbox(func() actor.Mailbox { return box }),
		actor.WithSupervisor(supervisor{s}))
	spawned := false
	defer func() {
		if !spawned { // producer panicked
			s.unclaim(box)
		}
	}()
	var pid *actor.PID
	var err error
	if parent != nil {
		pid, err = parent.SpawnNamed(props, name)
	} else {
		pid, err = actor.DefaultSpawner(s.ActorSystem, name, props, outside{s.Root, s.top.pid})
	}
	if err != nil {
		panic(fmt.Sprintf("spawn %s: %v", id, err))
	}
	spawned = true
	return pid
}

// stopping says that nothing may be started below parent, or at all if it is nil.
func (s *System) stopping(parent *actor.PID) bool {
	if parent != nil {
		return s.box(parent).ending.Load()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// claim registers an actor before it is spawned, because it may run before Spawn
// returns. False: the system has begun to close.
func (s *System) claim(box *mailbox) bool {
	if _, taken := s.boxes.LoadOrStore(box.pid.Id, box); taken {
		panic("spawn " + box.pid.Id + ": the name is taken")
	}
	if box.parent != nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		s.boxes.Delete(box.pid.Id)
	} else {
		s.roots = append(s.roots, &root{box.pid, make(chan struct{})})
	}
	return !s.closing
}

// unclaim forgets an actor that was not spawned.
func (s *System) unclaim(box *mailbox) {
	s.boxes.Delete(box.pid.Id)
	if box.parent == nil {
		s.gone(box.pid)
	}
}

// box is the mailbox of a local actor; nil if it has stopped.
func (s *System) box(pid *actor.PID) *mailbox {
	m, _ := s.boxes.Load(pid.Id)
	box, _ := m.(*mailbox)
	return box
}

// outside is where roots are spawned: the library's root context, but with our
// guardian as the parent. The library's own guardian counts restarts by the real clock.
type outside struct {
	*actor.RootContext
	top *actor.PID
}

func (o outside) Self() *actor.PID { return o.top }

// Send queues a message without a sender, from any goroutine. False: it was
// refused, because the mailbox is full, the actor has stopped or its peer cannot
// be reached. It is then a dead letter, like all that nobody receives.
func (s *System) Send(to *actor.PID, msg any) bool { return s.deliver(to, letter{msg: msg}) }

// Assure queues a message that no full mailbox may refuse, because its sender
// bounds the number of them. done, unless it is nil, is called once when the
// message was processed; not if it was refused.
func (s *System) Assure(to *actor.PID, msg any, done func()) bool {
	return s.deliver(to, letter{msg: msg, done: done, assured: true})
}

// deliver queues a letter for an actor here or elsewhere. False: nobody will
// ever receive it, and the letter's done is still to be called.
func (s *System) deliver(to *actor.PID, l letter) bool {
	box := s.box(to)
	switch {
	case to.Address != s.Address():
		if !s.remote.send(to, l.msg) {
			return false // the remote has reported it
		}
	case box != nil && box.post(l):
		return true
	case box != nil || !s.toProcess(to, l.msg):
		s.dead(to, l.msg)
		return false
	}
	if l.done != nil {
		l.done()
	}
	return true
}

// toProcess delivers to a process that is not an actor: an asker.
func (s *System) toProcess(to *actor.PID, msg any) bool {
	proc, ok := s.ProcessRegistry.GetLocal(to.Id)
	if ok {
		proc.SendUserMessage(to, msg)
	}
	return ok
}

// system sends one of the library's own messages.
func (s *System) system(to *actor.PID, msg any) {
	proc, _ := s.ProcessRegistry.Get(to)
	proc.SendSystemMessage(to, msg)
}

// dead makes a dead letter of a message.
func (s *System) dead(to *actor.PID, msg any) { s.DeadLetter.SendUserMessage(to, msg) }

// DeadLetters counts the messages that nobody received.
func (s *System) DeadLetters() int64 { return s.letters.Load() }

// An Undeliverable is a message that owns something. Undelivered is called once if
// nobody will ever receive it, from any goroutine.
type Undeliverable interface{ Undelivered() }

// deadLetter makes sure that whoever waits for an undelivered message is told that
// it was lost.
func (s *System) deadLetter(event any) {
	d, ok := event.(*actor.DeadLetterEvent)
	if !ok {
		return
	}
	switch m := d.Message.(type) {
	case Undeliverable:
		m.Undelivered()
	case *actor.Watch:
		s.system(m.Watcher, &actor.Terminated{Who: d.PID, Why: actor.TerminatedReason_NotFound})
		return
	case actor.SystemMessage, actor.AutoReceiveMessage, WakeDue:
		return // stopping twice, or ringing too late, is nothing to report
	}
	s.letters.Add(1)
	s.log.Debug("dead letter", "to", d.PID, "type", fmt.Sprintf("%T", d.Message), "from", d.Sender)
	if d.Sender != nil {
		s.noAnswer(d.Sender, d.PID)
	}
}

// noAnswer tells an asker that there will be no answer. An actor that asks that much
// has room for it.
func (s *System) noAnswer(asker, from *actor.PID) {
	s.Assure(asker, &actor.DeadLetterResponse{Target: from}, nil)
}

// Task runs f beside the mailbox and sends its result, unless it is nil, to the
// actor itself. The context given to f ends when the actor stops or restarts; f
// may go on, and Close waits for it. A result that the actor does not live to
// receive is a dead letter, also when a restart came between. A panic in f is a
// panic of the actor.
//
// A task may wait for disk or for hashing, not for a peer. In a World it runs on
// the loop, whole, after a delay drawn from the seed.
func (s *System) Task(ctx actor.Context, f func(context.Context) any) {
	self := ctx.Self()
	alive, life := s.box(self).alive()
	s.active.begin()
	s.beside(func() {
		defer s.active.end()
		if r := attempt(alive, f); r != nil {
			s.deliver(self, letter{msg: r, assured: true, life: life})
		}
	})
}

// Answer is a Task for the message that is being processed, which counts as processed when f has ended: a peer has no
// more of them under way than it has credit for. To be called from Receive, once.
func (s *System) Answer(ctx actor.Context, f func(context.Context) any) {
	box := s.box(ctx.Self())
	done := box.done
	box.done = nil
	s.Task(ctx, func(ctx context.Context) any {
		if done != nil {
			defer done()
		}
		return f(ctx)
	})
}

// TaskPanic is the panic of a task. Task -> its actor, whose shell panics anew.
type TaskPanic struct {
	Reason any
	stack  []byte
}

// Life is a context that ends when the actor stops or restarts.
func (s *System) Life(ctx actor.Context) context.Context {
	alive, _ := s.box(ctx.Self()).alive()
	return alive
}

func attempt(alive context.Context, f func(context.Context) any) (result any) {
	defer func() {
		if r := recover(); r != nil {
			result = TaskPanic{r, debug.Stack()}
		}
	}()
	return f(alive)
}

// Close stops the roots, the youngest first, each with all that is below it;
// waits for the tasks; and forgets the peers. Then nothing of the system runs
// any more. If ctx ends first, the error names the actors that still run, and
// Close may be called again. Not to be called from inside an actor.
func (s *System) Close(ctx context.Context) error {
	s.closeMu.Lock()
	defer s.closeMu.Unlock()
	if s.closed || s.crashed {
		return nil
	}
	s.mu.Lock()
	s.closing = true
	roots := s.roots
	s.mu.Unlock()
	for i := len(roots) - 1; i >= 0; i-- {
		s.Root.Stop(roots[i].pid)
		if err := s.awaitGone(ctx, roots[i]); err != nil {
			return words.Error(err, "close: not stopped in time: %s", strings.Join(s.Running(), ", "))
		}
	}
	if err := s.awaitIdle(ctx); err != nil {
		return words.Error(err, "close: some tasks have not ended in time")
	}
	s.remote.close()
	if s.world != nil {
		s.world.leave(s)
	}
	s.Shutdown()
	s.closed = true
	return nil
}

// Running are the IDs of the actors that have not stopped.
func (s *System) Running() (ids []string) {
	s.boxes.Range(func(id, _ any) bool {
		ids = append(ids, id.(string))
		return true
	})
	slices.Sort(ids)
	return ids
}

// gone is called when a root has stopped.
func (s *System) gone(pid *actor.PID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range s.roots {
		if r.pid.Id == pid.Id {
			close(r.gone)
			s.roots = append(s.roots[:i:i], s.roots[i+1:]...)
			return
		}
	}
}

// activity counts what runs: busy mailboxes and tasks.
type activity struct {
	n       atomic.Int64
	waiting atomic.Bool
	idle    chan struct{}
}

func (a *activity) begin() { a.n.Add(1) }

func (a *activity) end() {
	if a.n.Add(-1) == 0 && a.waiting.Load() {
		select {
		case a.idle <- struct{}{}:
		default:
		}
	}
}

// wait returns when nothing runs.
func (a *activity) wait(ctx context.Context) error {
	a.waiting.Store(true)
	for a.n.Load() != 0 {
		select {
		case <-a.idle:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Unexpected reports a message that an actor has no case for: a bug of ours, unless
// a peer sent it. It does not report the news that a message of the actor became a
// dead letter: an actor without a case for that does not care.
func Unexpected(ctx actor.Context) {
	if _, ok := ctx.Message().(*actor.DeadLetterResponse); ok {
		return
	}
	level, from := slog.LevelError, SenderPeer(ctx)
	if from != "" {
		level = slog.LevelDebug
	}
	ctx.Logger().Log(context.Background(), level, "unexpected message", "actor", ctx.Self().Id, "type", fmt.Sprintf("%T", ctx.Message()), "peer", from)
}

// atLeast drops the records below a level.
type atLeast struct {
	slog.Handler
	level slog.Level
}

func (h atLeast) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= h.level && h.Handler.Enabled(ctx, l)
}
func (h atLeast) WithAttrs(as []slog.Attr) slog.Handler {
	return atLeast{h.Handler.WithAttrs(as), h.level}
}
func (h atLeast) WithGroup(name string) slog.Handler {
	return atLeast{h.Handler.WithGroup(name), h.level}
}
