package system

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

// tap is an outbox that keeps what is sent, byte for byte.
type tap struct {
	mu     sync.Mutex
	refuse bool
	got    []wire.Envelope
}

func (p *tap) Send(_ peers.ID, frame []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse {
		return false
	}
	e, err := wire.ParseEnvelope(frame)
	if err != nil || len(frame) > wire.MaxMessage {
		panic(fmt.Sprintf("sent a bad frame of %d bytes: %v", len(frame), err))
	}
	p.got = append(p.got, e)
	return true
}

// take returns what was sent since the last take, without hellos.
func (p *tap) take() []wire.Envelope {
	p.mu.Lock()
	defer p.mu.Unlock()
	got := slices.DeleteFunc(p.got, func(e wire.Envelope) bool { return e.Kind == wire.KindCredit && e.Credit == 0 })
	p.got = nil
	return got
}

// lab is one node in a world; the test plays its peers.
type lab struct {
	*System
	t      testing.TB
	w      *World
	out    *tap
	log    *rig.Errors
	broken []error
	known  map[peers.ID]bool // has said hello
}

// theirSession is the number of the session of every peer that the test plays.
const theirSession = 1 << 40

var hello = wire.Envelope{Kind: wire.KindCredit, Token: theirSession}

// credit gives n messages of credit from the peer.
func (l *lab) credit(n uint32) wire.Envelope {
	return wire.Envelope{Kind: wire.KindCredit, Token: theirSession, Reply: l.session("peer").id, Credit: n}
}

func newLab(t testing.TB) *lab {
	l := &lab{t: t, w: NewWorld(1), out: &tap{}, log: &rig.Errors{}, known: map[peers.ID]bool{}}
	l.System = NewSystem(l.w.Runtime("self"), "self", l.out, testCodec{})
	l.OnProtocolError(func(_ peers.ID, err error) {
		if !errors.Is(err, peers.ErrProtocol) {
			t.Errorf("%v wraps no ErrProtocol", err)
		}
		l.broken = append(l.broken, err)
	})
	t.Cleanup(func() { closeNode(t, l.System); l.log.None(t) })
	return l
}

// greet sends hello from a peer that has not yet said it.
func (l *lab) greet(peer peers.ID) {
	if !l.known[peer] {
		l.known[peer] = true
		l.Deliver(peer, wire.AppendEnvelope(nil, hello))
	}
}

// from delivers envelopes from a peer and runs all that follows.
func (l *lab) from(peer peers.ID, es ...wire.Envelope) {
	l.greet(peer)
	for _, e := range es {
		l.Deliver(peer, wire.AppendEnvelope(nil, e))
	}
	l.w.Settle()
}

func (l *lab) sent(want ...wire.Envelope) {
	l.t.Helper()
	got := l.out.take()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		l.t.Errorf("sent %+v, want %+v", got, want)
	}
}

// keeper is an actor that keeps the messages it is sent, with their senders.
type keeper struct {
	got  []any
	from []*actor.PID
	do   func(actor.Context)
}

func (k *keeper) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Terminated:
		k.got = append(k.got, m.Why)
	case actor.SystemMessage, actor.AutoReceiveMessage:
	case func(actor.Context):
		m(ctx)
	default:
		k.got = append(k.got, m)
		k.from = append(k.from, ctx.Sender())
	}
	if k.do != nil {
		k.do(ctx)
	}
}

func (l *lab) keeper(name string) (*keeper, *actor.PID) {
	k := &keeper{}
	pid := l.Spawn(nil, name, 10, func() actor.Actor { return k }, OnPanicStop)
	l.w.Settle()
	return k, pid
}

// do runs f inside an actor.
func (l *lab) do(pid *actor.PID, f func(actor.Context)) {
	l.Send(pid, f)
	l.w.Settle()
}

func tellTo(name string, n uint32, reply uint64) wire.Envelope {
	return wire.Envelope{Kind: wire.KindTell, To: name, Reply: reply, Type: typePing, Payload: []byte{0, 0, 0, byte(n)}}
}

func replyTo(token uint64, n uint32) wire.Envelope {
	return wire.Envelope{Kind: wire.KindReply, Token: token, Type: typePong, Payload: []byte{0, 0, 0, byte(n)}}
}

var endOf = func(token uint64) wire.Envelope {
	return wire.Envelope{Kind: wire.KindTerminated, Token: token}
}

