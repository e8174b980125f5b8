package system

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

// An Outbox carries frames to the systems of other nodes, in order for each.
type Outbox interface {
	// Send takes a frame for a peer; the frame is the outbox's from then on. It
	// neither blocks nor calls back. False: refused, because too much is queued or
	// the peer is not connected. A frame that was taken arrives, behind those taken
	// before it, or System.Lost is called here.
	Send(to peers.ID, frame []byte) bool
}

// A Codec maps the messages that may travel to and from their wire form.
type Codec interface {
	// Encode is the wire form of a message; not ok if it may not travel.
	Encode(msg any) (typ uint32, payload []byte, ok bool)
	// Decode reads one. What it returns owns its memory. The error wraps
	// wire.ErrUnknownType when it does not know typ; any other says that the payload
	// is broken.
	Decode(typ uint32, payload []byte) (any, error)
}

// Limits on what one peer may hold here, and on what we hold for it.
const (
	creditWindow = 256     // messages of one direction sent and not yet processed
	creditBatch  = 64      // processed messages are reported in batches of this
	maxHeld      = 512     // messages of a peer that wait to be processed: those of a session, and of the one before
	maxHeldBytes = 8 << 20 // ... and their payload bytes
	maxWaiting   = 1024    // messages that wait for credit
	maxWaitBytes = 8 << 20 // ... and their bytes
	maxQuestions = 1024    // messages whose answer is awaited from one peer
	maxWatches   = 1024    // local actors' ends that one peer waits for
	retryAfter   = 50 * time.Millisecond
)

// remote is every actor of every other node, as one Process: a PID whose address
// is a peer ID leads here. Its Id is a name that the peer exported, or the token
// of an actor that the peer lets us answer ("$" and a number).
//
// A peer reaches what it was given, and nothing else: exported names, and tokens
// made for it. Tokens are one-shot where they stand for the asker of a question,
// and last until the connection is lost where [System.ExportTo] made them.
// System messages do not cross: Watch and Terminated have envelopes of their
// own, and Stop has none.
type remote struct {
	sys        *System
	self       peers.ID
	out        Outbox
	codec      Codec
	onProtocol func(peers.ID, error)
	counts     struct{ refused, unreachable, unknown, unsupported, malformed, late atomic.Int64 }

	token atomic.Uint64 // the last one made; none is made twice, so a late message fits nothing new

	mu       sync.Mutex
	shut     bool
	sessions map[peers.ID]*session
	exports  map[string]*actor.PID
}

var _ actor.Process = (*remote)(nil)

func newRemote(s *System, self peers.ID, out Outbox, c Codec) *remote {
	r := &remote{sys: s, self: self, out: out, codec: c,
		sessions: map[peers.ID]*session{}, exports: map[string]*actor.PID{}}
	// Somewhere at random, so that an answer to an earlier life of this process
	// fits no question of this one. Never near the end of the range.
	r.token.Store(s.Seed("tokens") >> 2)
	return r
}

// RemoteStats counts what went wrong between this node and others.
type RemoteStats struct {
	Refused     int64 // messages not sent or not taken: no connection, no credit and a full queue, too many bytes
	Unreachable int64 // messages of peers to actors that they may not reach
	Unknown     int64 // ... of a type not known here
	Malformed   int64 // frames that no honest peer sends
	Unsupported int64 // our messages of a type that the peer does not know
	Late        int64 // frames of connections that are gone
}

// RemoteStats is a snapshot of the counters.
func (r *remote) RemoteStats() RemoteStats {
	c := &r.counts
	return RemoteStats{c.refused.Load(), c.unreachable.Load(), c.unknown.Load(), c.malformed.Load(), c.unsupported.Load(), c.late.Load()}
}

// Self is the peer ID of this node.
func (r *remote) Self() peers.ID { return r.self }

// Remote is the actor that a peer exports under name.
func (r *remote) Remote(peer peers.ID, name string) *actor.PID {
	return actor.NewPID(string(peer), name)
}

// SenderPeer is the peer whose message an actor is handling, as its connection
// proves it; empty when the message is local.
func SenderPeer(ctx actor.Context) peers.ID {
	if from := ctx.Sender(); from != nil && from.Address != ctx.ActorSystem().Address() {
		return peers.ID(from.Address)
	}
	return ""
}

// OnProtocolError sets what is told when a peer breaks the protocol; err wraps
// peers.ErrProtocol. It is called from Deliver and must not block. Set it before
// the first frame.
func (r *remote) OnProtocolError(f func(peer peers.ID, err error)) { r.onProtocol = f }

