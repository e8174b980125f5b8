package actors

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// puppet is a peer that says whatever a test makes it say.
type puppet struct {
	*simNode
	heard []wire.Envelope
}

// puppet adds a peer that to knows.
func (sw *swarm) puppet(name string, to *simNode) *puppet {
	p := &puppet{simNode: sw.add(name, 1e6)}
	sw.w.OnMessages(p.id, func(_ peers.ID, frame []byte) {
		if e, err := wire.ParseEnvelope(frame); err == nil {
			p.heard = append(p.heard, e)
		}
	}, func(peers.ID) {})
	p.say(to, wire.Envelope{Kind: wire.KindCredit, Token: 1})
	return p
}

func (p *puppet) say(to *simNode, e wire.Envelope) {
	p.sw.t.Helper()
	if !p.sw.w.Outbox(p.id).Send(to.id, wire.AppendEnvelope(nil, e)) {
		p.sw.t.Fatal("nothing can be said")
	}
	p.sw.w.Run(2 * simLatency)
}

func (p *puppet) subscribe(to *simNode, id share.ID, reply uint64) {
	p.say(to, wire.Envelope{Kind: wire.KindTell, To: SeederName, Reply: reply, Type: wire.TypeSubscribe,
		Payload: wire.Append(nil, wire.Subscribe{Share: id})})
}

// told returns the pieces that it was told about.
func (p *puppet) told(pieces int) *share.Set {
	p.sw.t.Helper()
	seen := share.NewSet(pieces)
	for _, e := range p.heard {
		switch e.Type {
		case wire.TypeHave:
			m, err := wire.Parse[wire.Have](e.Payload)
			if err != nil {
				p.sw.t.Fatal(err)
			}
			for _, x := range m.Pieces {
				seen.Add(share.Piece(x))
			}
		case wire.TypeHaveMap:
			m, err := wire.Parse[wire.HaveMap](e.Payload)
			if err != nil {
				p.sw.t.Fatal(err)
			}
			set, err := share.ParseSet(pieces, m.Bits)
			if err != nil {
				p.sw.t.Fatal(err)
			}
			seen.Union(set)
		}
	}
	return seen
}

func (n *simNode) tellSeeder(msg any) {
	n.sw.w.Settle() // or there may be none yet
	n.program.s.Send(actor.NewPID(string(n.id), "node/seeder"), msg)
}

func TestAChildThatSubscribesAgainAndAgainIsOneChild(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	source := sw.add("source", 1e6).seed(m, content)
	p := sw.puppet("child", source)
	for i := range uint64(50) {
		p.subscribe(source, m.ID(), 100+i)
	}
	for _, left := range source.program.Remains() {
		if strings.HasPrefix(left, "a session with") && !strings.HasSuffix(left, " (tokens: 1)") {
			t.Errorf("one child has %s", left)
		}
	}
}

// A peer that subscribes again and again waits, and nobody else does: the list of pieces of
// the largest share takes 250 kB.
func TestSubscribingAgainAndAgainCostsWhoeverDoesIt(t *testing.T) {
	sw := newSwarm(t, 1)
	m, _ := testShare(t, 1<<20)
	source := sw.add("source", 1e6)
	source.offer(m.ID(), share.MaxPieces, nil)
	greedy, other := sw.puppet("greedy", source), sw.puppet("other", source)
	const times = 100
	for i := range uint64(times) {
		greedy.subscribe(source, m.ID(), 100+i)
	}
	maps, refused := 0, 0
	var retry time.Duration
	for _, e := range greedy.heard {
		switch e.Type {
		case wire.TypeHaveMap:
			maps++
		case wire.TypeSubscribeResult:
			if r, err := wire.Parse[wire.SubscribeResult](e.Payload); err != nil || !r.Accepted {
				refused++
				retry = r.Retry
			}
		}
	}
	if maps > 12 || maps+refused != times { // in the 2 s that this took
		t.Errorf("%d lists of pieces were sent, %d of %d subscriptions refused", maps, refused, times)
	}
	if retry < time.Millisecond || retry > 2*time.Second {
		t.Errorf("it may come back after %v", retry)
	}
	if r := other.subscribes(source, wire.Subscribe{Share: m.ID()}); !r.Accepted {
		t.Errorf("another is refused: %+v", r)
	}
	sw.w.Run(retry)
	if r := greedy.subscribes(source, wire.Subscribe{Share: m.ID()}); !r.Accepted {
		t.Errorf("it is refused after %v: %+v", retry, r)
	}
}