// A peer knows the names of our actors, and has tokens of other peers: neither helps.
func TestPeerReachesOnlyWhatItWasGiven(t *testing.T) {
	l := newLab(t)
	secret, _ := l.keeper("secret")
	open, openPID := l.keeper("open")
	l.Export("public", openPID)
	mine, minePID := l.keeper("mine")
	l.ExportTo("friend", minePID)
	l.do(minePID, func(ctx actor.Context) { ctx.Request(l.Remote("friend", "x"), ping{}) })
	bound := l.out.take()[0].Reply
	asker, askerPID := l.keeper("asker")
	l.do(askerPID, func(ctx actor.Context) { ctx.Request(l.Remote("friend", "x"), ping{}) })
	question := l.out.take()[0].Reply

	for _, name := range []string{"secret", "open", "mine", "top", "deadletter", "eventstream", "asker", "$1", "self/secret"} {
		l.from("stranger", tellTo(name, 1, 7))
		l.sent(endOf(7))
	}
	for token := range uint64(20) {
		l.from("stranger", wire.Envelope{Kind: wire.KindTell, Token: bound - 10 + token, Reply: 8, Type: typePing, Payload: make([]byte, 4)})
		l.sent(endOf(8))
		l.from("stranger", replyTo(question-10+token, 1))
		l.sent()
	}
	for _, k := range []*keeper{secret, open, mine, asker} {
		if len(k.got) > 0 {
			t.Errorf("something was reached: %v", k.got)
		}
	}
	if got := l.RemoteStats().Unreachable; got != 9+40 {
		t.Errorf("%d unreachable", got)
	}
	l.from("stranger", tellTo("public", 1, 0))
	l.from("friend", replyTo(bound, 2), replyTo(bound, 3), replyTo(question, 4), replyTo(question, 5))
	for _, c := range []struct {
		k    *keeper
		want string
	}{{open, "[{1 []}]"}, {mine, "[{2} {3}]"}, {asker, "[{4}]"}} {
		if got := fmt.Sprint(c.k.got); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
	l.Unexport(openPID)
	l.Unexport(minePID)
	l.from("stranger", tellTo("public", 1, 0))
	l.from("friend", replyTo(bound, 2))
	if len(open.got) != 1 || len(mine.got) != 2 {
		t.Error("reached after Unexport")
	}
}

func TestExportsEndWithTheirActor(t *testing.T) {
	l := newLab(t)
	_, pid := l.keeper("x")
	l.Export("x", pid)
	l.ExportTo("peer", pid)
	l.Root.Stop(pid)
	l.w.Settle()
	if l.Exported("x") != nil || len(l.session("peer").tokens) > 0 {
		t.Error("still exported")
	}
	l.from("peer", tellTo("x", 1, 5))
	l.sent(endOf(5))
}

func TestSenderIsWhoTheConnectionSays(t *testing.T) {
	l := newLab(t)
	k, pid := l.keeper("x")
	var who []peers.ID
	k.do = func(ctx actor.Context) {
		if _, ok := ctx.Message().(ping); ok {
			who = append(who, SenderPeer(ctx))
			ctx.Respond(pong{9})
		}
	}
	l.Export("x", pid)
	l.from("p1", tellTo("x", 1, 17))
	l.sent(replyTo(17, 9))
	l.from("p2", tellTo("x", 2, 0)) // wants no answer, and gets none
	l.sent()
	l.do(pid, func(ctx actor.Context) { ctx.Request(ctx.Self(), ping{}) })
	if !slices.Equal(who, []peers.ID{"p1", "p2", ""}) {
		t.Errorf("senders %q", who)
	}
	if l.DeadLetters() != 1 {
		t.Errorf("%d dead letters, want the one answer that nobody wants", l.DeadLetters())
	}
}

// The library's own messages stop actors. None crosses, whatever the codec does.
func TestSystemMessagesDoNotCross(t *testing.T) {
	l := newLab(t)
	_, pid := l.keeper("x")
	far := l.Remote("peer", "theirs")
	l.do(pid, func(ctx actor.Context) {
		ctx.Stop(far)
		ctx.Poison(far)
		l.system(far, &actor.Stop{})
		l.system(far, &actor.Restart{})
		l.system(far, &actor.SuspendMailbox{})
		ctx.Send(far, &actor.PoisonPill{})
		ctx.Send(far, &actor.Stop{})
		ctx.Send(far, &actor.MessageEnvelope{Message: &actor.Restart{}})
	})
	l.sent()
	evil := NewSystem(l.w.Runtime("evil"), "evil", l.w.Outbox("evil"), evilCodec{})
	defer closeNode(t, evil)
	var broken int
	evil.OnProtocolError(func(peers.ID, error) { broken++ })
	k := &keeper{}
	evil.Export("x", evil.Spawn(nil, "x", 10, func() actor.Actor { return k }, OnPanicStop))
	evil.Deliver("peer", wire.AppendEnvelope(nil, hello))
	for typ := range uint32(len(evilMessages)) {
		evil.Deliver("peer", wire.AppendEnvelope(nil, wire.Envelope{Kind: wire.KindTell, To: "x", Type: typ + 1}))
	}
	l.w.Settle()
	crossed := func(m any) bool { _, no := m.(Unreadable); return !no }
	if slices.ContainsFunc(k.got, crossed) || broken != len(evilMessages) || !evil.Send(evil.NewLocalPID("x"), ping{}) {
		t.Errorf("got %v, %d refused", k.got, broken)
	}
	l.w.Settle()
}

var evilMessages = []any{&actor.Stop{}, &actor.PoisonPill{}, &actor.Restart{}, &actor.SuspendMailbox{}, &actor.Watch{}, &actor.Terminated{},
	&actor.Stopping{}, &actor.Started{}, &actor.MessageEnvelope{Message: &actor.Stop{}}, &actor.DeadLetterResponse{}}

type evilCodec struct{ testCodec }

func (evilCodec) Decode(typ uint32, _ []byte) (any, error) { return evilMessages[typ-1], nil }

func TestUnknownTypeIsCountedAnsweredAndForgiven(t *testing.T) {
	l := newLab(t)
	k, pid := l.keeper("x")
	l.Export("x", pid)
	odd := wire.Envelope{Kind: wire.KindTell, To: "x", Reply: 3, Type: 999}
	l.from("peer", odd, tellTo("x", 1, 0))
	l.sent(wire.Envelope{Kind: wire.KindUnsupported, Type: 999, Token: 3})
	if len(k.got) != 1 || l.RemoteStats().Unknown != 1 || len(l.broken) > 0 {
		t.Errorf("got %v, stats %+v, broken %v", k.got, l.RemoteStats(), l.broken)
	}
	// At the other end the asker is told.
	l.do(pid, func(ctx actor.Context) { ctx.Request(l.Remote("peer", "y"), later{}) })
	token := l.out.take()[0].Reply
	l.from("peer", wire.Envelope{Kind: wire.KindUnsupported, Type: typeLater, Token: token})
	if _, ok := k.got[1].(*actor.DeadLetterResponse); !ok || l.RemoteStats().Unsupported != 1 {
		t.Errorf("got %v, stats %+v", k.got, l.RemoteStats())
	}
	// An answer of an unknown type is not an answer.
	l.do(pid, func(ctx actor.Context) { ctx.Request(l.Remote("peer", "y"), ping{}) })
	token = l.out.take()[0].Reply
	l.from("peer", wire.Envelope{Kind: wire.KindReply, Token: token, Type: 999})
	if len(k.got) != 3 {
		t.Errorf("got %v", k.got)
	}
}

func TestWhatNoHonestPeerSends(t *testing.T) {
	good := wire.AppendEnvelope(nil, tellTo("x", 1, 0))
	for name, frames := range map[string][][]byte{
		"nothing":                 {nil},
		"garbage":                 {[]byte("garbage")},
		"cut":                     {good[:len(good)-3]},
		"over the cap":            {make([]byte, wire.MaxMessage+1)},
		"broken payload":          {wire.AppendEnvelope(nil, wire.Envelope{Kind: wire.KindTell, To: "x", Type: typePing, Payload: []byte{1}})},
		"to nobody":               {wire.AppendEnvelope(nil, wire.Envelope{Kind: wire.KindTell, Type: typePing, Payload: make([]byte, 4)})},
		"a watch without a token": {wire.AppendEnvelope(nil, wire.Envelope{Kind: wire.KindWatch, To: "x"})},
		"one token for two watches": {
			wire.AppendEnvelope(nil, wire.Envelope{Kind: wire.KindWatch, To: "x", Reply: 5}),
			wire.AppendEnvelope(nil, wire.Envelope{Kind: wire.KindWatch, To: "x", Reply: 5})},
		"a session without a number": {wire.AppendEnvelope(nil, wire.Envelope{Kind: wire.KindCredit})},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			k, pid := l.keeper("x")
			l.Export("x", pid)
			l.greet("peer")
			for _, f := range frames {
				l.Deliver("peer", f)
			}
			l.w.Settle()
			if name == "broken payload" && len(k.got) == 1 {
				if u, ok := k.got[0].(Unreadable); !ok || !errors.Is(u.Err, peers.ErrProtocol) {
					t.Errorf("got %v, which does not mention it", k.got)
				}
				k.got = nil
			} else if name == "broken payload" {
				t.Errorf("whom it was for got %v", k.got)
			}
			if len(l.broken) != 1 || l.RemoteStats().Malformed != 1 || len(k.got) > 0 {
				t.Errorf("broken %v, got %v", l.broken, k.got)
			}
			l.from("peer", tellTo("x", 2, 0)) // whether the link ends is not for us to decide
			if len(k.got) != 1 {
				t.Error("nothing gets through any more")
			}
		})
	}
}

