package actors

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/fetchpool"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/transfer"
	"github.com/piecelease/fetcher/wire"
)

// Each pool that was refused hears that it may ask again, and not only the first: none
// asks by itself.
func TestEveryRefusedPoolHearsThatLeasesAreFree(t *testing.T) {
	w, n, _ := newWorld(1, "a")
	s := n[0]
	defer closeNode(t, s)
	var leases *actor.PID
	s.Spawn(nil, "transfer", 10, receive(func(ctx actor.Context) {
		if _, ok := ctx.Message().(*actor.Started); ok {
			self := ctx.Self()
			leases = s.Spawn(ctx, "leases", 100, func() actor.Actor {
				return newLeaseManager(s, self, NewRation(s, 0), TransferConfig{}, nil, leasemgr.Plan{Layout: evenPieces(8), Epoch: 1, Seed: 1})
			}, system.OnPanicStop)
		}
	}), system.OnPanicStop)
	w.Settle()
	s.Send(leases, PauseLeases{Paused: true, Why: "a test"})
	w.Settle()
	var told []string
	for _, id := range []peers.ID{"first", "second", "third"} {
		s.Spawn(nil, string(id), 10, receive(func(ctx actor.Context) {
			switch ctx.Message().(type) {
			case *actor.Started:
				ctx.Request(leases, SourceUp{id})
				ctx.Request(leases, SourceHas{id, share.FullSet(8)})
				ctx.Request(leases, LeaseRequest{Source: id, Max: 1})
			case LeasesAvailable:
				told = append(told, string(id))
			}
		}), system.OnPanicStop)
	}
	w.Settle()
	s.Send(leases, PauseLeases{})
	w.Settle()
	slices.Sort(told)
	if !slices.Equal(told, []string{"first", "second", "third"}) {
		t.Errorf("told that leases are free: %v", told)
	}
}

// watched is a network that notes for which pieces its links ask.
type watched struct {
	*simNode
	asked []share.Piece
	sink  Sink // of the last link
}

func (x *watched) Open(to peers.Addr, id share.ID, layout *share.Layout, k Sink) Link {
	x.sink = k
	return &watchedLink{x.simNode.Open(to, id, layout, k), x}
}

type watchedLink struct {
	Link
	x *watched
}

func (l *watchedLink) Request(r wire.PieceRequest) bool {
	l.x.asked = append(l.x.asked, share.Piece(r.Piece))
	return l.Link.Request(r)
}

// The lease manager says that a reader waits for a piece that was leased before: the
// pool asks for it before all that it holds and has not asked for.
func TestAPoolAsksFirstForWhatBecameUrgent(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 8<<20)
	source := sw.add("source", 1e5).seed(m, content)
	n := sw.add("node", 1e6)
	net, s := &watched{simNode: n}, n.program.s
	defer closeNode(t, s)
	others := s.Spawn(nil, "others", 1000, receive(func(ctx actor.Context) {
		if r, ok := ctx.Message().(LeaseRequest); ok && r.Max > 0 {
			all := LeaseResponse{Refused: leasemgr.Refusal{Reason: leasemgr.AllLeased}}
			for _, p := range []share.Piece{0, 1, 6} {
				all.Leases = append(all.Leases, leasemgr.Lease{Piece: p, Token: share.Token(p) + 1, Source: "source"})
			}
			ctx.Respond(all)
		}
	}), system.OnPanicStop)
	pool := poolAlone(n, net, source, others, m)
	sw.w.Run(500 * time.Millisecond)
	before := len(net.asked)
	if before == 0 || slices.Contains(net.asked, 6) {
		t.Fatalf("asked for %v", net.asked)
	}
	s.Send(pool, LeaseUrgent{6, 7})
	sw.w.Run(2 * time.Second)
	if after := net.asked[before:]; len(after) == 0 || after[0] != 6 {
		t.Errorf("asked for %v, then a reader waited for 6, and for %v", net.asked[:before], after)
	}
	s.Root.Stop(pool)
	sw.w.Settle()
}