func TestAPeerMaySubscribeToManySharesAtOnce(t *testing.T) {
	sw := newSwarm(t, 1)
	source := sw.add("source", 1e6)
	p := sw.puppet("child", source)
	for i := range uint64(200) {
		id := share.IDOf([]byte{byte(i)})
		source.offer(id, 100, nil)
		p.subscribe(source, id, 100+i)
	}
	for _, e := range p.heard {
		if e.Type == wire.TypeSubscribeResult {
			if r, err := wire.Parse[wire.SubscribeResult](e.Payload); err != nil || !r.Accepted {
				t.Fatalf("refused: %+v, %v", r, err)
			}
		}
	}
}

func TestRequestsOfALostChildAreAnswered(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	source := sw.add("source", 1e6, func(d *Deps) { d.Uploads.SlotsPerChild = 1 }).seed(m, content)
	sw.w.Settle()
	var got []Admission
	for range 5 {
		source.program.Request(AdmitRequest{Child: "child", Share: m.ID(), Bytes: 1 << 16, Reply: func(a Admission) { got = append(got, a) }})
	}
	sw.w.Settle()
	if len(got) != 1 {
		t.Fatalf("%d of 5 were admitted to 1 slot", len(got))
	}
	source.program.Lost("child")
	sw.w.Run(5 * time.Second)
	if len(got) != 5 {
		t.Errorf("%d of 5 requests were answered", len(got))
	}
}

func TestWhatPeersSendIsNoErrorOfOurs(t *testing.T) {
	sw := newSwarm(t, 1)
	log := &rig.Errors{}
	sw.w.Log = slog.New(log)
	m, content := testShare(t, 1<<20)
	source := sw.add("source", 1e6).seed(m, content)
	p := sw.puppet("child", source)
	p.say(source, wire.Envelope{Kind: wire.KindTell, To: SeederName, Type: wire.TypeGoodbye, Payload: wire.Append(nil, wire.Goodbye{Share: m.ID()})})
	log.None(t)
}

// The slot of a lost child is free again, even if nobody reports the end of what was being
// sent to it.
func TestALostChildKeepsNoSlot(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	source := sw.add("source", 1e6, func(d *Deps) { d.Uploads.SlotsPerChild = 1 }).seed(m, content)
	sw.w.Settle()
	for i := range 3 {
		admitted := false
		source.program.Request(AdmitRequest{Child: "child", Share: m.ID(), Bytes: 1 << 16, Reply: func(a Admission) { admitted = a.Reply.Status == wire.OK }})
		sw.w.Settle()
		if !admitted {
			t.Fatalf("request %d was not admitted", i)
		}
		source.program.Lost("child")
	}
}

// A child whose connection was lost is no longer a child until it comes back.
func TestALostChildIsNoChild(t *testing.T) {
	sw := newSwarm(t, 1)
	sw.w.Patience = 200 * time.Millisecond
	m, content := testShare(t, 1<<20)
	source := sw.add("source", 1e6).seed(m, content)
	lost, stays := sw.puppet("lost", source), sw.puppet("stays", source)
	lost.subscribe(source, m.ID(), 7)
	stays.subscribe(source, m.ID(), 7)
	sw.w.Cut("lost", "source")
	source.offer(m.ID(), 1, nil) // something to say to both
	sw.w.Run(time.Second)
	delete(source.catalog, m.ID())
	told, err := source.program.Withdraw(context.Background(), m.ID(), wire.CodeFileChanged)
	if err != nil || told != 1 {
		t.Errorf("%d children were told, want 1: %v", told, err)
	}
}