func TestCreditForNothingIsRefused(t *testing.T) {
	l := newLab(t)
	l.greet("peer")
	l.from("peer", l.credit(1), l.credit(1<<32-1))
	if len(l.broken) != 2 || l.session("peer").credit != creditWindow {
		t.Errorf("broken %v, credit %d", l.broken, l.session("peer").credit)
	}
}

func TestTooLargeMessageIsRefused(t *testing.T) {
	l := newLab(t)
	k, pid := l.keeper("x")
	send := func(n int) {
		l.do(pid, func(ctx actor.Context) { ctx.Request(l.Remote("peer", "y"), ping{Pad: make([]byte, n)}) })
	}
	send(wire.MaxPayload - 4)
	if got := l.out.take(); len(got) != 1 {
		t.Fatal("the largest message was not sent")
	}
	send(wire.MaxPayload - 3)
	l.sent()
	if len(k.got) != 1 || l.RemoteStats().Refused != 1 {
		t.Errorf("got %v; the asker must hear of the refusal", k.got)
	}
	l.do(pid, func(ctx actor.Context) { ctx.Send(l.Remote("peer", strings.Repeat("n", wire.MaxName+1)), ping{}) })
	l.do(pid, func(ctx actor.Context) { ctx.Send(l.Remote("peer", ""), ping{}) })
	l.do(pid, func(ctx actor.Context) { ctx.Send(l.Remote("", "x"), ping{}) })
	l.sent()
	if l.DeadLetters() != 4 {
		t.Errorf("%d dead letters, want 4", l.DeadLetters())
	}
}

func TestCreditBoundsWhatIsUnderWay(t *testing.T) {
	l := newLab(t)
	k, pid := l.keeper("x")
	far := l.Remote("peer", "y")
	l.do(pid, func(ctx actor.Context) {
		for i := range uint32(creditWindow + maxWaiting + 20) {
			ctx.Request(far, ping{N: i})
		}
	})
	sent := l.out.take()
	if len(sent) != creditWindow {
		t.Fatalf("sent %d without credit for more than %d", len(sent), creditWindow)
	}
	refusals := creditWindow + maxWaiting + 20 - maxQuestions
	if len(k.got) != refusals {
		t.Fatalf("%d refused, want %d at once", len(k.got), refusals)
	}
	next := uint32(creditWindow)
	for range 30 {
		l.from("peer", l.credit(50))
		for _, e := range l.out.take() {
			if m, _ := (testCodec{}).Decode(e.Type, e.Payload); m.(ping).N != next {
				t.Fatalf("sent %v, want %d", m, next)
			}
			next++
		}
	}
	if next != maxQuestions {
		t.Errorf("%d sent in the end, want %d", next, maxQuestions)
	}
	if len(l.broken) == 0 {
		t.Error("more credit than was used is no protocol error")
	}
}

func TestWaitingBytesAreBounded(t *testing.T) {
	rig.Slow(t)
	l := newLab(t)
	_, pid := l.keeper("x")
	l.do(pid, func(ctx actor.Context) {
		for range creditWindow + 200 {
			ctx.Send(l.Remote("peer", "y"), ping{Pad: make([]byte, 100<<10)})
		}
	})
	s := l.session("peer")
	if s.waitBytes > maxWaitBytes || s.waitBytes < maxWaitBytes-200<<10 || l.RemoteStats().Refused == 0 {
		t.Errorf("%d bytes wait, %d refused", s.waitBytes, l.RemoteStats().Refused)
	}
}