// A source that says that it is busy may be the only one: the lease manager is told. That it has given a piece to others says
// nothing of that kind.
func TestThatASourceIsBusyIsPassedOn(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 8<<20)
	source := sw.add("source", 1e5).seed(m, content)
	n := sw.add("node", 1e6)
	net, s := &watched{simNode: n}, n.program.s
	defer closeNode(t, s)
	busy := 0
	others := s.Spawn(nil, "others", 1000, receive(func(ctx actor.Context) {
		if m, ok := ctx.Message().(SourceBusy); ok && m.Source == "source" {
			busy++
		}
	}), system.OnPanicStop)
	pool := poolAlone(n, net, source, others, m)
	sw.w.Run(500 * time.Millisecond)
	for _, r := range []wire.Reply{{Status: wire.Busy, Retry: time.Second, Elsewhere: true}, {Status: wire.NotFound}, {Status: wire.Busy, Retry: time.Second}} {
		net.sink.Status(1, r)
	}
	sw.w.Settle()
	if busy != 1 {
		t.Error("told", busy, "times")
	}
	s.Root.Stop(pool)
	sw.w.Settle()
}

// unanswered is a node that fetches 8 MiB from a slow source. That says with the list of files that it has every piece,
// and answers no subscription until end is called.
func unanswered(t *testing.T) (sw *swarm, n *simNode, content []byte, end func()) {
	sw = newSwarm(t, 1)
	m, content := testShare(t, 8<<20)
	source := sw.add("source", 1e5).seed(m, content)
	source.whole = true
	source.rewrite = func(frame []byte) []byte {
		e, err := wire.ParseEnvelope(frame)
		if err == nil && e.Type == wire.TypeSubscribeResult {
			e.Kind = wire.KindUnwatch
			frame = wire.AppendEnvelope(nil, e)
		}
		return frame
	}
	n = sw.add("node", 1e6)
	n.fetch(m.ID(), source)
	return sw, n, content, func() { source.rewrite = nil }
}

// A source that said with the list of files that it has every piece is asked for some before it answers the
// subscription; on a later link, when it may have less, it is not.
func TestWhatASourceSaidItHasIsGoodForOneLink(t *testing.T) {
	sw, n, content, end := unanswered(t)
	source := sw.nodes["source"]
	sw.w.Run(10*time.Second + 500*time.Millisecond)
	first := n.asked
	if first == 0 || len(n.opened) != 1 {
		t.Fatalf("asked for %d bytes on %d links", first, len(n.opened))
	}
	source.mute = true
	for len(n.opened) < 2 && sw.w.Elapsed() < time.Minute {
		sw.w.Run(time.Second)
	}
	first = n.asked
	source.mute = false
	sw.w.Run(8 * time.Second)
	if len(n.opened) != 2 || n.asked != first {
		t.Errorf("asked for %d bytes more, on %d links", n.asked-first, len(n.opened))
	}
	end()
	sw.run(3*time.Minute, n)
	n.complete(content)
	sw.w.Run(time.Second)
	if running := n.program.budget.Fetches(); running != 0 {
		t.Error(running, "transfers are counted at the end")
	}
}

// While a node fetches something else, a source is asked for nothing before it has answered the subscription.
func TestOneFetchOfManyAwaitsTheSubscription(t *testing.T) {
	sw, n, content, end := unanswered(t)
	another, _ := testShare(t, 1<<20)
	late := sw.add("late", 1e6)
	late.busy = time.Minute
	n.fetchWith(another.ID(), TransferConfig{Verifiers: 1, Stall: time.Hour}, late)
	sw.w.Run(9 * time.Second)
	if len(n.opened) != 1 || n.asked != 0 {
		t.Errorf("asked for %d bytes on %d links", n.asked, len(n.opened))
	}
	end()
	sw.w.Run(3 * time.Minute)
	if int64(len(content)) > n.in["source"] {
		t.Errorf("got %d of %d bytes", n.in["source"], len(content))
	}
}

