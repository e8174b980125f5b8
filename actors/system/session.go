package system

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

// A session is all that two nodes know of each other's actors, from the first
// frame to the loss of the connection. Nothing of it outlives that: tokens,
// watches, credit and waiting messages end together, and whatever still holds a
// session that is over notices and takes the next.
//
// The two sides may learn of a loss at different times, or only one of them, if
// the other saw the new connection before the end of the old one. So each says
// hello with its first frame: a credit envelope of 0 messages, whose token is the
// number of its session and whose reply is the number of the peer's session, if it
// has heard of one. What comes before a hello is late and dropped, so each session is
// received from its beginning or not at all. When a peer that we knew by another
// session says hello, that tells us about ours: if the peer has heard of us since it
// began anew, ours is or will be received whole, and goes on; if it has not, ours ends
// too. A second hello that still has not heard of us means that frames of ours were
// dropped; then ours ends as well. A session that began because the other ended
// says so in its hello, so neither can make the other begin anew for ever.
//
// Credit: each side may have creditWindow messages under way to the other. A message
// counts from when it is sent until it has been processed there (or has become a dead
// letter), which is reported in batches. A sender without credit queues up to
// maxWaiting messages and then refuses. So no mailbox can be flooded over the
// network, and no actor ever waits for one. Watches, ends and credit itself take no
// credit; their number is bounded by what they are about.
//
// No lock is held while actors are told anything, and the outbox does not block.
type session struct {
	r    *remote
	peer peers.ID

	id uint64 // made like a token

	mu       sync.Mutex
	over     bool
	greeted  bool   // hello was sent
	repeated bool   // ... and again, because frames came without one
	theirs   uint64 // the peer's session; 0 until its hello

	tokens map[uint64]recipient // made by us, for the peer
	bound  map[string]uint64    // ID of an actor exported to this peer -> its token
	asked  int                  // questions that wait for an answer

	watched map[uint64]*actor.PID // the peer's token -> our actor whose end it waits for

	credit    int // messages we may still send
	waiting   Queue[outgoing]
	waitBytes int

	unreported int // messages of the peer, received and not yet reported as processed
	processed  int // ... and how many of these have been processed
	held       *holding

	pending Queue[wire.Envelope] // control envelopes that the outbox refused
	retry   stopper
}

// holding counts a peer's messages that are held until they are processed. It goes on
// from session to session; otherwise a peer could make us hold more by beginning anew.
type holding struct{ messages, bytes atomic.Int64 }

func (h *holding) add(messages, bytes int) (ok bool) {
	m, b := h.messages.Add(int64(messages)), h.bytes.Add(int64(bytes))
	return m <= maxHeld && b <= maxHeldBytes
}

// recipient is what a token stands for.
type recipient struct {
	kind     tokenKind
	to       *actor.PID   // the actor that is told
	who      *actor.PID   // watchToken: the actor that is watched
	watchers []*actor.PID // ... and all that are told
	unasked  bool         // ... the peer was not asked, because it waits for too many ends: its connection's stands for that one
	session  uint64       // the peer's, of the message that uses it
}

type tokenKind uint8

const (
	questionToken tokenKind = iota // one answer
	boundToken                     // any number of messages
	watchToken                     // the end of who
)

// outgoing is a message on its way to a peer.
type outgoing struct {
	to       *actor.PID
	message  any // as it was sent, for the dead letter
	frame    []byte
	question uint64 // its token; 0 for none
}

func newSession(r *remote, peer peers.ID) *session {
	return &session{r: r, peer: peer, id: r.token.Add(1), credit: creditWindow, held: &holding{},
		tokens: map[uint64]recipient{}, bound: map[string]uint64{}, watched: map[uint64]*actor.PID{}}
}

// token makes a token. Called with mu.
func (s *session) token(t recipient) uint64 {
	token := s.r.token.Add(1)
	s.tokens[token] = t
	return token
}

// take looks a token up, and uses it up if it is of a kind that is. Called with mu.
func (s *session) take(token uint64) (recipient, bool) {
	t, ok := s.tokens[token]
	switch {
	case !ok:
	case t.kind == questionToken:
		s.asked--
		delete(s.tokens, token)
	case t.kind == watchToken:
		delete(s.tokens, token)
	}
	return t, ok
}

func (s *session) bind(pid *actor.PID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return s.r.isShut()
	}
	if s.bound[pid.Id] == 0 {
		s.bound[pid.Id] = s.token(recipient{kind: boundToken, to: pid})
	}
	return true
}

func (s *session) unbind(pid *actor.PID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tokens, s.bound[pid.Id])
	delete(s.bound, pid.Id)
}

// unused says that nothing would be lost with the session.
func (s *session) unused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.connected() && len(s.tokens) == 0
}

// ---- out ----

// connected says that a frame has passed, either way. Called with mu.
func (s *session) connected() bool { return s.greeted || s.theirs != 0 }

// put hands a frame to the outbox, behind a hello. Called with mu.
func (s *session) put(frame []byte) bool {
	if !s.greeted {
		s.greeted = s.r.out.Send(s.peer, s.creditFrame(0))
	}
	return s.greeted && s.r.out.Send(s.peer, frame)
}

// creditFrame is the frame that gives credit for n messages; for 0 it is a hello.
// It names both sessions, so that credit counts only where it was earned. Called
// with mu.
func (s *session) creditFrame(n int) []byte {
	return wire.AppendEnvelope(nil, wire.Envelope{Kind: wire.KindCredit, Token: s.id, Reply: s.theirs, Credit: uint32(n)})
}