// The receiver gives credit back for what it has processed, and for nothing else.
func TestCreditComesBackWhenMessagesAreProcessed(t *testing.T) {
	l := newLab(t)
	got, gate := 0, true
	pid := l.Spawn(nil, "x", 1, receive(func(ctx actor.Context) {
		if m, ok := ctx.Message().(ping); ok && m.N == 1 {
			got++
		}
	}), OnPanicStop)
	l.Export("x", pid)
	l.system(pid, &actor.SuspendMailbox{})
	l.w.Settle()
	for range creditWindow {
		l.from("peer", tellTo("x", 1, 0)) // more than its mailbox takes from local senders
	}
	l.sent()
	if gate && len(l.broken) > 0 {
		t.Fatal(l.broken)
	}
	l.from("peer", tellTo("x", 1, 0))
	if len(l.broken) != 1 || !errors.Is(l.broken[0], errOverCredit) {
		t.Fatal("one more than the credit:", l.broken)
	}
	l.system(pid, &actor.ResumeMailbox{})
	l.w.Settle()
	if got != creditWindow {
		t.Errorf("got %d", got)
	}
	credit := uint32(0)
	for _, e := range l.out.take() {
		credit += e.Credit
	}
	if credit != creditWindow {
		t.Errorf("%d credit came back, want %d", credit, creditWindow)
	}
	// What is for nobody, of no type, or drained with its actor counts as processed too.
	for range creditBatch / 2 {
		l.from("peer", tellTo("nobody", 1, 0), wire.Envelope{Kind: wire.KindTell, To: "x", Type: 999})
	}
	l.system(pid, &actor.SuspendMailbox{})
	for range creditBatch {
		l.from("peer", tellTo("x", 1, 0))
	}
	l.Root.Stop(pid)
	l.w.Settle()
	credit = 0
	for _, e := range l.out.take() {
		credit += e.Credit
	}
	if credit != 2*creditBatch {
		t.Errorf("%d credit came back, want %d", credit, 2*creditBatch)
	}
}

func TestHeldBytesAreBounded(t *testing.T) {
	l := newLab(t)
	k, pid := l.keeper("x")
	l.Export("x", pid)
	l.system(pid, &actor.SuspendMailbox{})
	l.w.Settle()
	big := tellTo("x", 1, 4)
	big.Payload = make([]byte, 200<<10)
	for range creditWindow {
		l.from("peer", big)
	}
	if got := l.out.take(); len(got) < 200 || got[0].Token != 4 {
		t.Errorf("%d told, want most of %d", len(got), creditWindow)
	}
	l.system(pid, &actor.ResumeMailbox{})
	l.w.Settle()
	if n := len(k.got); n*len(big.Payload) > maxHeldBytes || n < 30 {
		t.Errorf("%d messages of %d bytes were held", n, len(big.Payload))
	}
	l.from("peer", tellTo("x", 1, 0))
	if len(k.got) == 0 || len(l.broken) > 0 {
		t.Error("the bound has closed for good")
	}
}

// A tiny mailbox and 5,000 sends over the wire: each is delivered in order or refused
// with an error, and none is lost silently.
func TestFiveThousandSendsToATinyMailbox(t *testing.T) {
	for seed := range uint64(3) {
		w, n, log := newWorld(seed, "a", "b")
		var got []uint32
		slow := n[1].Spawn(nil, "slow", 16, func() actor.Actor {
			return actor.ReceiveFunc(func(ctx actor.Context) {
				if m, ok := ctx.Message().(ping); ok {
					got = append(got, m.N)
				}
			})
		}, OnPanicStop)
		n[1].Export("slow", slow)
		refused := 0
		var at uint32
		var send func()
		send = func() { // bursts of 100 every 5 ms: faster than credit comes back
			for range 100 {
				if !n[0].Send(n[0].Remote("b", "slow"), ping{N: at}) {
					refused++
				}
				at++
			}
			if at < 5000 {
				w.After(5*time.Millisecond, send)
			}
		}
		send()
		w.Run(time.Minute)
		if len(got)+refused != 5000 || !slices.IsSorted(got) || int64(refused) != n[0].DeadLetters() || n[1].DeadLetters() != 0 {
			t.Errorf("seed %d: got %d (sorted: %v), %d refused, dead letters %d and %d", seed, len(got), slices.IsSorted(got), refused, n[0].DeadLetters(), n[1].DeadLetters())
		}
		if seed == 0 {
			t.Logf("%d delivered, %d refused", len(got), refused)
		}
		for _, s := range n {
			closeNode(t, s)
		}
		log.None(t)
	}
}

// The same, as slow as credit allows: nothing is refused.
func TestPacedSendsAreAllDelivered(t *testing.T) {
	w, n, _ := newWorld(1, "a", "b")
	got := uint32(0)
	n[1].Export("x", n[1].Spawn(nil, "x", 1, receive(func(ctx actor.Context) {
		if m, ok := ctx.Message().(ping); ok && m.N == got {
			got++
		}
	}), OnPanicStop))
	for i := range uint32(5000) {
		if !n[0].Send(n[0].Remote("b", "x"), ping{N: i}) {
			t.Fatal("refused", i)
		}
		w.Run(time.Millisecond)
	}
	w.Run(time.Second)
	if got != 5000 {
		t.Errorf("%d in order", got)
	}
	for _, s := range n {
		closeNode(t, s)
	}
}

