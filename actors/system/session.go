package system

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

// A session is all that two nodes know of each other's actors, from the first
// frame to the loss of the connection. Nothing of it outlives that: tokens,
// watches, credit and what waits end together, and what still holds a session
// that is over finds out and takes the next.
//
// The two sides may learn of a loss at different times, or only one of them, if
// the other saw the new connection before the end of the old one. So each says
// hello with its first frame: a credit envelope of 0 messages, whose token is the
// number of its session and whose reply is that of the peer's, as far as it has
// heard of one. What comes before a hello is late and dropped, so each session is
// received from its beginning or not at all. A hello of a peer that we knew by
// another session tells what became of ours: if it has heard of us since it began
// anew, ours is or will be received whole, and goes on; if it has not, ours ends
// too. And a second hello that still has not heard of us says that frames of ours
// were dropped; ours ends as well. A session that began because the other ended
// says so in its hello, so neither can make the other begin anew for ever.
//
// Credit: each side may have creditWindow messages under way to the other. One
// counts from when it is sent until it has been processed (or has become a dead
// letter) there, which is reported in batches. A sender without credit queues up
// to maxWaiting messages and then refuses. So no mailbox can be flooded over the
// network, and no actor ever waits for one. Watches, ends and credit itself take
// no credit; their number is bounded by what they are about.
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

	tokens map[uint64]ticket // made by us, for the peer
	bound  map[string]uint64 // ID of an actor exported to this peer -> its token
	asked  int               // tickets that wait for an answer

	watched map[uint64]*actor.PID // the peer's token -> our actor whose end it waits for

	credit    int // messages we may still send
	waiting   Queue[outgoing]
	waitBytes int

	unreported int // messages of the peer, received and not yet reported as processed
	processed  int // ... of these, those that are
	held       *holding

	pending Queue[wire.Envelope] // control envelopes that the outbox refused
	retry   stopper
}

// holding is what is held of a peer's messages until they are processed. It goes on
// from session to session, or a peer could have us hold more by beginning anew.
type holding struct{ messages, bytes atomic.Int64 }

func (h *holding) add(messages, bytes int) (ok bool) {
	m, b := h.messages.Add(int64(messages)), h.bytes.Add(int64(bytes))
	return m <= maxHeld && b <= maxHeldBytes
}

// ticket is whom a token stands for.
type ticket struct {
	kind    ticketKind
	to      *actor.PID // is told
	who     *actor.PID // watchTicket: whose end it is about
	session uint64     // the peer's, of the message that uses it
}

type ticketKind uint8

const (
	questionTicket ticketKind = iota // one answer
	boundTicket                      // any number of messages
	watchTicket                      // the end of who
)

// outgoing is a message on its way to a peer.
type outgoing struct {
	to       *actor.PID
	message  any // as it was sent, for the dead letter
	frame    []byte
	question uint64 // its ticket; 0 for none
}

func newSession(r *remote, peer peers.ID) *session {
	return &session{r: r, peer: peer, id: r.token.Add(1), credit: creditWindow, held: &holding{},
		tokens: map[uint64]ticket{}, bound: map[string]uint64{}, watched: map[uint64]*actor.PID{}}
}

// ticket makes a token. Called with mu.
func (s *session) ticket(t ticket) uint64 {
	token := s.r.token.Add(1)
	s.tokens[token] = t
	return token
}

