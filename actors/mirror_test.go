package actors

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// subscribes makes a puppet subscribe, and returns the answer.
func (p *puppet) subscribes(to *simNode, m wire.Subscribe) (r wire.SubscribeResult) {
	p.sw.t.Helper()
	p.heard = nil
	p.say(to, wire.Envelope{Kind: wire.KindTell, To: SeederName, Reply: 100, Type: wire.TypeSubscribe, Payload: wire.Append(nil, m)})
	p.sw.w.Run(time.Second)
	for _, e := range p.heard {
		if e.Type == wire.TypeSubscribeResult {
			var err error
			if r, err = wire.Parse[wire.SubscribeResult](e.Payload); err != nil {
				p.sw.t.Fatal(err)
			}
		}
	}
	return r
}

// named returns the peers that a newcomer is told about.
func (sw *swarm) named(source *simNode, id share.ID) (ids []peers.ID) {
	sw.t.Helper()
	r := sw.puppet(fmt.Sprint("newcomer", len(sw.order)), source).subscribes(source, wire.Subscribe{Share: id})
	if !r.Accepted {
		sw.t.Errorf("a newcomer is refused: %+v", r)
	}
	for _, a := range r.Children {
		ids = append(ids, a.ID)
	}
	slices.Sort(ids)
	return ids
}

func TestWhoServesOnIsNamedForAsLongAsItCanBeReached(t *testing.T) {
	sw := newSwarm(t, 1)
	sw.w.Patience = time.Second
	m, content := testShare(t, 2<<20)
	source := sw.add("source", 1e6).seed(m, content)
	for name, cfg := range map[string]TransferConfig{"stays": {Keep: true}, "goes": {}, "hides": {Keep: true, Anonymous: true}} {
		n := sw.add(name, 1e6)
		n.fetchWith(m.ID(), cfg, source)
		sw.run(time.Minute, n)
	}
	want := func(when string, ids ...peers.ID) {
		t.Helper()
		if got := sw.named(source, m.ID()); !slices.Equal(got, ids) {
			t.Errorf("%s %v are named, want %v", when, got, ids)
		}
	}
	want("afterwards", "stays")
	sw.w.Cut("stays", "source")
	sw.w.Run(10 * time.Second)
	want("cut off,")
	sw.w.Heal("stays", "source")
	sw.w.Run(2 * time.Minute)
	want("in reach again,", "stays")

	delete(sw.nodes["stays"].catalog, m.ID())
	if _, err := sw.nodes["stays"].program.Withdraw(context.Background(), m.ID(), 0); err != nil {
		t.Fatal(err)
	}
	want("when it serves no longer,")
	for _, left := range sw.nodes["stays"].program.Remains() {
		if left == "node/mirror-2" {
			t.Error("its mirror is left")
		}
	}
}

// Who serves a part of a share on, and then fetches more of it, hears of what is new at its source, also after the connection was lost:
// the source is not told meanwhile that this node serves on, which would end the subscription.
func TestWhoServesOnHearsOfNewPiecesAsItFetchesMore(t *testing.T) {
	sw := newSwarm(t, 1)
	sw.w.Patience = 200 * time.Millisecond
	m, content := testFolder(t, 1<<20, 1<<20, 1<<20, 1<<20)
	a := sw.add("a", 4e6).seed(m, content)
	have := share.NewSet(4)
	have.Add(0)
	a.offer(m.ID(), 4, have)
	n := sw.add("node", 1e6)
	n.fetchSome(m.ID(), TransferConfig{Keep: true}, firstFile, a)
	sw.run(time.Minute, n)
	n.end = nil
	n.fetchWith(m.ID(), TransferConfig{Keep: true, Stall: time.Hour}, a)
	sw.w.Run(2 * time.Second)
	sw.w.Cut("a", "node")
	sw.w.Run(time.Second)
	sw.w.Heal("a", "node")
	sw.w.Run(time.Minute)
	for p := share.Piece(1); p < 4; p++ {
		have.Add(p)
		a.program.s.Send(actor.NewPID(string(a.id), "node/seeder"), PieceAvailable{m.ID(), p, true})
	}
	sw.run(5*time.Minute, n)
	n.complete(content)
}