// poolAlone is a pool of a source whose neighbours are all one actor.
func poolAlone(n *simNode, net Network, source *simNode, others *actor.PID, m *share.Manifest) *actor.PID {
	s := n.program.s
	return s.Spawn(nil, "pool", 1000, func() actor.Actor {
		at := peers.Addr{ID: source.id, Addrs: source.Addrs()}
		return &fetchPool{s: s, net: net, budget: NewBudget(s, 1<<30, 1<<20), ration: NewRation(s, 0), transfer: others, leases: others,
			verifiers: []*actor.PID{others}, finder: others, source: at, at: transfer.Addresses{at}, share: m.ID(), layout: m.Layout(),
			core: fetchpool.New(fetchpool.Config{}, m.Layout(), 1, s.Now())}
	}, system.OnPanicStop)
}

// Messages of an old link change nothing, and their data is released.
func TestAPoolBelievesItsLinkOfNowAlone(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 8<<20)
	source := sw.add("source", 1e5).seed(m, content)
	n := sw.add("node", 1e6)
	s := n.program.s
	defer closeNode(t, s)
	proofs := 0
	others := s.Spawn(nil, "others", 1000, receive(func(ctx actor.Context) {
		switch r := ctx.Message().(type) {
		case LeaseRequest:
			ctx.Respond(LeaseResponse{Leases: []leasemgr.Lease{{Piece: 0, Token: 1, Source: "source"}}, Refused: leasemgr.Refusal{Reason: leasemgr.AllLeased}})
		case CheckProof:
			proofs++
		case CheckBlocks:
			r.Release()
		}
	}), system.OnPanicStop)
	pool := poolAlone(n, n, source, others, m)
	sw.w.Run(time.Second)
	n.opened[0].sink.Down(errGoodbye)
	sw.w.Run(10 * time.Second)
	if len(n.opened) != 2 {
		t.Fatalf("%d links were opened", len(n.opened))
	}
	before, given, old := proofs, 0, n.opened[0].sink
	for req := range uint64(1000) { // of which the pool has made some
		old.Proof(req, nil)
		old.Blocks(req, 0, []byte{1}, func() { given++ })
	}
	old.Down(errGoodbye)
	sw.w.Run(10 * time.Second)
	if len(n.opened) != 2 || proofs != before || given != 1000 {
		t.Errorf("%d links were opened, %d proofs of the old one were passed on, %d of 1000 blocks given back", len(n.opened), proofs-before, given)
	}
	s.Root.Stop(pool)
	sw.w.Settle()
}

// What waits for the verifier, because the disk is slow, makes no source late: neither bytes that have come, nor a piece of which
// it is not yet known what is here.
func TestWhatWaitsForASlowDiskIsNotLate(t *testing.T) {
	for _, begun := range []bool{false, true} {
		sw := newSwarm(t, 1)
		m, content := testShare(t, 8<<20)
		source := sw.add("source", 1e8).seed(m, content)
		n := sw.add("node", 1e6)
		s := n.program.s
		leases, owed, slow, excused := []leasemgr.Lease{{Piece: 0, Token: 1, Source: "source", Begun: begun}}, []any(nil), true, 0
		var pool *actor.PID
		answers := func() {
			for _, m := range owed {
				s.Send(pool, m)
			}
			owed = nil
		}
		others := s.Spawn(nil, "others", 1000, receive(func(ctx actor.Context) {
			switch r := ctx.Message().(type) {
			case LeaseRequest:
				ctx.Respond(LeaseResponse{Leases: leases, Refused: leasemgr.Refusal{Reason: leasemgr.AllLeased}})
				leases = nil
			case AskPieces:
				owed = append(owed, PieceStates{[]PieceState{{Piece: 0, Token: 1}}})
			case CheckBlocks:
				r.Release()
				owed = append(owed, BlocksChecked{len(r.Data), len(r.Data)})
			case SourceExcused:
				excused++
			}
			if !slow {
				answers()
			}
		}), system.OnPanicStop)
		pool = poolAlone(n, n, source, others, m)
		sw.w.Run(8 * time.Second)
		if excused < 25 {
			t.Errorf("begun: %v: in 8 s excused %d times", begun, excused)
		}
		slow = false
		answers()
		sw.w.Run(time.Second)
		excused = 0
		sw.w.Run(8 * time.Second)
		if excused != 0 {
			t.Errorf("begun: %v: excused %d times though nothing waits", begun, excused)
		}
		closeNode(t, s)
	}
}