// Unreadable takes the place of a message of a peer that cannot be read. Err wraps
// peers.ErrProtocol. An unreadable answer to a question of ours is replaced by
// *actor.DeadLetterResponse instead.
type Unreadable struct{ Err error }

// Export lets every peer reach an actor under name.
func (r *remote) Export(name string, pid *actor.PID) {
	if name == "" || len(name) > wire.MaxName || strings.HasPrefix(name, tokenMark) {
		panic(fmt.Sprintf("export %q: bad name", name))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exports[name] = pid
}

// ExportTo lets one peer reach an actor as often as it likes: the PID it sees as
// the sender of the actor's messages stays good. For subscriptions. It ends with
// [System.Unexport], or with the connection, and then the actor is told
// *actor.DeadLetterResponse.
func (r *remote) ExportTo(peer peers.ID, pid *actor.PID) {
	for !r.session(peer).bind(pid) {
	}
}

// Unexport takes back every name and token of an actor except those of questions it
// asked. It happens by itself when the actor stops.
func (r *remote) Unexport(pid *actor.PID) {
	r.mu.Lock()
	maps.DeleteFunc(r.exports, func(_ string, p *actor.PID) bool { return p.Equal(pid) })
	all := slices.Collect(maps.Values(r.sessions))
	r.mu.Unlock()
	for _, s := range all { // each on its own: the order does not matter
		s.unbind(pid)
	}
}

// unwatch ends the watches of an actor that has ended: nodes would remember it for as long as they are connected.
func (r *remote) unwatch(pid *actor.PID) {
	r.mu.Lock()
	var all []*session
	for _, id := range slices.Sorted(maps.Keys(r.sessions)) { // in one order, so that runs replay
		all = append(all, r.sessions[id])
	}
	r.mu.Unlock()
	for _, s := range all {
		s.unwatchAll(pid)
	}
}

// session returns the session with a peer, and makes it if there is none. Once the
// remote is shut it returns a session that is over.
func (r *remote) session(peer peers.ID) *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sessions[peer]
	if s == nil {
		s = newSession(r, peer)
		if s.over = r.shut; !s.over {
			r.sessions[peer] = s
		}
	}
	return s
}

// forget ends a session. The next one knows nothing of it.
func (r *remote) forget(s *session) {
	r.mu.Lock()
	if r.sessions[s.peer] == s {
		delete(r.sessions, s.peer)
	}
	r.mu.Unlock()
	s.end()
}

// replace ends a session because the peer has begun another.
func (r *remote) replace(s *session, theirs uint64) {
	r.forget(s)
	next := r.session(s.peer)
	next.mu.Lock()
	defer next.mu.Unlock()
	next.held = s.held
	if next.theirs == 0 {
		next.theirs = theirs
	}
}

// Lost says that the connection to a peer has gone, and frames with it. Actors that
// watch an actor there are sent *actor.Terminated. Actors that wait for an answer from
// there, or were exported to that peer alone, are sent *actor.DeadLetterResponse: the
// answer will not come, the export has ended. Unsent messages become dead letters.
func (r *remote) Lost(peer peers.ID) {
	r.mu.Lock()
	s := r.sessions[peer]
	r.mu.Unlock()
	if s != nil {
		r.forget(s)
	}
}

func (r *remote) close() {
	r.mu.Lock()
	r.shut = true
	all := slices.SortedFunc(maps.Values(r.sessions), func(a, b *session) int { return strings.Compare(string(a.peer), string(b.peer)) })
	r.mu.Unlock()
	for _, s := range all {
		r.forget(s)
	}
}

// ---- out ----

// SendUserMessage sends a message of a local actor; if refused it is a dead letter.
func (r *remote) SendUserMessage(to *actor.PID, message any) { r.send(to, message) }

// send encodes a message and sends it, or queues it for credit. False: refused,
// and a dead letter by now.
func (r *remote) send(to *actor.PID, message any) bool {
	_, msg, sender := actor.UnwrapEnvelope(message)
	if _, ok := msg.(*actor.DeadLetterResponse); ok {
		r.unanswered(to)
		return true
	}
	e, ok := r.envelope(to, msg)
	if ok {
		ok = r.toSession(to, func(s *session) verdict {
			return s.tell(outgoing{to: to, message: message}, e, sender)
		})
	}
	if !ok {
		r.counts.refused.Add(1)
		r.sys.dead(to, message)
	}
	return ok
}

// verdict is the outcome of an attempt on a session.
type verdict int