// Who serves a part of a share on, and whose fetch of more ends early, whichever way, is named as before.
func TestWhoServesOnIsNamedAgainWhenItsFetchOfMoreFails(t *testing.T) {
	for name, end := range map[string]func(n *simNode, id share.ID){
		"stopped": func(n *simNode, id share.ID) { n.program.StopTransfer(Handle{Share: id}) },
		"a bug": func(n *simNode, _ share.ID) {
			n.program.s.Send(actor.NewPID(string(n.id), "node/transfer-3"), system.TaskPanic{Reason: "a test"})
		},
	} {
		sw := newSwarm(t, 1)
		m, content := testFolder(t, 1<<20, 1<<20)
		a := sw.add("a", 4e6).seed(m, content)
		have := share.NewSet(2)
		have.Add(0)
		a.offer(m.ID(), 2, have)
		n := sw.add("node", 1e6)
		n.fetchSome(m.ID(), TransferConfig{Keep: true}, firstFile, a)
		sw.run(time.Minute, n)
		n.end = nil
		n.fetchWith(m.ID(), TransferConfig{Keep: true, Stall: time.Hour}, a)
		sw.w.Run(time.Minute)
		end(n, m.ID())
		if _, err := n.program.Withdraw(t.Context(), m.ID(), 0); err != nil { // the part is still offered
			t.Fatal(err)
		}
		sw.w.Run(time.Minute)
		if named := sw.named(a, m.ID()); n.end == nil || !slices.Contains(named, n.id) {
			t.Errorf("%s: the fetch ended with %+v; named are %v", name, n.end, named)
		}
	}
}

// A source that was stopped and started again has forgotten everybody.
func TestASourceThatWithdrewHearsOfMirrorsAgain(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	source := sw.add("source", 1e6).seed(m, content)
	n := sw.add("node", 1e6)
	n.fetchWith(m.ID(), TransferConfig{Keep: true}, source)
	sw.run(time.Minute, n)
	sw.w.Run(time.Second)
	delete(source.catalog, m.ID())
	if _, err := source.program.Withdraw(context.Background(), m.ID(), 0); err != nil {
		t.Fatal(err)
	}
	sw.w.Run(time.Minute)
	source.offer(m.ID(), m.Layout().Pieces(), nil)
	if got := sw.named(source, m.ID()); len(got) > 0 {
		t.Errorf("%v are named, and nobody has said a word", got)
	}
	sw.w.Run(2 * notBefore)
	if got := sw.named(source, m.ID()); !slices.Equal(got, []peers.ID{"node"}) {
		t.Errorf("%v are named", got)
	}
}

// A peer that was told that the share is already here has not fetched it in this run.
func TestWhatIsHereAlreadyIsServedOnToo(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	source := sw.add("source", 1e6).seed(m, content)
	n := sw.add("node", 1e6).seed(m, content)
	n.known = m
	n.fetchWith(m.ID(), TransferConfig{Keep: true}, source)
	sw.run(time.Minute, n)
	sw.w.Run(time.Second)
	if got := sw.named(source, m.ID()); !slices.Equal(got, []peers.ID{"node"}) {
		t.Errorf("%v are named", got)
	}
}

// A peer has one subscription to a share: a mirror that subscribes as a child, which may not be named, is no mirror any more.
func TestAMirrorThatIsAChildAgainIsNoMirror(t *testing.T) {
	sw := newSwarm(t, 1)
	m, _ := testShare(t, 8<<20)
	source := sw.add("source", 1e6)
	source.offer(m.ID(), 8, share.NewSet(8))
	p := sw.puppet("mirror", source)
	if r := p.subscribes(source, wire.Subscribe{Share: m.ID(), Addrs: []string{"/sim"}, Mirror: true, Whole: true}); !r.Accepted {
		t.Fatalf("as a mirror: %+v", r)
	}
	if r := p.subscribes(source, wire.Subscribe{Share: m.ID(), Addrs: []string{"/sim"}}); !r.Accepted {
		t.Fatalf("as a child: %+v", r)
	}
	if got := sw.named(source, m.ID()); len(got) > 0 {
		t.Errorf("%v are named, though it has replaced its subscription by one that may not be", got)
	}
	if !slices.ContainsFunc(p.heard, func(e wire.Envelope) bool { return e.Type == wire.TypeGoodbye }) {
		t.Error("it was not told that it is no mirror any more")
	}
}

