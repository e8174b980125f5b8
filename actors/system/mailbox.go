package system

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// A mailbox is the queue of one actor, and what its shell must know about it.
// The library's mailboxes may spin, crash or lose messages; this one answers at once:
//
//	queueing --Start--> idle <--> busy --Stopped--> closed
//
// It queues from before the start, so that a message to a name that is just
// being spawned waits; it refuses when full, so that no sender ever waits; and
// what it holds when the actor stops becomes dead letters, so that nothing
// vanishes. While suspended (its actor has panicked, and its supervisor decides) it
// still takes messages but hands out only the library's own.
//
// The limit bounds what local senders may queue. Two kinds of message do not
// count: those of peers, which are bounded by credit, and those whose only sender
// bounds their number (an alarm, a task, a failed child). One of these, if refused,
// would be lost for good.
type mailbox struct {
	sys    *System
	pid    *actor.PID // of the actor
	parent *actor.PID // of its parent; nil for a root
	policy RestartPolicy
	limit  int
	run    func() // process; kept so that scheduling allocates nothing
	inv    actor.MessageInvoker

	ending atomic.Bool // from Stopping or Restarting to the next Started
	done   func()      // of the letter that is being processed; nil: none, or an answer has it

	mu        sync.Mutex
	user      Queue[letter]
	system    Queue[any]
	counted   int // letters in user that count against limit
	started   bool
	busy      bool // scheduled or running
	suspended bool
	closed    bool
	life      uint32          // counts the restarts, from 1
	tasks     context.Context // ends with this life; nil until a task is started
	endTasks  context.CancelFunc
	failures  []time.Time // of the last minute, oldest first
}

var _ actor.Mailbox = (*mailbox)(nil)

// letter is one queued message.
type letter struct {
	msg     any    // plain, or a *actor.MessageEnvelope that names the sender
	done    func() // called once, when the message was processed or drained, or the Answer to it has ended; may be nil
	assured bool   // does not count against the limit
	life    uint32 // for this life of the actor only; 0 for any
}

func newMailbox(s *System, pid *actor.PID, limit int, policy RestartPolicy) *mailbox {
	m := &mailbox{sys: s, pid: pid, limit: limit, policy: policy, life: 1}
	m.run = m.process
	return m
}

// post queues a letter. It is refused when the mailbox is full or its actor has
// stopped; the letter and what it owns are then still the caller's.
func (m *mailbox) post(l letter) bool {
	m.mu.Lock()
	if m.closed || !l.assured && m.counted >= m.limit {
		m.mu.Unlock()
		return false
	}
	if !l.assured {
		m.counted++
	}
	m.user.Push(l)
	m.wake()
	return true
}

// PostUserMessage queues what protoactor's own senders send. They cannot be told of a
// refusal, so a refused message becomes a dead letter.
func (m *mailbox) PostUserMessage(msg any) {
	_, poison := msg.(*actor.PoisonPill)
	if !m.post(letter{msg: msg, assured: poison}) {
		m.sys.dead(m.pid, msg)
	}
}

// PostSystemMessage queues a message of the library itself: always taken, and
// handed out before any other.
func (m *mailbox) PostSystemMessage(msg any) {
	m.mu.Lock()
	m.system.Push(msg)
	m.wake()
}

// RegisterHandlers is called once, before Start.
func (m *mailbox) RegisterHandlers(inv actor.MessageInvoker, _ actor.Dispatcher) { m.inv = inv }

// Start ends the queueing state, in which messages only wait.
func (m *mailbox) Start() {
	m.mu.Lock()
	m.started = true
	m.wake()
}

// UserMessageCount is the number of waiting messages, without the library's own.
func (m *mailbox) UserMessageCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.user.len()
}

// wake schedules the mailbox if it has something to do and does not run yet. It
// unlocks m.mu.
func (m *mailbox) wake() {
	run := m.started && !m.busy && (m.system.len() > 0 || !m.suspended && m.user.len() > 0)
	if run {
		m.busy = true
	}
	m.mu.Unlock()
	if run {
		m.schedule()
	}
}

func (m *mailbox) schedule() {
	m.sys.active.begin()
	m.sys.disp.Schedule(m.run)
}

// process hands out messages until there are none, or as many as the dispatcher
// allows before others have their turn.
func (m *mailbox) process() {
	defer m.sys.active.end()
	turn := m.sys.disp.Throughput()
	for n := 1; m.next(); n++ {
		if n == turn {
			m.schedule()
			return
		}
	}
}