const (
	refused verdict = iota
	done
	over // the session has ended meanwhile: try the next one
)

// toSession calls f on the present session of a peer.
func (r *remote) toSession(to *actor.PID, f func(*session) verdict) bool {
	for {
		s := r.session(peers.ID(to.Address))
		switch f(s) {
		case done:
			return true
		case refused:
			if s.unused() {
				r.forget(s)
			}
			return false
		}
		if r.isShut() {
			return false
		}
	}
}

func (r *remote) envelope(to *actor.PID, msg any) (wire.Envelope, bool) {
	e, ok := address(to, wire.KindTell, wire.KindReply)
	if !ok {
		return e, false
	}
	e.Type, e.Payload, ok = r.codec.Encode(msg)
	return e, ok && len(e.Payload) <= wire.MaxPayload
}

const tokenMark = "$"

// tokenPID is the actor behind a token that a peer made.
func tokenPID(peer peers.ID, token uint64) *actor.PID {
	return actor.NewPID(string(peer), tokenMark+strconv.FormatUint(token, 10))
}

func tokenOf(pid *actor.PID) (token uint64, ok bool) {
	digits, ok := strings.CutPrefix(pid.Id, tokenMark)
	if !ok {
		return 0, false
	}
	token, err := strconv.ParseUint(digits, 10, 64)
	return token, err == nil
}

// address begins an envelope to a PID: of kind name if its Id is a name, of kind token
// if it is a token. Nobody is behind token 0.
func address(to *actor.PID, name, token wire.EnvelopeKind) (wire.Envelope, bool) {
	if t, ok := tokenOf(to); ok {
		return wire.Envelope{Kind: token, Token: t}, t != 0
	}
	return wire.Envelope{Kind: name, To: to.Id}, to.Id != "" && len(to.Id) <= wire.MaxName
}

// unanswered tells a peer that nobody received its question, or its subscriber's
// message.
func (r *remote) unanswered(to *actor.PID) {
	if t, ok := tokenOf(to); ok && t != 0 {
		r.toSession(to, func(s *session) verdict {
			return s.control(wire.Envelope{Kind: wire.KindTerminated, Token: t})
		})
	}
}

// SendSystemMessage lets actors watch those of other nodes, and tells other
// nodes of the end of ours. Nothing else crosses.
func (r *remote) SendSystemMessage(to *actor.PID, message any) {
	switch m := message.(type) {
	case *actor.Watch:
		if !r.toSession(to, func(s *session) verdict { return s.watch(to, m.Watcher) }) {
			r.sys.system(m.Watcher, &actor.Terminated{Who: to, Why: actor.TerminatedReason_AddressTerminated})
		}
	case *actor.Unwatch:
		r.toSession(to, func(s *session) verdict { return s.unwatch(to, m.Watcher) })
	case *actor.Terminated: // to is a watcher over there
		if t, ok := tokenOf(to); ok {
			r.toSession(to, func(s *session) verdict { return s.ended(t) })
		}
	}
}

// Stop does nothing: nobody stops an actor of another node.
func (r *remote) Stop(*actor.PID) {}

// ---- in ----

// Deliver takes a frame that a peer sent. Frames of one peer are delivered one
// at a time, in order. It does not block, and keeps nothing of frame.
func (r *remote) Deliver(from peers.ID, frame []byte) {
	var err error
	e := wire.Envelope{}
	if len(frame) > wire.MaxMessage {
		err = fmt.Errorf("a message of %d bytes, at most %d are allowed", len(frame), wire.MaxMessage)
	} else {
		e, err = wire.ParseEnvelope(frame)
	}
	for err == nil {
		var v verdict
		if v, err = r.session(from).receive(e); v != over || r.isShut() {
			break
		}
	}
	if err != nil {
		r.broken(from, err)
	}
}

func (r *remote) isShut() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.shut
}

func (r *remote) broken(peer peers.ID, err error) {
	r.counts.malformed.Add(1)
	r.sys.log.Debug("bad message", "peer", peer, "err", err)
	if r.onProtocol != nil {
		r.onProtocol(peer, breach(err))
	}
}

// breach wraps an error of a peer's message in peers.ErrProtocol.
func breach(err error) error {
	if errors.Is(err, peers.ErrProtocol) {
		return err
	}
	return fmt.Errorf("%w: %w", peers.ErrProtocol, err)
}

// Exported is the actor that [System.Export] made known by that name; nil if there is none.
func (r *remote) Exported(name string) *actor.PID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.exports[name]
}