func TestAMirrorHearsOfNothingAndIsNoChild(t *testing.T) {
	sw := newSwarm(t, 1)
	log := &rig.Errors{}
	sw.w.Log = slog.New(log)
	m, _ := testShare(t, 8<<20)
	source := sw.add("source", 1e6)
	source.offer(m.ID(), 8, share.NewSet(8))
	p := sw.puppet("mirror", source)
	if r := p.subscribes(source, wire.Subscribe{Share: m.ID(), Addrs: []string{"/sim"}, Nameable: true}); !r.Accepted {
		t.Fatalf("as a child: %+v", r)
	}
	if r := p.subscribes(source, wire.Subscribe{Share: m.ID(), Addrs: []string{"/sim"}, Mirror: true}); !r.Accepted || len(r.Children) > 0 {
		t.Errorf("as a mirror: %+v", r)
	}
	source.tellSeeder(PieceAvailable{m.ID(), 3, false})
	sw.w.Run(time.Second)
	if n := p.told(8).Count(); n > 0 {
		t.Errorf("it heard of %d pieces", n)
	}
	// Its last message as a child may come after its first as a mirror.
	p.say(source, wire.Envelope{Kind: wire.KindTell, To: SeederName, Type: wire.TypeUnsubscribe, Payload: wire.Append(nil, wire.Unsubscribe{Share: m.ID()})})
	if got := sw.named(source, m.ID()); !slices.Equal(got, []peers.ID{"mirror"}) {
		t.Errorf("%v are named", got)
	}
	delete(source.catalog, m.ID())
	if told, err := source.program.Withdraw(context.Background(), m.ID(), 0); err != nil || told != 1 {
		t.Errorf("%d children were told, %v; want the newcomer", told, err)
	}
	sw.w.Run(time.Second)
	if !slices.ContainsFunc(p.heard, func(e wire.Envelope) bool { return e.Type == wire.TypeGoodbye }) {
		t.Error("the mirror heard no goodbye")
	}
	log.None(t)
}

// Of mirrors that only pretend, few from one network are named, and honest ones beside them.
func TestPretendersDoNotCrowdOutMirrors(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	source := sw.add("source", 1e6).seed(m, content)
	is := wire.Subscribe{Share: m.ID(), Addrs: []string{"/sim"}, Mirror: true}
	refused := 0
	for i := range 40 {
		r := sw.puppet(fmt.Sprint("evil/", i), source).subscribes(source, is)
		if !r.Accepted {
			refused++
			if r.Retry < time.Minute || r.Reason != wire.Why(wire.CodeMirrors) {
				t.Errorf("refused with %+v", r)
			}
		}
	}
	if refused != 24 {
		t.Errorf("%d of 40 of one network were refused, want all but 16", refused)
	}
	for i := range 8 {
		sw.puppet(fmt.Sprint("honest", i), source).subscribes(source, is)
	}
	if r := sw.puppet("nowhere", source).subscribes(source, wire.Subscribe{Share: m.ID(), Mirror: true}); r.Accepted || r.Retry > 0 {
		t.Errorf("one that nobody can dial: %+v", r)
	}
	seen := map[peers.ID]bool{}
	for range 2 {
		got := sw.named(source, m.ID())
		if len(got) != 24 {
			t.Errorf("%d are named of 24", len(got))
		}
		for _, id := range got {
			seen[id] = true
		}
	}
	for i := range 8 {
		if id := peers.ID(fmt.Sprint("honest", i)); !seen[id] {
			t.Errorf("%s is not named", id)
		}
	}
}

// A mirror that has to give way to one of another network is told, and tries again later.
func TestAMirrorThatGivesWayIsTold(t *testing.T) {
	rig.Slow(t)
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	source := sw.add("source", 1e6).seed(m, content)
	is := wire.Subscribe{Share: m.ID(), Addrs: []string{"/sim"}, Mirror: true}
	var all []*puppet
	for i := range 256 {
		p := sw.puppet(fmt.Sprintf("net%d/%d", i%16, i), source)
		if r := p.subscribes(source, is); !r.Accepted {
			t.Fatalf("%d: %+v", i, r)
		}
		all = append(all, p)
	}
	if r := sw.puppet("another", source).subscribes(source, is); !r.Accepted {
		t.Errorf("one of another network: %+v", r)
	}
	told := 0
	for _, p := range all {
		if slices.ContainsFunc(p.heard, func(e wire.Envelope) bool { return e.Type == wire.TypeGoodbye }) {
			told++
		}
	}
	if told != 1 {
		t.Errorf("%d heard that they are mirrors no more, want 1", told)
	}
}