// next hands out one message. False: there is none, and the mailbox is idle.
func (m *mailbox) next() bool {
	m.mu.Lock()
	if msg, ok := m.system.Pop(); ok {
		switch msg.(type) {
		case *actor.SuspendMailbox:
			m.suspended = true
			m.mu.Unlock()
		case *actor.ResumeMailbox:
			m.suspended = false
			m.mu.Unlock()
		default:
			m.mu.Unlock()
			m.invoke(msg, m.inv.InvokeSystemMessage)
		}
		return true
	}
	if m.suspended {
		m.busy = false
		m.mu.Unlock()
		return false
	}
	l, ok := m.user.Pop()
	if !ok {
		m.busy = false
		m.mu.Unlock()
		return false
	}
	if !l.assured {
		m.counted--
	}
	stale := l.life != 0 && l.life != m.life
	m.mu.Unlock()
	m.done = l.done
	if stale {
		m.sys.dead(m.pid, l.msg)
	} else {
		m.invoke(l.msg, m.inv.InvokeUserMessage)
	}
	if done := m.done; done != nil {
		m.done = nil
		done()
	}
	return true
}

func (m *mailbox) invoke(msg any, receive func(any)) {
	defer m.recovered(msg)
	if w := m.sys.world; w != nil {
		w.delivered(m.pid, msg)
	}
	receive(msg)
}

// drain closes the mailbox and makes dead letters of what it holds.
func (m *mailbox) drain() {
	m.mu.Lock()
	m.closed = true
	rest := m.user
	m.user, m.counted = Queue[letter]{}, 0
	m.mu.Unlock()
	for l, ok := rest.Pop(); ok; l, ok = rest.Pop() {
		m.sys.dead(m.pid, l.msg)
		if l.done != nil {
			l.done()
		}
	}
}

// gone ends the life of the actor and of all names it was known by.
func (m *mailbox) gone() {
	m.end()
	m.drain()
	m.sys.boxes.CompareAndDelete(m.pid.Id, m)
	m.sys.Unexport(m.pid)
	m.sys.unwatch(m.pid)
}

// alive is the present life of the actor, and a context that ends with it.
func (m *mailbox) alive() (context.Context, uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tasks == nil {
		m.tasks, m.endTasks = context.WithCancel(context.Background())
		if m.closed || m.ending.Load() {
			m.endTasks()
		}
	}
	return m.tasks, m.life
}

// end cancels the tasks of this life.
func (m *mailbox) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.endTasks != nil {
		m.endTasks()
	}
}

// restarted begins a new life, if one has ended.
func (m *mailbox) restarted() {
	if !m.ending.Swap(false) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.life++
	m.tasks, m.endTasks = nil, nil
}

// failed notes a panic and counts those of the last minute, this one included.
func (m *mailbox) failed(now time.Time) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := 0
	for old < len(m.failures) && now.Sub(m.failures[old]) >= time.Minute {
		old++
	}
	m.failures = append(m.failures[old:], now)
	return len(m.failures)
}

// A Queue is a first-in first-out ring that grows. When it runs empty it lets the memory of a
// burst go, unless bursts like it follow each other.
type Queue[T any] struct {
	buf  []T
	head int
	n    int
	most int // the largest n since it was last empty
}

// The ring that an empty queue keeps, in elements: always, and as long as it needs a quarter
// of it each time.
const (
	keepRing  = 64
	keepBurst = 512
)

func (q *Queue[T]) len() int { return q.n }

// Push appends an element.
func (q *Queue[T]) Push(v T) {
	if q.n == len(q.buf) {
		buf := make([]T, max(8, 2*len(q.buf)))
		k := copy(buf, q.buf[q.head:])
		copy(buf[k:], q.buf[:q.head])
		q.buf, q.head = buf, 0
	}
	q.buf[(q.head+q.n)&(len(q.buf)-1)] = v
	q.n++
	q.most = max(q.most, q.n)
}

// Pop takes the oldest element; not ok: there is none.
func (q *Queue[T]) Pop() (v T, ok bool) {
	if q.n == 0 {
		return v, false
	}
	var zero T
	v = q.buf[q.head]
	q.buf[q.head] = zero
	q.head = (q.head + 1) & (len(q.buf) - 1)
	q.n--
	if q.n == 0 {
		if n := len(q.buf); n > keepRing && (n > keepBurst || n > 4*q.most) {
			q.buf, q.head = nil, 0
		}
		q.most = 0
	}
	return v, true
}

// peek is the oldest element.
func (q *Queue[T]) peek() (v T, ok bool) {
	if q.n == 0 {
		return v, false
	}
	return q.buf[q.head], true
}
