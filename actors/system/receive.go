package system

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/wire"
)

// receive does what an envelope asks for. An error means that the peer broke the
// protocol.
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
		s.r.sys.log.Info("a peer does not know this kind of message", "peer", s.peer, "type", e.Type)
		s.terminated(e.Token)
	case wire.KindCredit:
		return done, s.credited(e)
	default:
		return done, fmt.Errorf("a message of an unknown kind, %d", e.Kind)
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
	case err != nil && t.kind == questionToken:
		s.unread(t, len(e.Payload))
		return err
	case err != nil:
		msg = Unreadable{breach(err)}
	}
	s.pass(t, &actor.MessageEnvelope{Message: msg, Sender: tokenPID(s.peer, e.Reply)}, len(e.Payload))
	return err
}

// unread ends a message that nobody receives. If it was an answer, none will come.
func (s *session) unread(t recipient, size int) {
	s.settled(t.session, size)
	if t.kind == questionToken {
		s.fails(t, 0)
	}
}

// accept counts a message against the peer's credit and finds its recipient.
// Not ok: the peer may not reach it, or there is no room for the message.
func (s *session) accept(e wire.Envelope) (t recipient, ok bool, err error) {
	t = recipient{kind: boundToken}
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
	if e.To == "" && s.tokens[e.Token].kind != watchToken {
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
		return nil, fmt.Errorf("a message of a type that no peer may send: %T", msg)
	}
	return msg, nil
}

// pass queues a message for a local actor. Credit bounds its number, so a full
// mailbox takes it.
func (s *session) pass(t recipient, env *actor.MessageEnvelope, size int) {
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

// late drops a frame of a session that is not known here. The peer may think that it
// is, so it is told, once. If no hello was said before, put says two: the peer may take the
// first for one that crossed its own, which was lost here, and only the second ends that session.
func (s *session) late() {
	s.r.counts.late.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.repeated && s.theirs == 0 {
		s.repeated = s.put(s.creditFrame(0))
	}
}

// hello handles the peer's message about its session with us, and about the session of
// ours that it knows.
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
	if t, ok := s.tokens[e.Token]; ok && t.kind == boundToken {
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

// terminated handles news that a watched actor has ended, or that nobody received a
// message with a token.
func (s *session) terminated(token uint64) {
	s.mu.Lock()
	t, ok := s.take(token)
	s.mu.Unlock()
	if ok {
		s.fails(t, actor.TerminatedReason_Stopped)
	}
}

// fails tells the actor behind a token that nothing more will come of it.
func (s *session) fails(t recipient, why actor.TerminatedReason) {
	if t.kind == watchToken {
		for _, to := range t.watchers {
			s.r.sys.system(to, &actor.Terminated{Who: actor.NewPID(t.who.Address, t.who.Id), Why: why})
		}
	} else {
		s.r.sys.noAnswer(t.to, nil)
	}
}

// end tells everybody who waits for the peer, in the order in which they began to
// wait.
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