// At most half of those named are mirrors as long as there are children.
func TestChildrenAreNamedBesideMirrors(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	source := sw.add("source", 1e6).seed(m, content)
	for i := range 2 * maxNamed {
		sw.puppet(fmt.Sprint("peer", i), source).subscribes(source, wire.Subscribe{Share: m.ID(), Addrs: []string{"/sim"}, Nameable: true, Mirror: i%2 == 0})
	}
	mirrors := 0
	got := sw.named(source, m.ID())
	for _, id := range got {
		var i int
		fmt.Sscanf(string(id), "peer%d", &i)
		mirrors += 1 - i%2
	}
	if len(got) != maxNamed || mirrors != maxNamed/2 {
		t.Errorf("%d are named, %d of them mirrors", len(got), mirrors)
	}
}

// A node that knows no mirrors treats one as a child and tells it what it has.
func TestAMirrorPutsUpWithANodeThatKnowsNone(t *testing.T) {
	sw := newSwarm(t, 1)
	log := &rig.Errors{}
	sw.w.Log = slog.New(log)
	m, _ := testShare(t, 2<<20)
	n := sw.add("node", 1e6)
	old := sw.puppet("old", n)
	n.program.s.Send(n.program.node, ServeOn{Share: m.ID(), Layout: m.Layout(), Sources: []peers.Addr{{ID: "old"}, {ID: "node"}, {ID: "old"}}})
	sw.w.Run(time.Second)
	var reply uint64
	for _, e := range old.heard {
		if e.Type == wire.TypeSubscribe {
			if reply != 0 {
				t.Error("told twice")
			}
			reply = e.Reply
			sub, err := wire.Parse[wire.Subscribe](e.Payload)
			if err != nil || !sub.Mirror || !sub.Nameable || len(sub.Addrs) == 0 {
				t.Errorf("said %+v, %v", sub, err)
			}
		}
	}
	for typ, b := range map[uint32][]byte{
		wire.TypeSubscribeResult: wire.Append(nil, wire.SubscribeResult{Share: m.ID(), Accepted: true}),
		wire.TypeHaveMap:         wire.Append(nil, wire.HaveMap{Share: m.ID(), Pieces: 2, Bits: share.FullSet(2).Bytes()}),
		wire.TypeHave:            wire.Append(nil, wire.Have{Share: m.ID(), Pieces: []share.Piece{1}}),
		wire.TypeShareGone:       wire.Append(nil, wire.ShareGone{Share: m.ID(), Reason: wire.Why(wire.CodeFileChanged)}),
	} {
		old.say(n, wire.Envelope{Kind: wire.KindReply, Token: reply, Type: typ, Payload: b})
	}
	sw.w.Run(time.Hour)
	log.None(t)
}

// A source calls a node that does not want its share yet, and calls again soon: then it is fetched from,
// though the node cannot know where it is.
func TestASourceIsFetchedFromOnceItsShareIsWanted(t *testing.T) {
	const again = 30 * time.Second
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	source, n := sw.add("source", 1e6).seed(m, content), sw.add("node", 1e6)
	source.program.Tell(ServeOn{Share: m.ID(), Layout: m.Layout(), Sources: []peers.Addr{{ID: n.id, Addrs: []string{"/sim"}}}, Again: again})
	sw.w.Run(5 * time.Minute)
	n.fetch(m.ID())
	sw.w.Run(2 * again)
	if n.end == nil || n.end.Err != nil {
		t.Fatalf("%+v", n.end)
	}
}

// A source that has called goes on calling, also if it begins to fetch its share itself.
func TestWhoCallsAndFetchesToo(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	source, n, lacks := sw.add("source", 1e6).seed(m, content), sw.add("node", 1e6), sw.add("lacks", 1e6)
	source.program.Tell(ServeOn{Share: m.ID(), Layout: m.Layout(), Sources: []peers.Addr{{ID: n.id, Addrs: []string{"/sim"}}}, Again: 30 * time.Second, Heard: func(peers.ID, error) {}})
	sw.w.Run(time.Second)
	source.fetchWith(m.ID(), TransferConfig{Stall: time.Hour, Called: true}, lacks)
	sw.w.Run(time.Minute)
	n.fetch(m.ID())
	sw.run(time.Minute, n)
	n.complete(content)
}