// tell sends a message, or queues it for credit.
func (s *session) tell(o outgoing, e wire.Envelope, sender *actor.PID) verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return over
	}
	if sender != nil {
		var ok bool
		if e.Reply, o.question, ok = s.answerTo(sender); !ok {
			return refused
		}
	}
	o.frame = wire.AppendEnvelope(nil, e)
	if !s.enqueue(o) {
		s.take(o.question)
		return refused
	}
	return done
}

// answerTo returns the token under which a peer may answer a local actor: its
// permanent one, or one for this question. Called with mu.
func (s *session) answerTo(sender *actor.PID) (token, question uint64, ok bool) {
	if token = s.bound[sender.Id]; token != 0 {
		return token, 0, true
	}
	if s.asked == maxQuestions {
		return 0, 0, false
	}
	s.asked++
	token = s.token(recipient{kind: questionToken, to: sender})
	return token, token, true
}

// enqueue sends now or, without credit, later. Called with mu.
func (s *session) enqueue(o outgoing) bool {
	if s.waiting.len() == 0 && s.credit > 0 {
		if !s.put(o.frame) {
			return false
		}
		s.credit--
		return true
	}
	if s.waiting.len() == maxWaiting || s.waitBytes+len(o.frame) > maxWaitBytes {
		return false
	}
	s.waiting.Push(o)
	s.waitBytes += len(o.frame)
	return true
}

// control sends an envelope that takes no credit. One that the outbox of a
// connected peer refuses is sent later: its number is bounded by what it is
// about, and losing it would leave the peer waiting.
func (s *session) control(e wire.Envelope) verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return over
	}
	return s.putControl(e)
}

// putControl is control. Called with mu.
func (s *session) putControl(e wire.Envelope) verdict {
	switch {
	case s.pending.len() == 0 && s.put(wire.AppendEnvelope(nil, e)):
	case s.connected() && s.pending.len() < maxQuestions+maxWatches:
		s.pending.Push(e)
		s.later()
	default:
		return refused
	}
	return done
}

// report gives credit back when there is a batch of it. Called with mu.
func (s *session) report() {
	if s.processed < creditBatch {
		return
	}
	if s.pending.len() > 0 || !s.put(s.creditFrame(s.processed)) {
		s.later()
		return
	}
	s.unreported -= s.processed
	s.processed = 0
}

// pump sends what has waited for credit. Called with mu.
func (s *session) pump() {
	for s.credit > 0 {
		o, ok := s.waiting.peek()
		if !ok {
			return
		}
		if !s.put(o.frame) {
			s.later()
			return
		}
		s.waiting.Pop()
		s.waitBytes -= len(o.frame)
		s.credit--
	}
}

// later makes flush retry what the outbox refused. Called with mu.
func (s *session) later() {
	if s.retry == nil {
		s.retry = s.r.sys.after(s.r.sys, retryAfter, s.flush)
	}
}

func (s *session) flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.retry = nil
	if s.over {
		return
	}
	for e, ok := s.pending.peek(); ok; e, ok = s.pending.peek() {
		if !s.put(wire.AppendEnvelope(nil, e)) {
			s.later()
			return
		}
		s.pending.Pop()
	}
	s.report()
	s.pump()
}

func (s *session) watch(who, watcher *actor.PID) verdict {
	e, ok := address(who, wire.KindWatch, wire.KindWatch)
	if !ok {
		return refused
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return over
	}
	token, asked := s.watching(who)
	if token == 0 {
		// A PID of our own: the watcher's remembers where it once led.
		token = s.token(recipient{kind: watchToken, who: actor.NewPID(who.Address, who.Id), unasked: asked >= maxWatches})
		if e.Reply = token; asked < maxWatches && !s.put(wire.AppendEnvelope(nil, e)) {
			delete(s.tokens, token)
			return refused
		}
	}
	if t := s.tokens[token]; !slices.ContainsFunc(t.watchers, watcher.Equal) {
		t.watchers = append(t.watchers, watcher)
		s.tokens[token] = t
	}
	return done
}

func (s *session) unwatch(who, watcher *actor.PID) verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	token, _ := s.watching(who)
	if token == 0 {
		return refused // it is not watching, or the session is over and all its watches with it
	}
	return s.leave(token, watcher)
}

// unwatchAll ends all watches of an actor.
func (s *session) unwatchAll(watcher *actor.PID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var tokens []uint64
	for token, t := range s.tokens {
		if slices.ContainsFunc(t.watchers, watcher.Equal) {
			tokens = append(tokens, token)
		}
	}
	slices.Sort(tokens)
	for _, token := range tokens {
		s.leave(token, watcher)
	}
}

// leave ends the watch of one actor; with the last, the peer need not tell of the end any more. Called with mu.
func (s *session) leave(token uint64, watcher *actor.PID) verdict {
	t := s.tokens[token]
	if t.watchers = slices.DeleteFunc(t.watchers, watcher.Equal); len(t.watchers) > 0 {
		s.tokens[token] = t
		return done
	}
	delete(s.tokens, token)
	if t.unasked {
		return done
	}
	e, _ := address(t.who, wire.KindUnwatch, wire.KindUnwatch)
	e.Reply = token
	return s.putControl(e)
}

// watching is the token under which this node waits for the end of an actor, for all of its actors that do; 0 if none
// does. asked is how many ends the peer was asked to tell. There are few. Called with mu.
func (s *session) watching(who *actor.PID) (token uint64, asked int) {
	for k, t := range s.tokens {
		if t.kind == watchToken && t.who.Id == who.Id {
			token = k
		}
		if t.kind == watchToken && !t.unasked {
			asked++
		}
	}
	return token, asked
}

// ended tells the peer of the end of an actor that it watches.
func (s *session) ended(token uint64) verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watched[token] == nil {
		return refused // it no longer watches, or the session is over
	}
	delete(s.watched, token)
	return s.putControl(wire.Envelope{Kind: wire.KindTerminated, Token: token})
}