// A node that leaves tells its children, so that they need not find out by themselves.
func TestChildrenAreToldThatANodeLeaves(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	source := sw.add("source", 1e6).seed(m, content)
	p := sw.puppet("child", source)
	p.subscribe(source, m.ID(), 7)
	if err := source.program.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	sw.w.Run(time.Second)
	if !slices.ContainsFunc(p.heard, func(e wire.Envelope) bool { return e.Type == wire.TypeGoodbye }) {
		t.Errorf("heard no goodbye: %+v", p.heard)
	}
}

// The loss of a connection may be reported after the child has come back.
func TestAChildThatCameBackStaysAChild(t *testing.T) {
	sw := newSwarm(t, 1)
	m, _ := testShare(t, 8<<20)
	source := sw.add("source", 1e6)
	source.offer(m.ID(), 8, share.NewSet(8))
	p := sw.puppet("child", source)
	p.subscribe(source, m.ID(), 7)
	source.tellSeeder(ChildLost{"child"})
	source.tellSeeder(PieceAvailable{m.ID(), 3, false})
	sw.w.Run(time.Second)
	if n := p.told(8).Count(); n != 1 {
		t.Errorf("the child heard of %d pieces, want 1", n)
	}
}

// A child whose connection takes nothing for a while hears of every piece afterwards.
func TestAnnouncementsThatWereRefusedAreMadeLater(t *testing.T) {
	sw := newSwarm(t, 1)
	m, _ := testShare(t, 8<<20)
	source := sw.add("source", 1e6)
	source.offer(m.ID(), 8, share.NewSet(8))
	p := sw.puppet("child", source)
	p.subscribe(source, m.ID(), 7)
	source.refuses = true
	for piece := range share.Piece(8) {
		source.tellSeeder(PieceAvailable{m.ID(), piece, false})
		sw.w.Run(150 * time.Millisecond)
	}
	source.refuses = false
	sw.w.Run(time.Second)
	if n := p.told(8).Count(); n != 8 {
		t.Errorf("the child heard of %d pieces of 8", n)
	}
}

// A piece that is being sent to one of many children is not sent to the next; if there are few,
// or to a peer that is not a child, it is. Whoever serves the share on counts as well.
func TestAPieceGoesToOneOfManyChildrenAtATime(t *testing.T) {
	for _, of := range []struct{ children, mirrors int }{{2, 0}, {2, 4}, {2, 6}, {8, 0}} {
		children, many := of.children, of.children+of.mirrors == 8
		sw := newSwarm(t, 1)
		m, content := testShare(t, 1<<20)
		source := sw.add("source", 1e6).seed(m, content)
		for i := range children {
			name := string(rune('a' + i))
			sw.puppet(name, source).say(source, wire.Envelope{Kind: wire.KindTell, To: SeederName, Reply: 100, Type: wire.TypeSubscribe,
				Payload: wire.Append(nil, wire.Subscribe{Share: m.ID(), Nameable: true})})
		}
		for i := range of.mirrors {
			sw.puppet(fmt.Sprint("mirror", i), source).subscribes(source, wire.Subscribe{Share: m.ID(), Addrs: []string{"/sim"}, Mirror: true})
		}
		got := map[peers.ID]Admission{}
		for _, child := range []peers.ID{"a", "b", "stranger"} {
			source.program.Request(AdmitRequest{Child: child, Share: m.ID(), Bytes: 1 << 16, Reply: func(a Admission) { got[child] = a }})
			sw.w.Settle()
		}
		away := wire.Reply{Status: wire.Busy, Retry: 2 * time.Second, Elsewhere: true}
		want := map[peers.ID]wire.Reply{"a": {}, "b": {}, "stranger": {}}
		if many {
			want["b"] = away
		}
		for child, r := range want {
			if !reflect.DeepEqual(got[child].Reply, r) {
				t.Errorf("%+v: %s got %+v, want %+v", of, child, got[child].Reply, r)
			}
		}
		if many { // the piece may be sent when the child that had it is gone
			source.program.Served(got["a"].Job, 0)
			source.program.Lost("a")
			source.program.Request(AdmitRequest{Child: "b", Share: m.ID(), Bytes: 1 << 16, Reply: func(a Admission) { got["b"] = a }})
			sw.w.Settle()
			if got["b"].Reply.Status != wire.OK {
				t.Errorf("afterwards b got %+v", got["b"].Reply)
			}
		}
	}
}