func TestWatchAcrossNodes(t *testing.T) {
	w, n, log := newWorld(1, "a", "b")
	k := &keeper{}
	watcher := n[0].Spawn(nil, "watcher", 10, func() actor.Actor { return k }, OnPanicStop)
	spawnAndExport := func(name string) *actor.PID {
		pid := n[1].Spawn(nil, name, 10, receive(func(actor.Context) {}), OnPanicStop)
		n[1].Export(name, pid)
		return pid
	}
	do := func(f func(actor.Context)) { n[0].Send(watcher, f); w.Run(time.Second) }
	watch := func(name string) { do(func(ctx actor.Context) { ctx.Watch(n[0].Remote("b", name)) }) }
	expect := func(what string, why ...any) {
		t.Helper()
		if !slices.Equal(k.got, why) {
			t.Errorf("%s: told %v, want %v", what, k.got, why)
		}
		k.got = nil
	}

	x := spawnAndExport("x")
	watch("x")
	watch("x") // twice is once
	expect("while it lives")
	n[1].Root.Stop(x)
	w.Run(time.Second)
	expect("stopped", actor.TerminatedReason_Stopped)
	watch("x")
	expect("not there", actor.TerminatedReason_Stopped)

	y := spawnAndExport("y")
	watch("y")
	do(func(ctx actor.Context) { ctx.Unwatch(n[0].Remote("b", "y")) })
	n[1].Root.Stop(y)
	w.Run(time.Second)
	expect("unwatched")

	z := spawnAndExport("z")
	watch("z")
	w.Cut("a", "b")
	w.Run(w.Patience + time.Second)
	expect("cut", actor.TerminatedReason_AddressTerminated)
	watch("z")
	expect("not connected", actor.TerminatedReason_AddressTerminated)
	w.Heal("a", "b")
	n[1].Root.Stop(z) // its watcher was taken off it when the connection was lost
	w.Run(time.Second)
	expect("afterwards")
	if got := len(n[1].session("a").watched); got != 0 {
		t.Errorf("%d watches are left", got)
	}
	for _, s := range n {
		closeNode(t, s)
	}
	log.None(t)
}

// An actor that has ended is forgotten, here and where it watched another: an actor that lives long is watched by many
// that come and go, over one connection.
func TestTheWatchesOfAnActorEndWithIt(t *testing.T) {
	w, n, log := newWorld(1, "a", "b")
	long := n[1].Spawn(nil, "long", 10, receive(func(actor.Context) {}), OnPanicStop)
	n[1].Export("long", long)
	left := func() (here, there int) {
		for _, t := range n[0].session("b").tokens {
			here += len(t.watchers)
		}
		return here, len(n[1].session("a").watched)
	}
	stay := n[0].Spawn(nil, "stay", 10, receive(func(ctx actor.Context) {
		if f, ok := ctx.Message().(func(actor.Context)); ok {
			f(ctx)
		}
	}), OnPanicStop)
	n[0].Send(stay, func(ctx actor.Context) { ctx.Watch(n[0].Remote("b", "long")) })
	for i := range 2 * maxWatches {
		x := n[0].Spawn(nil, fmt.Sprint("short", i), 10, receive(func(ctx actor.Context) {
			if _, ok := ctx.Message().(*actor.Started); ok {
				ctx.Watch(n[0].Remote("b", "long"))
			}
		}), OnPanicStop)
		w.Run(10 * time.Millisecond)
		if here, there := left(); here != 2 || there != 1 {
			t.Fatalf("after %d: two watch by one watch of the peer's, and %d by %d", i, here, there)
		}
		n[0].Root.Stop(x)
		w.Run(10 * time.Millisecond)
	}
	if here, there := left(); here != 1 || there != 1 {
		t.Errorf("one watches, and %d by %d", here, there)
	}
	n[0].Root.Stop(stay)
	w.Run(10 * time.Millisecond)
	if here, there := left(); here != 0 || there != 0 {
		t.Errorf("nobody watches, and %d by %d", here, there)
	}
	for _, s := range n {
		closeNode(t, s)
	}
	log.None(t)
}

// A subscriber is watched through the token it gave: that is how the other node
// learns that it ended.
func TestSubscriberIsAnsweredForLongAndWatched(t *testing.T) {
	w, n, log := newWorld(1, "a", "b")
	var sub *actor.PID
	source := &keeper{}
	source.do = func(ctx actor.Context) {
		if _, ok := ctx.Message().(ping); ok {
			sub = ctx.Sender()
			ctx.Watch(sub)
		}
	}
	src := n[1].Spawn(nil, "source", 10, func() actor.Actor { return source }, OnPanicStop)
	n[1].Export("source", src)
	k := &keeper{}
	pool := n[0].Spawn(nil, "pool", 10, func() actor.Actor { return k }, OnPanicStop)
	n[0].ExportTo("b", pool)
	n[0].Send(pool, func(ctx actor.Context) {
		ctx.Request(n[0].Remote("b", "source"), ping{})
		ctx.Request(n[0].Remote("b", "source"), ping{N: 1})
	})
	w.Run(time.Second)
	if len(source.from) != 2 || !source.from[0].Equal(source.from[1]) {
		t.Fatal("a subscriber must look the same each time:", source.from)
	}
	for i := range uint32(5) {
		n[1].Send(sub, pong{i})
	}
	w.Run(time.Second)
	if len(k.got) != 5 {
		t.Errorf("got %v", k.got)
	}
	n[0].Root.Stop(pool)
	w.Run(time.Second)
	if source.got[len(source.got)-1] != actor.TerminatedReason_Stopped {
		t.Errorf("source was told %v", source.got)
	}
	for _, s := range n {
		closeNode(t, s)
	}
	log.None(t)
}