// take uses a ticket up, if it is one that is. Called with mu.
func (s *session) take(token uint64) (ticket, bool) {
	t, ok := s.tokens[token]
	switch {
	case !ok:
	case t.kind == questionTicket:
		s.asked--
		delete(s.tokens, token)
	case t.kind == watchTicket:
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
		s.bound[pid.Id] = s.ticket(ticket{kind: boundTicket, to: pid})
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

// answerTo is the token under which a peer may answer a local actor: the one it
// has for good, or one for this question. Called with mu.
func (s *session) answerTo(sender *actor.PID) (token, question uint64, ok bool) {
	if token = s.bound[sender.Id]; token != 0 {
		return token, 0, true
	}
	if s.asked == maxQuestions {
		return 0, 0, false
	}
	s.asked++
	token = s.ticket(ticket{kind: questionTicket, to: sender})
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

// later has flush try again what the outbox refused. Called with mu.
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
	if s.watching(who, watcher) != 0 {
		return done
	}
	// A PID of our own: the watcher's remembers where it once led.
	e.Reply = s.ticket(ticket{kind: watchTicket, to: watcher, who: actor.NewPID(who.Address, who.Id)})
	if !s.put(wire.AppendEnvelope(nil, e)) {
		delete(s.tokens, e.Reply)
		return refused
	}
	return done
}

func (s *session) unwatch(who, watcher *actor.PID) verdict {
	e, _ := address(who, wire.KindUnwatch, wire.KindUnwatch)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Reply = s.watching(who, watcher); e.Reply == 0 {
		return refused // it is not watching, or the session is over and all its watches with it
	}
	delete(s.tokens, e.Reply)
	return s.putControl(e)
}

// watching is the token under which watcher waits for the end of who; 0 if it
// does not. There are few. Called with mu.
func (s *session) watching(who, watcher *actor.PID) uint64 {
	for token, t := range s.tokens {
		if t.kind == watchTicket && t.who.Id == who.Id && t.to.Equal(watcher) {
			return token
		}
	}
	return 0
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

// ---- in ----

// receive does what an envelope asks for. The error is of a peer that breaks
// the protocol.
func (s *session) receive(e wire.Envelope) (verdict, error) {
	s.mu.Lock()
	isOver, greeted := s.over, s.theirs != 0
	s.mu.Unlock()
	switch {
	case isOver:
		return over, nil
	case e.Kind == wire.KindCredit && e.Credit == 0:
		return s.hello(e)
	case !greeted:
		s.late()
		return done, nil
	}
	switch e.Kind {
	case wire.KindTell, wire.KindReply:
		return done, s.message(e)
	case wire.KindWatch:
		return done, s.peerWatches(e)
	case wire.KindUnwatch:
		s.peerUnwatches(e.Reply)
	case wire.KindTerminated:
		s.terminated(e.Token)
	case wire.KindUnsupported:
		s.r.counts.unsupported.Add(1)
		s.r.sys.log.Info("peer does not know a message", "peer", s.peer, "type", e.Type)
		s.terminated(e.Token)
	case wire.KindCredit:
		return done, s.credited(e)
	default:
		return done, fmt.Errorf("envelope of %v", e.Kind)
	}
	return done, nil
}

var (
	errOverCredit = errors.New("more messages than it has credit for")
	errNoTarget   = errors.New("message to nobody")
)

// message passes a message on to the actor it is for.
func (s *session) message(e wire.Envelope) error {
	if e.To == "" && e.Token == 0 {
		return errNoTarget
	}
	t, ok, err := s.accept(e)
	if err != nil {
		return err
	}
	if !ok {
		s.settled(t.session, len(e.Payload))
		s.undelivered(e.Reply)
		return nil
	}
	msg, err := s.decode(e)
	switch {
	case errors.Is(err, wire.ErrUnknownType):
		s.r.counts.unknown.Add(1)
		s.unread(t, len(e.Payload))
		s.control(wire.Envelope{Kind: wire.KindUnsupported, Type: e.Type, Token: e.Reply})
		return nil
	case err != nil && t.kind == questionTicket:
		s.unread(t, len(e.Payload))
		return err
	case err != nil:
		msg = Unreadable{breach(err)}
	}
	s.pass(t, &actor.MessageEnvelope{Message: msg, Sender: tokenPID(s.peer, e.Reply)}, len(e.Payload))
	return err
}

// unread ends a message that nobody receives. If it was an answer, none will come.
func (s *session) unread(t ticket, size int) {
	s.settled(t.session, size)
	if t.kind == questionTicket {
		s.fails(t, 0)
	}
}

// accept counts a message against the peer's credit and finds whom it is for.
// Not ok: nobody the peer may reach, or there is no room for it.
func (s *session) accept(e wire.Envelope) (t ticket, ok bool, err error) {
	t = ticket{kind: boundTicket}
	if e.To != "" {
		t.to = s.r.Exported(e.To)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unreported >= creditWindow {
		return t, false, errOverCredit
	}
	t.session = s.theirs
	s.unreported++
	if !s.held.add(1, len(e.Payload)) {
		s.r.counts.refused.Add(1)
		return t, false, nil
	}
	if e.To == "" && s.tokens[e.Token].kind != watchTicket {
		t, _ = s.take(e.Token)
		t.session = s.theirs
	}
	if t.to == nil {
		s.r.counts.unreachable.Add(1)
	}
	return t, t.to != nil, nil
}

// decode reads a payload. A codec that could make messages of the library would
// let peers stop our actors.
func (s *session) decode(e wire.Envelope) (any, error) {
	msg, err := s.r.codec.Decode(e.Type, e.Payload)
	if err != nil {
		return nil, err
	}
	switch msg.(type) {
	case actor.SystemMessage, actor.AutoReceiveMessage, actor.MailboxMessage, *actor.MessageEnvelope, *actor.DeadLetterResponse:
		return nil, fmt.Errorf("%T does not travel", msg)
	}
	return msg, nil
}

// pass queues a message for a local actor. Credit bounds its number, so a full
// mailbox takes it.
func (s *session) pass(t ticket, env *actor.MessageEnvelope, size int) {
	settled := func() { s.settled(t.session, size) }
	if !s.r.sys.deliver(t.to, letter{msg: env, done: settled, assured: true}) {
		settled()
	}
}

// settled notes that a message of a session of the peer has been processed, or
// never will be.
func (s *session) settled(theirs uint64, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held.add(-1, -size)
	if s.over || s.theirs != theirs {
		return
	}
	s.processed++
	s.report()
}

// Undelivered tells the peer that nobody received a message it wants an answer to.
func (s *session) undelivered(reply uint64) {
	if reply != 0 {
		s.control(wire.Envelope{Kind: wire.KindTerminated, Token: reply})
	}
}

// late drops a frame of a session that was not heard of. The peer may think that
// it was, so it is told, once.
func (s *session) late() {
	s.r.counts.late.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.repeated && s.theirs == 0 {
		s.repeated = s.put(s.creditFrame(0))
	}
}

// hello is told of the session that the peer has with us, and of the one of ours
// that it knows.
func (s *session) hello(e wire.Envelope) (verdict, error) {
	if e.Token == 0 {
		return done, errors.New("session 0")
	}
	s.mu.Lock()
	known := s.theirs == e.Token
	adopt := !known && (s.theirs == 0 || e.Reply != 0)
	if adopt {
		s.theirs = e.Token
		s.unreported, s.processed = 0, 0
	}
	begin := !adopt && (!known || e.Reply == 0 && s.greeted)
	s.mu.Unlock()
	if begin {
		s.r.replace(s, e.Token)
	}
	return done, nil
}

func (s *session) credited(e wire.Envelope) error {
	n := int(e.Credit)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Token != s.theirs || e.Reply != s.id {
		s.r.counts.late.Add(1)
		return nil
	}
	if s.credit+n > creditWindow {
		return fmt.Errorf("credit for %d messages that were not sent", s.credit+n-creditWindow)
	}
	s.credit += n
	s.pump()
	return nil
}

func (s *session) peerWatches(e wire.Envelope) error {
	if e.Reply == 0 {
		return errNoTarget
	}
	var who *actor.PID
	if e.To != "" {
		who = s.r.Exported(e.To)
	}
	s.mu.Lock()
	if t, ok := s.tokens[e.Token]; ok && t.kind == boundTicket {
		who = t.to
	}
	_, again := s.watched[e.Reply]
	switch {
	case again || len(s.watched) == maxWatches:
		s.mu.Unlock()
		return errors.New("too many watches")
	case who == nil:
		s.putControl(wire.Envelope{Kind: wire.KindTerminated, Token: e.Reply})
	default:
		s.watched[e.Reply] = who
	}
	s.mu.Unlock()
	if who != nil {
		s.r.sys.system(who, &actor.Watch{Watcher: tokenPID(s.peer, e.Reply)})
	}
	return nil
}

func (s *session) peerUnwatches(token uint64) {
	s.mu.Lock()
	who := s.watched[token]
	delete(s.watched, token)
	s.mu.Unlock()
	if who != nil {
		s.r.sys.system(who, &actor.Unwatch{Watcher: tokenPID(s.peer, token)})
	}
}

// terminated is told that who was watched has ended, or that a message with a
// token was received by nobody.
func (s *session) terminated(token uint64) {
	s.mu.Lock()
	t, ok := s.take(token)
	s.mu.Unlock()
	if ok {
		s.fails(t, actor.TerminatedReason_Stopped)
	}
}

// fails tells whom a ticket stands for that nothing more will come of it.
func (s *session) fails(t ticket, why actor.TerminatedReason) {
	if t.kind == watchTicket {
		s.r.sys.system(t.to, &actor.Terminated{Who: t.who, Why: why})
	} else {
		s.r.sys.noAnswer(t.to, nil)
	}
}

// end tells everybody who waits for the peer, in the order in which they began
// to.
func (s *session) end() {
	s.mu.Lock()
	if s.over {
		s.mu.Unlock()
		return
	}
	s.over = true
	if s.retry != nil {
		s.retry.Stop()
	}
	waiting, tokens, watched := s.waiting, s.tokens, s.watched
	s.waiting, s.pending, s.tokens, s.watched, s.bound = Queue[outgoing]{}, Queue[wire.Envelope]{}, nil, nil, nil
	s.mu.Unlock()

	for o, ok := waiting.Pop(); ok; o, ok = waiting.Pop() {
		delete(tokens, o.question) // the dead letter tells the asker
		s.r.sys.dead(o.to, o.message)
	}
	for _, token := range slices.Sorted(maps.Keys(tokens)) {
		s.fails(tokens[token], actor.TerminatedReason_AddressTerminated)
	}
	for _, token := range slices.Sorted(maps.Keys(watched)) {
		s.r.sys.system(watched[token], &actor.Unwatch{Watcher: tokenPID(s.peer, token)})
	}
}