// A quick node sends no member of its fleet elsewhere. That a stranger says that it is one, or is one of another fleet, counts for nothing.
func TestAStrangerIsNoMember(t *testing.T) {
	for _, x := range []struct {
		fleet, says bool
		want        wire.Status
	}{{true, true, wire.OK}, {true, false, wire.Busy}, {false, true, wire.Busy}} {
		sw := newSwarm(t, 1)
		m, _ := testShare(t, 3<<20)
		source := sw.add("source", 1e6)
		source.offer(m.ID(), 3, share.NewSet(3))
		source.tellSeeder(PieceAvailable{m.ID(), 0, !x.fleet})
		for i := range 8 {
			sw.puppet(string(rune('a'+i)), source).subscribes(source, wire.Subscribe{Share: m.ID(), Nameable: true, MirrorsOnly: x.says})
		}
		var got Admission
		ask := func(child peers.ID, piece share.Piece) {
			source.program.Request(AdmitRequest{Child: child, Share: m.ID(), Piece: piece, Bytes: 1 << 16, Reply: func(a Admission) { got = a }})
			sw.w.Settle()
		}
		ask("a", 0)
		sw.w.Run(100 * time.Millisecond)
		source.program.Served(got.Job, 1<<16)
		ask("a", 1)
		if ask("b", 1); got.Reply.Status != x.want {
			t.Errorf("%+v: %+v", x, got.Reply)
		}
	}
}

// mirrored is a source, with mirrors and a child that was given some of the share here before it became one of them.
func mirrored(t *testing.T, size int64, mirrors int, whole bool, before int64) (sw *swarm, give func(to peers.ID, piece share.Piece, pressed bool) int64) {
	t.Helper()
	sw = newSwarm(t, 1)
	m, content := testShare(t, int(size))
	source := sw.add("source", 1e9).seed(m, content)
	give = func(to peers.ID, piece share.Piece, pressed bool) (bytes int64) {
		source.program.Request(AdmitRequest{Child: to, Share: m.ID(), Piece: piece, Bytes: 1 << 20, Pressed: pressed, Reply: func(a Admission) {
			if a.Reply.Status == wire.OK {
				bytes = 1 << 20
			}
			if to == "before" { // the rest is on its way
				source.program.Served(a.Job, int(bytes))
			}
		}})
		sw.w.Settle()
		return bytes
	}
	mirror := wire.Subscribe{Share: m.ID(), Addrs: []string{"/sim"}, Mirror: true, Whole: whole}
	for i := range mirrors - 1 {
		sw.puppet(fmt.Sprint("mirror", i), source).subscribes(source, mirror)
	}
	last := sw.puppet("before", source)
	last.subscribes(source, wire.Subscribe{Share: m.ID()})
	for p := range share.Piece(before >> 20) {
		give("before", p, false)
	}
	last.say(source, wire.Envelope{Kind: wire.KindTell, To: SeederName, Type: wire.TypeUnsubscribe, Payload: wire.Append(nil, wire.Unsubscribe{Share: m.ID(), Done: true})})
	last.subscribes(source, mirror)
	sw.puppet("child", source).subscribes(source, wire.Subscribe{Share: m.ID()})
	return sw, give
}

// A child is given a part of the share by its source, and the rest by the mirrors, when there
// are enough that have all of it, and they helped the one before it.
func TestMirrorsGiveTheRest(t *testing.T) {
	const size = 8 << 20
	for _, x := range []struct {
		mirrors int
		whole   bool
		before  int64 // bytes that the child before was given here
		most    int64 // bytes that this one is given
	}{
		{3, true, 0, 0.75 / 4 * size}, {3, true, size/2 - 1<<20, 0.75 / 4 * size}, {5, true, 0, 1 << 20},
		{2, true, 0, size}, {3, true, size * 5 / 8, size}, {3, false, 0, size}, // too few, of no help, without the rest
	} {
		_, give := mirrored(t, size, x.mirrors, x.whole, x.before)
		given := int64(0)
		for p := range share.Piece(8) {
			given += give("child", p, false)
		}
		if want := (x.most + 1<<20 - 1) >> 20 << 20; given != want {
			t.Errorf("%+v: it was given %d MiB, want %d", x, given>>20, want>>20)
		}
	}
}