func TestLossFailsWhatWaits(t *testing.T) {
	l := newLab(t)
	k, pid := l.keeper("x")
	l.ExportTo("peer", pid)
	var bound uint64
	l.do(pid, func(ctx actor.Context) {
		ctx.Request(l.Remote("peer", "y"), ping{})
		bound = l.out.take()[0].Reply
	})
	asker, askerPID := l.keeper("asker")
	l.do(askerPID, func(ctx actor.Context) {
		for i := range uint32(creditWindow + 100) { // some wait for credit
			ctx.Request(l.Remote("peer", "y"), ping{N: i})
		}
		ctx.Request(l.Remote("other", "y"), ping{})
		ctx.Watch(l.Remote("peer", "y"))
	})
	l.out.take()
	l.from("peer", wire.Envelope{Kind: wire.KindWatch, To: "nothing", Reply: 1})
	l.Lost("peer")
	l.Lost("peer")
	l.Lost("never seen")
	l.w.Settle()
	dead, ended := 0, 0
	for _, m := range asker.got {
		switch m {
		case actor.TerminatedReason_AddressTerminated:
			ended++
		default:
			dead++
		}
	}
	if dead != creditWindow+100 || ended != 1 {
		t.Errorf("%d questions failed, %d watches ended", dead, ended)
	}
	l.out.take()
	l.known["peer"] = false
	l.from("peer", replyTo(bound, 1)) // the next connection knows nothing of it
	if fmt.Sprintf("%T", k.got) != "[]interface {}" || len(k.got) != 1 {
		t.Errorf("got %v, want to be told that the export has ended, and nothing else", k.got)
	}
	l.do(askerPID, func(ctx actor.Context) { ctx.Request(l.Remote("peer", "y"), ping{}) })
	if got := l.out.take(); len(got) != 1 || got[0].Reply <= bound || len(k.got) != 1 {
		t.Error("no new credit, or an old token:", got)
	}
}

func TestUnconnectedPeerLeavesNothingBehind(t *testing.T) {
	l := newLab(t)
	l.out.refuse = true
	k, pid := l.keeper("x")
	l.do(pid, func(ctx actor.Context) {
		for i := range 1000 {
			ctx.Request(l.Remote(peers.ID(fmt.Sprint("p", i)), "y"), ping{})
			ctx.Watch(l.Remote(peers.ID(fmt.Sprint("p", i)), "y"))
			l.Root.Send(tokenPID(peers.ID(fmt.Sprint("q", i)), 7), &actor.DeadLetterResponse{})
		}
	})
	if len(k.got) != 2000 || len(l.sessions) != 0 {
		t.Errorf("told of %d failures, %d sessions are left", len(k.got), len(l.sessions))
	}
}

// What an outbox that is full for a moment refused, and losing would hurt, is
// sent once it takes again.
func TestRefusedControlIsSentLater(t *testing.T) {
	l := newLab(t)
	_, pid := l.keeper("x")
	l.Export("x", pid)
	l.from("peer", wire.Envelope{Kind: wire.KindWatch, To: "x", Reply: 77})
	for range creditBatch {
		l.out.refuse = true
		l.from("peer", tellTo("x", 1, 0))
	}
	l.Root.Stop(pid)
	l.w.Run(time.Second)
	l.out.refuse = false
	l.w.Run(time.Second)
	l.sent(endOf(77), wire.Envelope{Kind: wire.KindCredit, Token: l.session("peer").id, Reply: theirSession, Credit: creditBatch})
	if l.w.Step() {
		t.Error("it goes on trying")
	}
}

// Credit that comes while the outbox is full is used when it takes again, in order.
func TestWaitingMessagesOutlastAFullOutbox(t *testing.T) {
	l := newLab(t)
	l.greet("peer")
	for i := range uint32(creditWindow + 100) {
		l.Send(l.Remote("peer", "y"), ping{N: i})
	}
	l.out.take()
	l.out.refuse = true
	l.from("peer", l.credit(60))
	l.w.Run(time.Second)
	l.out.refuse = false
	l.Send(l.Remote("peer", "y"), ping{N: creditWindow + 100}) // there is credit, but others were first
	l.w.Run(time.Second)
	got := l.out.take()
	for i, e := range got {
		if m, _ := (testCodec{}).Decode(e.Type, e.Payload); m.(ping).N != creditWindow+uint32(i) {
			t.Fatalf("message %d is %v", i, m)
		}
	}
	if len(got) != 60 {
		t.Errorf("sent %d, want 60", len(got))
	}
}

// An answer may be for an actor of a third node: it is passed on.
func TestAnswerForAThirdNodeIsPassedOn(t *testing.T) {
	w, n, log := newWorld(1, "a", "b", "c")
	var got []any
	pid := n[2].Spawn(nil, "asker", 10, receive(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *actor.Started:
			ctx.Request(n[2].Remote("b", "proxy"), ping{N: 1})
		case pong:
			got = append(got, m)
		}
	}), OnPanicStop)
	n[1].Export("proxy", n[1].Spawn(nil, "proxy", 10, receive(func(ctx actor.Context) {
		if _, ok := ctx.Message().(ping); ok {
			ctx.RequestWithCustomSender(n[1].Remote("a", "echo"), ctx.Message(), ctx.Sender())
		}
	}), OnPanicStop))
	n[0].Export("echo", n[0].Spawn(nil, "echo", 10, receive(func(ctx actor.Context) {
		if m, ok := ctx.Message().(ping); ok {
			ctx.Respond(pong{m.N + 1})
		}
	}), OnPanicStop))
	w.Run(time.Second)
	if !slices.Equal(got, []any{pong{2}}) {
		t.Errorf("%v got %v", pid, got)
	}
	for _, s := range n {
		closeNode(t, s)
	}
	log.None(t)
}

func TestPeerCannotMakeUsRememberWithoutEnd(t *testing.T) {
	l := newLab(t)
	_, pid := l.keeper("x")
	l.Export("x", pid)
	for i := range uint64(maxWatches + 100) {
		l.from("peer", wire.Envelope{Kind: wire.KindWatch, To: "x", Reply: 1 + i})
	}
	if got := len(l.session("peer").watched); got != maxWatches || len(l.broken) != 100 {
		t.Errorf("%d watches held, %d refused", got, len(l.broken))
	}
	l.out.refuse = true // and now its connection takes nothing
	for i := range uint64(5000) {
		l.from("peer", wire.Envelope{Kind: wire.KindWatch, To: "nothing", Reply: 10_000 + i})
	}
	if got := l.session("peer").pending.len(); got > maxQuestions+maxWatches {
		t.Errorf("%d envelopes pending", got)
	}
	l.out.refuse = false
	l.w.Run(time.Second)
}

