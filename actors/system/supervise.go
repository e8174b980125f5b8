package system

import (
	"fmt"
	"runtime/debug"

	"github.com/asynkron/protoactor-go/actor"
)

// A RestartPolicy says what follows a panic of an actor. An expected failure is
// a message; a panic is a bug, and this is what it costs.
//
//	                  +-- OnPanicStop -------------------> stopped
//	panic, suspended -+-- OnPanicRestart -- below 4/min -> restarted, same PID and queue
//	                                     `- else --------> stopped
//
// Both tell the parent with ChildFailed.
type RestartPolicy int // restarts in a minute

// The policies.
const (
	OnPanicStop    RestartPolicy = 0
	OnPanicRestart RestartPolicy = 3
)

// A ChildFailed says that a child panicked. Child -> parent. It waits its turn in
// the parent's queue, so *actor.Terminated may come first.
type ChildFailed struct {
	Who       *actor.PID
	Name      string // its ID
	Reason    any    // what it panicked with
	Restarted bool   // it goes on, as a new value; else it stops
}

// supervisor decides what follows a panic, by the policy of the actor that panicked.
// It counts by the runtime's clock; the library's strategies read the real one.
type supervisor struct{ s *System }

var _ actor.SupervisorStrategy = supervisor{}

func (v supervisor) HandleFailure(_ *actor.ActorSystem, parent actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	box := v.s.box(child)
	if box == nil || box.ending.Load() {
		return // it is stopping already
	}
	restart := RestartPolicy(box.failed(v.s.Now())) <= box.policy
	if restart {
		parent.RestartChildren(child)
	} else {
		v.s.log.Error("actor stopped for good after a panic", "actor", child.Id)
		parent.StopChildren(child)
	}
	if box.parent != nil {
		v.s.Assure(box.parent, ChildFailed{child, child.Id, reason, restart}, nil)
	} else {
		v.s.rootFailed(ChildFailed{child, child.Id, reason, restart})
	}
}

// guardian is the parent of all roots.
type guardian struct {
	s   *System
	pid *actor.PID
}

var (
	_ actor.Process    = (*guardian)(nil)
	_ actor.Supervisor = (*guardian)(nil)
)

// SendUserMessage: a root has no parent to talk to.
func (g *guardian) SendUserMessage(pid *actor.PID, msg any) { g.s.dead(pid, msg) }

func (g *guardian) SendSystemMessage(_ *actor.PID, msg any) {
	switch m := msg.(type) {
	case *actor.Failure:
		supervisor{g.s}.HandleFailure(g.s.ActorSystem, g, m.Who, m.RestartStats, m.Reason, m.Message)
	case *actor.Terminated:
		g.s.gone(m.Who)
	}
}

func (*guardian) Stop(*actor.PID)        {}
func (*guardian) Children() []*actor.PID { return nil }

// EscalateFailure is never reached: with nobody above, a root stops.
func (g *guardian) EscalateFailure(any, any) {}

func (g *guardian) RestartChildren(pids ...*actor.PID) { g.tell(&actor.Restart{}, pids) }
func (g *guardian) StopChildren(pids ...*actor.PID)    { g.tell(&actor.Stop{}, pids) }
func (g *guardian) ResumeChildren(pids ...*actor.PID)  { g.tell(&actor.ResumeMailbox{}, pids) }

func (g *guardian) tell(msg any, pids []*actor.PID) {
	for _, pid := range pids {
		g.s.system(pid, msg)
	}
}

// OnRootFailed sets what is told when an actor without a parent panicked. It is
// called from that actor's goroutine and must not block. Set it before the first
// spawn.
func (s *System) OnRootFailed(f func(name string, reason any, restarted bool)) { s.onRootFailed = f }

func (s *System) rootFailed(m ChildFailed) {
	if s.onRootFailed != nil {
		s.onRootFailed(m.Name, m.Reason, m.Restarted)
	}
}

// recovered ends the processing of a message. If it panicked, the panic is
// logged with its stack, whoever waits for an answer is told that there will be
// none, and the supervisor decides.
func (m *mailbox) recovered(msg any) {
	r := recover()
	if r == nil {
		return
	}
	m.panicked(r, debug.Stack(), msg)
	m.unanswered(actor.UnwrapEnvelopeSender(msg))
	m.inv.EscalateFailure(r, msg)
}

// Panicked is the message under which a panic of an actor, or of its task, is logged.
const Panicked = "actor panicked"

func (m *mailbox) panicked(reason any, stack []byte, msg any) {
	inner := actor.UnwrapEnvelopeMessage(msg)
	if t, ok := inner.(TaskPanic); ok {
		stack = t.stack
	}
	m.sys.log.Error(Panicked, "actor", m.pid.Id, "type", fmt.Sprintf("%T", inner), "reason", reason, "stack", string(stack))
}

func (m *mailbox) unanswered(asker *actor.PID) {
	if asker != nil {
		m.sys.noAnswer(asker, m.pid)
	}
}

// A shell stands between the library and an actor, and guards the end of its
// life: once that has begun a panic is logged and changes nothing, because the
// library would answer it with a restart and the actor would never end.
type shell struct {
	actor.Actor
	box *mailbox
}

func (h *shell) Receive(ctx actor.Context) {
	switch ctx.Message().(type) {
	case *actor.Started:
		h.box.restarted()
		h.Actor.Receive(ctx)
	case *actor.Stopping, *actor.Restarting:
		h.box.ending.Store(true)
		h.last(ctx)
		h.box.end()
	case *actor.Stopped:
		h.last(ctx)
		h.box.gone()
	default:
		if h.box.ending.Load() {
			h.last(ctx)
		} else {
			h.receive(ctx)
		}
	}
}

func (h *shell) receive(ctx actor.Context) {
	if t, ok := ctx.Message().(TaskPanic); ok {
		panic(t.Reason)
	}
	h.Actor.Receive(ctx)
}

func (h *shell) last(ctx actor.Context) {
	defer func() {
		if r := recover(); r != nil {
			h.box.panicked(r, debug.Stack(), ctx.Message())
			h.box.unanswered(ctx.Sender())
		}
	}()
	h.receive(ctx)
}