// A child that says once that it gets too little from mirrors, or asks on for 4 s, is not sent to them again; one that
// asks now and then is.
func TestAChildIsNotSentToMirrorsForLong(t *testing.T) {
	const size = 8 << 20
	for _, x := range []struct {
		pressed bool // at the third request
		every   time.Duration
		after   int // requests that are not served
	}{
		{false, time.Second, 4}, {true, time.Second, 2}, {false, 4 * time.Second, 10},
	} {
		sw, give := mirrored(t, size, 3, true, 0)
		for p := range share.Piece(2) { // its part
			give("child", p, false)
		}
		refused := 0
		for n := 0; n < 10 && give("child", share.Piece(2+n%6), x.pressed && n == 2) == 0; n++ {
			refused++
			sw.w.Run(x.every)
		}
		if refused != x.after {
			t.Errorf("%+v: %d requests were not served", x, refused)
		}
		if refused < 10 && give("child", 7, false) == 0 {
			t.Errorf("%+v: it is sent to them again", x)
		}
	}
}

func TestChildrenOfAllAgesAreNamed(t *testing.T) {
	const n = 320
	o := &audience{byPeer: map[peers.ID]*child{}}
	at := map[peers.ID]int{}
	for i := range n {
		id := peers.ID(strconv.Itoa(i))
		at[id] = i
		o.add(&child{peer: id, nameable: i%5 != 0, endpoints: []peers.Endpoint{{Addr: "/sim", Port: 4001}}})
	}
	total := map[peers.ID]bool{}
	for call := range 2 * n / maxNamed {
		var ages [10]int
		named := o.name("7", 0, 0, false)
		for _, a := range named {
			ages[at[a.ID]*len(ages)/n]++
			total[a.ID] = true
		}
		if len(named) != maxNamed || slices.Min(ages[:]) < 2 {
			t.Errorf("call %d: %d named, by age %v", call, len(named), ages)
		}
	}
	if want := n*4/5 - 1; len(total) != want || total["7"] || total["5"] {
		t.Errorf("%d of %d were ever named", len(total), want)
	}
	o.mirrors.Add("mirror", "", []peers.Endpoint{{Addr: "/sim", Port: 4001}}, true)
	if named := o.name("7", 0, 0, true); len(named) != 1 || named[0].ID != "mirror" {
		t.Errorf("whoever wants to be told of mirrors alone is told of %v", named)
	}
}

// Children are told goodbye when the catalog no longer has a share, but not if something
// else has taken the place of what was withdrawn.
func TestALateWithdrawalLeavesWhatIsOfferedByOthers(t *testing.T) {
	sw := newSwarm(t, 1)
	m, _ := testShare(t, 8<<20)
	source := sw.add("source", 1e6)
	p := sw.puppet("child", source)
	source.offer(m.ID(), 8, share.NewSet(8))
	p.subscribe(source, m.ID(), 7)
	if told, err := source.program.Withdraw(t.Context(), m.ID(), 0); err != nil || told != 0 {
		t.Errorf("it is offered: %d children were told: %v", told, err)
	}
	source.catalog[m.ID()] = simOffer{coming: true}
	if told, err := source.program.Withdraw(t.Context(), m.ID(), 0); err != nil || told != 1 {
		t.Errorf("it is not offered now: %d children were told, want 1: %v", told, err)
	}
	if r := p.subscribes(source, wire.Subscribe{Share: m.ID()}); r.Accepted || r.Retry == 0 {
		t.Errorf("it is still to come, and the child is not told to come back: %+v", r)
	}
	delete(source.catalog, m.ID())
	if r := p.subscribes(source, wire.Subscribe{Share: m.ID()}); r.Accepted || r.Retry != 0 {
		t.Errorf("it is not there: %+v", r)
	}
}