// One peer may name so many others and no more, however often it does; others are
// still heard.
func TestAFinderBelievesOneNamerSoManyPeers(t *testing.T) {
	sw := newSwarm(t, 1)
	n := sw.add("node", 1e6)
	s := n.program.s
	defer closeNode(t, s)
	finder := s.Spawn(nil, "a-finder", 1000, func() actor.Actor { return newFinder(s, n, nil, nil) }, system.OnPanicStop)
	id, found := share.IDOf(nil), map[string]int{}
	s.Spawn(nil, "a-transfer", 1000, receive(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *actor.Started:
			ctx.Request(finder, FindSources{Share: id})
		case SourceFound:
			found[string(m.Addr.By)]++
		}
	}), system.OnPanicStop)
	sw.w.Settle()
	name := func(by peers.ID, times int) {
		for i := range times {
			var all []peers.Addr
			for k := range 32 {
				all = append(all, peers.Addr{ID: peers.ID(fmt.Sprint(by, " knows ", i, " ", k)), Addrs: []string{"/sim"}})
			}
			s.Send(finder, PeersNamed{Share: id, By: by, Via: peers.ViaPeer, Peers: all})
			sw.w.Settle()
		}
	}
	name("talker", 10)
	name("other", 1)
	if found["talker"] != maxNamedBy || found["other"] != 32 {
		t.Errorf("found %v; want %d by the talker and 32 by the other", found, maxNamedBy)
	}
}

// Transfers of one share look for it beside one another: each is told who has it, and the beacons of all are asked.
func TestAFinderLooksForSeveralTransfersOfAShare(t *testing.T) {
	sw := newSwarm(t, 1)
	n := sw.add("node", 1e6)
	s := n.program.s
	defer closeNode(t, s)
	var asked []string
	beacons := s.Spawn(nil, "some-beacons", 1000, receive(func(ctx actor.Context) {
		if m, ok := ctx.Message().(SeekAt); ok {
			at := ""
			for _, x := range m.At {
				at += string(x.Beacon.ID)
			}
			asked = append(asked, at)
		}
	}), system.OnPanicStop)
	finder := s.Spawn(nil, "a-finder", 1000, func() actor.Actor { return newFinder(s, n, nil, beacons) }, system.OnPanicStop)
	id, found := share.IDOf(nil), map[string]string{}
	type end struct{}
	wants := func(name string) *actor.PID {
		return s.Spawn(nil, "transfer-of-"+name, 1000, receive(func(ctx actor.Context) {
			switch m := ctx.Message().(type) {
			case *actor.Started:
				ctx.Request(finder, FindSources{Share: id, Known: []peers.Addr{{ID: peers.ID("known to " + name), Addrs: []string{"/sim"}}}, Beacons: []Meeting{{Beacon: peers.Addr{ID: peers.ID(name)}}}})
			case end:
				ctx.Request(finder, StopFinding{id})
			case SourceFound:
				found[name] += string(m.Addr.ID) + ", "
			}
		}), system.OnPanicStop)
	}
	a := wants("a")
	sw.w.Settle()
	b := wants("b")
	sw.w.Settle()
	name := func(who peers.ID) {
		s.Send(finder, PeersNamed{Share: id, By: "peer", Via: peers.ViaPeer, Peers: []peers.Addr{{ID: who, Addrs: []string{"/sim"}}}})
		sw.w.Settle()
	}
	name("x")
	for _, pid := range []*actor.PID{a, a, b} {
		s.Send(pid, end{})
		sw.w.Settle()
		name("y")
	}
	if found["a"] != "known to a, x, " || found["b"] != "known to b, x, y, " || !slices.Equal(asked, []string{"a", "ab", "b", ""}) {
		t.Errorf("found %q; beacons asked %q", found, asked)
	}
}