func TestNothingMovesAfterClose(t *testing.T) {
	l := newLab(t)
	_, pid := l.keeper("x")
	l.Export("x", pid)
	l.from("peer", tellTo("x", 1, 0))
	closeNode(t, l.System)
	l.out.take()
	l.from("peer", tellTo("x", 1, 9), wire.Envelope{Kind: wire.KindWatch, To: "x", Reply: 2})
	if l.Send(l.Remote("peer", "y"), ping{}) {
		t.Error("a closed system sent something")
	}
	l.ExportTo("peer", pid)
	l.Lost("peer")
	l.sent()
	if len(l.sessions) > 0 {
		t.Error("sessions after close")
	}
}

func TestBadExportNameIsABug(t *testing.T) {
	l := newLab(t)
	_, pid := l.keeper("x")
	for _, name := range []string{"", "$1", strings.Repeat("n", wire.MaxName+1)} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was exported", name)
				}
			}()
			l.Export(name, pid)
		}()
	}
}

// One side hears of a loss and the other does not, or later: they find together
// again, with credit, and nothing of the old connection counts.
func TestOneSidedLossIsMended(t *testing.T) {
	for seed := range uint64(4) {
		w, n, log := newWorld(seed, "a", "b")
		var k [2]*keeper
		for i, s := range n {
			k[i] = &keeper{}
			s.Export("x", s.Spawn(nil, "x", 10, func() actor.Actor { return k[i] }, OnPanicStop))
		}
		tell := func(from int, times int) {
			for range times {
				n[from].Send(n[from].Remote(n[1-from].Self(), "x"), ping{})
			}
		}
		rng := w.Rand("test")
		for round := range 300 {
			for i, s := range n {
				tell(i, rng.IntN(60))
				w.Run(time.Duration(rng.IntN(15)) * time.Millisecond) // frames may be under way
				if rng.IntN(3) == 0 {
					s.Lost(n[1-i].Self())
				}
			}
			if rng.IntN(10) > 0 {
				continue
			}
			for range 2 { // two words each way, to find together with
				tell(0, 1)
				w.Run(time.Second)
				tell(1, 1)
				w.Run(time.Second)
			}
			k[0].got, k[1].got = nil, nil
			tell(0, creditWindow)
			tell(1, creditWindow)
			w.Run(time.Second)
			if len(k[0].got) != creditWindow || len(k[1].got) != creditWindow {
				t.Fatalf("seed %d, round %d: %d and %d of %d arrived", seed, round, len(k[0].got), len(k[1].got), creditWindow)
			}
		}
		for _, s := range n {
			if st := s.RemoteStats(); st.Malformed > 0 {
				t.Errorf("%+v", st)
			}
			closeNode(t, s)
		}
		log.None(t)
	}
}

// A peer that began anew is heard of by who watches it, answers to it or is
// subscribed at it.
func TestNewSessionOfAPeerEndsTheOld(t *testing.T) {
	l := newLab(t)
	k, pid := l.keeper("x")
	l.greet("peer")
	l.ExportTo("peer", pid)
	l.do(pid, func(ctx actor.Context) { ctx.Watch(l.Remote("peer", "y")) })
	l.out.take()
	next := hello
	next.Token++
	l.from("peer", next)
	if len(k.got) != 2 {
		t.Errorf("told %v, want of the end of a watch and of an export", k.got)
	}
	l.do(pid, func(ctx actor.Context) { ctx.Send(l.Remote("peer", "y"), ping{}) })
	if got := l.out.got; len(got) != 2 || got[0].Reply != next.Token || got[0].Credit != 0 {
		t.Errorf("sent %+v, want a hello that answers", got)
	}
	l.from("peer", l.credit(1), wire.Envelope{Kind: wire.KindCredit, Token: next.Token, Reply: 1, Credit: 1}) // of the old one
	if len(l.broken) > 0 || l.RemoteStats().Late != 2 {
		t.Errorf("broken %v, stats %+v", l.broken, l.RemoteStats())
	}
}

func TestFramesBeforeAHelloAreLate(t *testing.T) {
	l := newLab(t)
	k, pid := l.keeper("x")
	l.Export("x", pid)
	l.Deliver("peer", wire.AppendEnvelope(nil, tellTo("x", 1, 2)))
	l.w.Settle()
	l.sent()
	if len(k.got) > 0 || l.RemoteStats().Late != 1 || len(l.broken) > 0 {
		t.Errorf("got %v, stats %+v", k.got, l.RemoteStats())
	}
}

// pipe joins two real systems: each direction is a goroutine that delivers in
// order, as a stream's reader does.
type pipe struct {
	frames chan []byte
	done   chan struct{}
}

func newPipe(from peers.ID, to *System) *pipe {
	p := &pipe{make(chan []byte, 4096), make(chan struct{})}
	go func() {
		defer close(p.done)
		for f := range p.frames {
			to.Deliver(from, f)
		}
	}()
	return p
}

func (p *pipe) Send(_ peers.ID, frame []byte) bool {
	select {
	case p.frames <- frame:
		return true
	default:
		return false
	}
}

// lateOutbox is an outbox that is known only after its system.
type lateOutbox struct{ Outbox }

// joined is two real systems and what joins them.
func joined(t testing.TB) (a, b *System) {
	outA, outB := &lateOutbox{}, &lateOutbox{}
	a = NewSystem(Real(nil), "a", outA, testCodec{})
	b = NewSystem(Real(nil), "b", outB, testCodec{})
	ab, ba := newPipe("a", b), newPipe("b", a)
	outA.Outbox, outB.Outbox = ab, ba
	t.Cleanup(func() {
		closeNode(t, a)
		closeNode(t, b)
		for _, p := range []*pipe{ab, ba} {
			close(p.frames)
			<-p.done
		}
	})
	return a, b
}