// The local network may say so often where a source is and no more: each word of it has the
// source dialled there at once.
func TestAFinderBelievesTheLocalNetworkSoOften(t *testing.T) {
	sw := newSwarm(t, 1)
	n := sw.add("node", 1e6)
	s := n.program.s
	defer closeNode(t, s)
	finder := s.Spawn(nil, "a-finder", 1000, func() actor.Actor { return newFinder(s, n, nil, nil) }, system.OnPanicStop)
	id, found := share.IDOf(nil), 0
	s.Spawn(nil, "a-transfer", 1000, receive(func(ctx actor.Context) {
		switch ctx.Message().(type) {
		case *actor.Started:
			ctx.Request(finder, FindSources{Share: id, Known: []peers.Addr{{ID: "source", Addrs: []string{"/sim"}}}})
		case SourceFound:
			found++
		}
	}), system.OnPanicStop)
	sw.w.Settle()
	for i := range 10 * maxNamedBy {
		s.Send(finder, PeersNamed{Share: id, By: "lan", Via: peers.ViaLAN, Peers: []peers.Addr{{ID: "source", Addrs: []string{fmt.Sprint("/sim/", i)}}}})
		sw.w.Settle()
	}
	if found != 1+maxNamedBy {
		t.Errorf("it was told %d times where the source is", found)
	}
}

// A plan says whether what is missing first waits for a source that has it.
func TestAPlanSaysThatNoSourceHasWhatIsMissing(t *testing.T) {
	w, n, _ := newWorld(1, "a")
	s := n[0]
	defer closeNode(t, s)
	var plans []PlanStatus
	s.Spawn(nil, "transfer", 10, receive(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *actor.Started:
			self := ctx.Self()
			leases := s.Spawn(ctx, "leases", 100, func() actor.Actor {
				return newLeaseManager(s, self, NewRation(s, 0), TransferConfig{}, nil, leasemgr.Plan{Layout: evenPieces(8), Epoch: 1, Seed: 1})
			}, system.OnPanicStop)
			ctx.Request(leases, SourceUp{"source"})
			part := share.NewSet(8)
			for _, has := range []*share.Set{part, share.FullSet(8)} {
				part.Add(7)
				ctx.Request(leases, SourceHas{"source", has})
				ctx.Request(leases, PlanQuery{Lines: 10})
			}
		case PlanStatus:
			plans = append(plans, m)
		}
	}), system.OnPanicStop)
	w.Settle()
	if len(plans) != 2 || !plans[0].Lacking || plans[1].Lacking {
		t.Errorf("%+v", plans)
	}
}

// A source that comes by itself is told yes only if its share is wanted, and nobody is told of a
// fetch that hides.
func TestAFinderTakesSourcesThatComeByThemselves(t *testing.T) {
	sw := newSwarm(t, 1)
	n := sw.add("node", 1e6)
	s := n.program.s
	defer closeNode(t, s)
	finder := s.Spawn(nil, "a-finder", 1000, func() actor.Actor { return newFinder(s, n, nil, nil) }, system.OnPanicStop)
	wanted, hidden, other := share.IDOf(nil), share.IDOf([]byte{1}), share.IDOf([]byte{2})
	n.met["caller"] = true
	var found []share.ID
	told := map[share.ID]wire.SubscribeResult{}
	s.Spawn(nil, "a-transfer", 1000, receive(func(ctx actor.Context) {
		switch m := ctx.Message().(type) {
		case *actor.Started:
			ctx.Request(finder, FindSources{Share: wanted})
			ctx.Request(finder, FindSources{Share: hidden, Hidden: true})
			for _, id := range []share.ID{wanted, hidden, other} {
				ctx.Request(finder, SourceCame{peers.Addr{ID: "caller"}, wire.SubscribeResult{Share: id, Retry: time.Hour}})
			}
		case wire.SubscribeResult:
			told[m.Share] = m
		case SourceFound:
			found = append(found, wanted)
			if m.Addr.ID != "caller" || m.Via != peers.ViaItself {
				t.Errorf("found %+v", m)
			}
		}
	}), system.OnPanicStop)
	sw.w.Settle()
	if len(found) != 1 {
		t.Errorf("%d sources were found", len(found))
	}
	for id, yes := range map[share.ID]bool{wanted: true, hidden: false, other: false} {
		if m := told[id]; m.Accepted != yes || (m.Retry == time.Hour) == yes {
			t.Errorf("%v, want %v", m, yes)
		}
	}
}