// The real runtime, with many senders, and losses that one side alone hears of;
// for -race.
func TestRemoteUnderLoad(t *testing.T) {
	a, b := joined(t)
	b.Export("echo", b.Spawn(nil, "echo", 10, receive(func(ctx actor.Context) {
		if m, ok := ctx.Message().(ping); ok {
			ctx.Respond(pong{m.N})
		}
	}), OnPanicStop))
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 100 {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				r, err := Ask[pong](ctx, a, a.Remote("b", "echo"), ping{N: uint32(g*1000 + i)})
				if err == nil && r.N != uint32(g*1000+i) || err != nil && !errors.Is(err, ErrNoAnswer) {
					t.Error(r, err)
				}
				cancel()
			}
		})
	}
	wg.Go(func() {
		for range 20 {
			a.Lost("b")
			time.Sleep(100 * time.Microsecond)
		}
	})
	wg.Wait()
}

// The whole in a bubble: no goroutine is left, no lock is held across a wait.
func TestRemoteInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := joined(t)
		k := &keeper{}
		b.Export("x", b.Spawn(nil, "x", 10, func() actor.Actor { return k }, OnPanicStop))
		for i := range uint32(200) {
			a.Send(a.Remote("b", "x"), ping{N: i})
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(k.got) != 200 {
			t.Error(len(k.got))
		}
	})
}

// FuzzDeliver: no frame of a peer panics, stops an actor or reaches what is not
// exported.
func FuzzDeliver(f *testing.F) {
	for _, e := range []wire.Envelope{
		tellTo("x", 1, 2), tellTo("secret", 1, 2), replyTo(1, 1), endOf(3),
		{Kind: wire.KindWatch, To: "x", Reply: 4}, {Kind: wire.KindUnwatch, To: "x", Reply: 4},
		hello, {Kind: wire.KindCredit, Token: 5, Reply: 6}, {Kind: wire.KindUnsupported, Type: 1, Token: 5},
		{Kind: wire.KindTell, Token: 9, Type: typePing, Payload: make([]byte, 4)},
	} {
		f.Add(wire.AppendEnvelope(nil, e))
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		l := newLab(t)
		secret, _ := l.keeper("secret")
		_, pid := l.keeper("x")
		l.Export("x", pid)
		l.greet("peer")
		for range 3 {
			l.Deliver("peer", frame)
			l.w.Run(time.Second)
		}
		if len(secret.got) > 0 {
			t.Error("reached what is not exported")
		}
		if !l.Send(pid, ping{}) {
			t.Error("stopped an actor")
		}
		l.w.Settle()
	})
}

// A peer that begins a new session with every breath has no more of our memory for it.
func TestNewSessionsGiveNoMoreRoom(t *testing.T) {
	for name, knows := range map[string]uint64{"that know ours": 1, "that do not": 0} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			_, pid := l.keeper("x")
			l.Export("x", pid)
			for session := range uint64(20) {
				l.Deliver("peer", wire.AppendEnvelope(nil, wire.Envelope{Kind: wire.KindCredit, Token: session + 1, Reply: knows}))
				for range creditWindow {
					l.Deliver("peer", wire.AppendEnvelope(nil, tellTo("x", 1, 0)))
				}
			}
			if n := l.box(pid).UserMessageCount(); n > maxHeld {
				t.Errorf("%d messages are held for a peer, want %d at most", n, maxHeld)
			}
			l.w.Settle()
			l.Deliver("peer", wire.AppendEnvelope(nil, tellTo("x", 1, 0)))
			if n := l.box(pid).UserMessageCount(); n != 1 {
				t.Errorf("%d messages are held of one", n)
			}
			l.w.Settle()
		})
	}
}

// However many actors watch those of one peer, the peer is not asked for more watches than it may be, and each hears of the end.
func TestAllWhoWatchActorsOfAPeerHearOfTheirEnd(t *testing.T) {
	w, n, log := newWorld(1, "a", "b")
	long := n[1].Spawn(nil, "long", 10, receive(func(actor.Context) {}), OnPanicStop)
	n[1].Export("long", long)
	heard := 0
	for i := range maxWatches + 76 {
		n[0].Spawn(nil, fmt.Sprint("watcher", i), 10, receive(func(ctx actor.Context) {
			switch ctx.Message().(type) {
			case *actor.Started:
				ctx.Watch(n[0].Remote("b", "long"))
			case *actor.Terminated:
				heard++
			}
		}), OnPanicStop)
		w.Run(time.Millisecond)
	}
	w.Run(time.Second)
	if broken := n[1].RemoteStats().Malformed; broken != 0 {
		t.Errorf("%d of the watches break the protocol", broken)
	}
	n[1].Root.Stop(long)
	w.Run(time.Second)
	if heard != maxWatches+76 {
		t.Errorf("%d of %d that watch an actor have heard of its end", heard, maxWatches+76)
	}
	for _, s := range n {
		closeNode(t, s)
	}
	log.None(t)
}

// An actor that watches more actors of a peer than that tells the ends of hears of the others when the connection ends.
func TestWhoCannotBeWatchedEndsWithTheConnection(t *testing.T) {
	w, n, log := newWorld(1, "a", "b")
	long := n[1].Spawn(nil, "long", 10, receive(func(actor.Context) {}), OnPanicStop)
	heard := 0
	n[0].Spawn(nil, "watcher", 10, receive(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case *actor.Started:
			for i := range maxWatches + 1 {
				name := fmt.Sprint("long", i)
				n[1].Export(name, long)
				ctx.Watch(n[0].Remote("b", name))
			}
		case *actor.Terminated:
			heard++
		}
	}), OnPanicStop)
	w.Run(time.Second)
	if broken := n[1].RemoteStats().Malformed; broken != 0 || heard != 0 {
		t.Errorf("%d of the watches break the protocol, and %d ends were told of", broken, heard)
	}
	n[0].session("b").end()
	w.Run(time.Second)
	if heard != maxWatches+1 {
		t.Errorf("with the connection %d watches ended, want %d", heard, maxWatches+1)
	}
	for _, s := range n {
		closeNode(t, s)
	}
	log.None(t)
}
