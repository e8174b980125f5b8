package actors

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// This file tests guards that are seldom needed: another guard usually acts before each
// of them, so here it is tested alone.

// A source that withdraws the share is dropped at once, whether it says so to all of
// its children or in answer to a request, even if its link would deliver more.
func TestASourceThatWithdrawsIsOut(t *testing.T) {
	for name, c := range map[string]struct {
		withdraw func(t *testing.T, source *simNode, id share.ID)
		why      string
	}{
		"to all": {func(t *testing.T, source *simNode, id share.ID) {
			delete(source.catalog, id)
			if told, err := source.program.Withdraw(t.Context(), id, wire.CodeFileChanged); err != nil || told != 1 {
				t.Errorf("told %d: %v", told, err)
			}
		}, "no longer has the share: a file of it has changed"},
		"to one request": {func(t *testing.T, source *simNode, id share.ID) {
			l := source.inbound[0]
			l.sink.Status(slices.Min(slices.Collect(maps.Keys(l.open))), wire.Reply{Status: wire.Gone, Reason: wire.Reason{Prose: "sold"}})
		}, `no longer has the share: "sold"`},
	} {
		t.Run(name, func(t *testing.T) {
			sw := newSwarm(t, 1)
			m, content := testShare(t, 8<<20)
			source := sw.add("source", 1e6).seed(m, content)
			other := sw.add("other", 1e5).seed(m, content) // without it the fetch would end
			n := sw.add("node", 1e6)
			n.fetch(m.ID(), source, other)
			sw.w.Run(2 * time.Second)
			c.withdraw(t, source, m.ID())
			sw.w.Run(time.Second)
			p, err := n.program.Progress(t.Context(), Handle{Share: m.ID()})
			if err != nil || p.Sources[0].State != Left || !strings.Contains(p.Sources[0].Why, c.why) {
				t.Errorf("its source: %+v, %v", p.Sources, err)
			}
		})
	}
}

// The answer to a subscription may come behind the one that accepts an earlier one: if it is no, for now, the source is asked again.
func TestALateNoToASubscriptionDoesNotEndTheSource(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 8<<20)
	source := sw.add("source", 1e6).seed(m, content)
	n := sw.add("node", 1e6)
	n.fetch(m.ID(), source)
	sw.w.Run(2 * time.Second)
	pool := actor.NewPID(string(n.id), "node/transfer-1/pool-1-source")
	n.program.s.Send(pool, wire.SubscribeResult{Share: m.ID(), Reason: wire.Why(wire.CodeTooOften), Retry: 100 * time.Millisecond})
	sw.run(5*time.Minute, n)
	n.complete(content)
}

// What a source has leased is wanted again when the source is gone, and when its
// pool ends without a message.
func TestLeasesOfWhoIsGoneReturn(t *testing.T) {
	for name, end := range map[string]func(s *system.System, leases, pool *actor.PID){
		"source": func(s *system.System, leases, _ *actor.PID) { s.Send(leases, SourceDown{"source"}) },
		"pool":   func(s *system.System, _, pool *actor.PID) { s.Root.Stop(pool) },
	} {
		t.Run(name, func(t *testing.T) {
			w, n, _ := newWorld(1, "a")
			s := n[0]
			defer closeNode(t, s)
			transfer := s.Spawn(nil, "transfer", 10, receive(func(actor.Context) {}), system.OnPanicStop)
			leases := s.Spawn(nil, "leases", 10, func() actor.Actor {
				return newLeaseManager(s, transfer, NewRation(s, 0), TransferConfig{}, nil, leasemgr.Plan{Layout: evenPieces(8), Epoch: 1, Seed: 1})
			}, system.OnPanicStop)
			granted := 0
			pool := s.Spawn(nil, "pool", 10, receive(func(ctx actor.Context) {
				switch m := ctx.Message().(type) {
				case *actor.Started:
					ctx.Request(leases, SourceUp{"source"})
					ctx.Request(leases, SourceHas{"source", share.FullSet(8)})
					ctx.Request(leases, LeaseRequest{Source: "source", Max: 3})
				case LeaseResponse:
					granted = len(m.Leases)
				}
			}), system.OnPanicStop)
			w.Settle()
			end(s, leases, pool)
			w.Settle()
			if st, err := system.Ask[PlanStatus](context.Background(), s, leases, PlanQuery{}); err != nil || granted != 3 || st.Leased != 0 || st.Wanted != 8 {
				t.Errorf("granted %d, then %+v, %v", granted, st, err)
			}
		})
	}
}

// A pool that has failed may end after the next one of its source has begun: what it had leased is wanted again all the same.
func TestLeasesOfAPoolThatEndsBehindTheNextReturn(t *testing.T) {
	w, n, _ := newWorld(1, "a")
	s := n[0]
	defer closeNode(t, s)
	transfer := s.Spawn(nil, "transfer", 10, receive(func(actor.Context) {}), system.OnPanicStop)
	leases := s.Spawn(nil, "leases", 10, func() actor.Actor {
		return newLeaseManager(s, transfer, NewRation(s, 0), TransferConfig{}, nil, leasemgr.Plan{Layout: evenPieces(8), Epoch: 1, Seed: 1})
	}, system.OnPanicStop)
	pool := func(name string, more ...any) *actor.PID {
		return s.Spawn(nil, name, 10, receive(func(ctx actor.Context) {
			if _, ok := ctx.Message().(*actor.Started); ok {
				for _, m := range append([]any{SourceUp{"source"}}, more...) {
					ctx.Request(leases, m)
				}
			}
		}), system.OnPanicStop)
	}
	old := pool("pool-1", SourceHas{"source", share.FullSet(8)}, LeaseRequest{Source: "source", Max: 3})
	w.Settle()
	pool("pool-2")
	w.Settle()
	s.Root.Stop(old)
	w.Settle()
	if st, err := system.Ask[PlanStatus](context.Background(), s, leases, PlanQuery{}); err != nil || st.Leased != 0 || st.Wanted != 8 {
		t.Errorf("nobody works on anything, and the plan is %+v, %v", st, err)
	}
}

// Blocks that come without a proof are not a lie: the proof may have been lost.
func TestBlocksWithoutAProofAreNoLie(t *testing.T) {
	w, n, _ := newWorld(1, "a")
	s := n[0]
	defer closeNode(t, s)
	m, content := testShare(t, 2<<20)
	var told []any
	others := s.Spawn(nil, "others", 10, receive(func(ctx actor.Context) {
		switch x := ctx.Message().(type) {
		case LeaseReturned, SourceLied:
			told = append(told, x)
		}
	}), system.OnPanicStop)
	v := s.Spawn(nil, "verifier", 10, func() actor.Actor { return newPieceVerifier(s, others, others, nil, m) }, system.OnPanicStop)
	released := false
	s.Root.RequestWithCustomSender(v, CheckBlocks{1, 7, "source", 0, content[1<<20:][:share.BlockSize], func() { released = true }}, others)
	w.Settle()
	if len(told) != 1 || !released {
		t.Fatalf("told %+v, released: %v", told, released)
	}
	if r, ok := told[0].(LeaseReturned); !ok || len(r.Leases) != 1 || r.Leases[0].Why != leasemgr.GaveBack || r.Leases[0].Token != 7 {
		t.Errorf("told %+v", told[0])
	}
}

// A transfer that has ended leaves no actor behind and no alarm.
func TestATransferThatHasEndedLeavesNothing(t *testing.T) {
	for _, whole := range []bool{true, false} {
		sw := newSwarm(t, 1)
		m, content := testShare(t, 8<<20)
		source := sw.add("source", 4e6).seed(m, content)
		n := sw.add("node", 1e6)
		sw.w.Settle()
		before := n.program.s.Running()
		n.fetch(m.ID(), source)
		if !whole {
			sw.w.Run(time.Second)
			n.program.StopTransfer(Handle{Share: m.ID()})
		}
		sw.run(time.Minute, n)
		sw.w.Run(100 * time.Millisecond)
		if after := n.program.s.Running(); !slices.Equal(after, before) {
			t.Errorf("whole: %v: %v are left of %v", whole, after, before)
		}
		for _, after := range n.program.s.Pending() {
			if after < saveRanking/2 {
				t.Errorf("whole: %v: something is to happen in %v", whole, after)
			}
		}
	}
}

// A coordinator that was told to stop leaves no alarm, even if leases are out.
func TestACoordinatorThatHasEndedLeavesNoAlarm(t *testing.T) {
	f, k := newTable(t, "a")
	a := k[0]
	a.join(t)
	if _, ls := leasesOf(t, a.say(a.source("x"), a.ask("x", 2))); len(ls) != 2 {
		t.Fatalf("granted %+v", ls)
	}
	if err := f.seat.program.StopCoordinating(t.Context(), f.m.ID()); err != nil {
		t.Fatal(err)
	}
	f.w.Run(100 * time.Millisecond)
	for _, after := range f.seat.program.s.Pending() {
		t.Errorf("something is to happen in %v", after)
	}
}

// The disk is closed when nobody writes to it any more.
func TestTheDiskIsClosedBehindTheLastVerifier(t *testing.T) {
	rig.Slow(t)
	for seed := range uint64(10) {
		sw := newSwarm(t, seed)
		m, content := testShare(t, 8<<20)
		source := sw.add("source", 20e6).seed(m, content)
		n := sw.add("node", 1e6)
		n.fetch(m.ID(), source)
		sw.w.Run(300 * time.Millisecond)
		began := 0
		sw.w.TaskDelay = func(*rand.Rand) time.Duration { // a task begins: it closes the disk
			began++
			for _, id := range n.program.Transfers() {
				if strings.Contains(id, "/verifier-") {
					t.Errorf("seed %d: closed beside %s", seed, id)
				}
			}
			return 0
		}
		n.program.StopTransfer(Handle{Share: m.ID()})
		sw.run(10*time.Second, n)
		if began == 0 {
			t.Errorf("seed %d: nothing was closed", seed)
		}
	}
}

// A Finder that is restarted after a panic still finds sources for the transfers that run.
func TestAFinderThatPanickedFindsOn(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 8<<20)
	a := sw.add("a", 1e5).seed(m, content)
	b := sw.add("b", 1e5).seed(m, content)
	n := sw.add("node", 1e6)
	n.fetch(m.ID(), a)
	sw.w.Run(time.Second)
	finder := actor.NewPID(string(n.id), "node/finder")
	n.program.s.Send(finder, system.TaskPanic{Reason: "a test"})
	sw.w.Run(time.Second)
	n.program.s.Send(finder, PeersNamed{Share: m.ID(), By: a.id, Via: peers.ViaPeer, Peers: []peers.Addr{{ID: b.id, Addrs: []string{"/sim"}}}})
	sw.w.Run(time.Second)
	if p, err := n.program.Progress(t.Context(), Handle{Share: m.ID()}); err != nil || len(p.Sources) != 2 {
		t.Errorf("a was told first, then b was named: %d sources, %v", len(p.Sources), err)
	}
}

// Whoever fetches from a node whose Seeder was restarted after a panic still hears what is new there, or is told to subscribe again.
func TestASeederThatPanickedIsHeardOn(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 4<<20)
	a := sw.add("a", 4e6).seed(m, content)
	have := share.NewSet(4)
	have.Add(0)
	a.offer(m.ID(), 4, have)
	n := sw.add("node", 1e6)
	n.fetch(m.ID(), a)
	sw.w.Run(5 * time.Second)
	seeder := actor.NewPID(string(a.id), "node/seeder")
	a.program.s.Send(seeder, system.TaskPanic{Reason: "a test"})
	sw.w.Run(time.Second)
	for p := share.Piece(1); p < 4; p++ {
		have.Add(p)
		a.program.s.Send(seeder, PieceAvailable{m.ID(), p, true})
	}
	sw.run(5*time.Minute, n)
	n.complete(content)
}

// A Seeder that is restarted after a panic leaves nobody without an answer, keeps to the limit that was set, and gives no number
// twice: what was let in before is still being sent.
func TestASeederThatPanickedGoesOnWithItsJobs(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 4<<20)
	a := sw.add("a", 1e6).seed(m, content)
	a.program.Tell(SetUploadRate{Rate: 1})
	var jobs []peers.Job
	busy := 0
	ask := func(n int) {
		for range n {
			a.program.Tell(AdmitRequest{Child: "child", Share: m.ID(), Bytes: 1 << 20, Reply: func(x Admission) {
				if x.Reply.Status == wire.OK {
					jobs = append(jobs, x.Job)
				} else {
					busy++
				}
			}})
		}
		sw.w.Settle()
	}
	ask(10)
	before := len(jobs)
	a.program.s.Send(actor.NewPID(string(a.id), "node/seeder"), system.TaskPanic{Reason: "a test"})
	sw.w.Settle()
	if before+busy != 10 {
		t.Errorf("of 10 requests %d were let in, and %d refused", before, busy)
	}
	ask(10)
	if again := jobs[before:]; len(again) != before || slices.Min(again) <= slices.Max(jobs[:before]) {
		t.Errorf("let in: %v, then %v", jobs[:before], again)
	}
}

// A bug that ends a transfer leaves its place on disk closed before anybody hears of it: the share may be fetched again then.
func TestAPanicOfATransferClosesTheDisk(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 8<<20)
	source := sw.add("source", 1e6).seed(m, content)
	n := sw.add("node", 1e6)
	n.fetch(m.ID(), source)
	sw.w.Run(3 * time.Second)
	n.program.s.Send(n.transfer(), system.TaskPanic{Reason: "a test"})
	sw.run(time.Minute, n)
	if !n.shares[m.ID()].closed {
		t.Errorf("ended with %v, and the disk is open", n.end.Err)
	}
}

// Whoever waits for a byte of a transfer that a bug ends, or for its list of files to open a file, waits no longer.
func TestAPanicOfATransferEndsItsReaders(t *testing.T) {
	for _, opened := range []bool{true, false} {
		sw := newSwarm(t, 1)
		m, content := testShare(t, 8<<20)
		source := sw.add("source", 1e6).seed(m, content)
		n := sw.add("node", 1e6)
		var r leasemgr.Reader
		if source.busy = time.Minute; opened {
			source.busy, source.mute = 0, true
		}
		n.fetch(m.ID(), source)
		wait := func() (err error) { r, err = n.openReader(m.ID(), "file"); return err }
		if opened {
			if err := wait(); err != nil {
				t.Fatal(err)
			}
			wait = func() error { _, err := n.readAt(m.ID(), r, 0, 1<<20); return err }
		}
		sw.w.After(5*time.Second, func() { n.program.s.Send(n.transfer(), system.TaskPanic{Reason: "a test"}) })
		sw.w.After(time.Hour, func() {}) // time goes on
		if err := wait(); !errors.Is(err, ErrFinishing) || sw.w.Elapsed() > time.Minute {
			t.Errorf("opened: %v: it waited for %v: %v", opened, sw.w.Elapsed(), err)
		}
		sw.run(time.Second, n)
	}
}

// A pool that fails while it is being given up costs its source, not the whole transfer.
func TestAPoolThatFailsAsItIsGivenUpIsNoWorker(t *testing.T) {
	for seed := range uint64(10) {
		sw := newSwarm(t, seed)
		m, content := testShare(t, 8<<20)
		a := sw.add("a", 1e6).seed(m, content)
		b := sw.add("b", 1e6).seed(m, content)
		n := sw.add("node", 1e6)
		n.fetch(m.ID(), a, b)
		sw.w.Run(2 * time.Second)
		n.program.s.Send(actor.NewPID(string(n.id), "node/transfer-1/pool-1-a"), system.TaskPanic{Reason: "a test"})
		n.program.s.Send(n.transfer(), PeerBanned{Peer: a.id, Until: n.program.s.Now().Add(time.Hour)})
		sw.w.Run(time.Second)
		if all := n.program.s.Running(); !slices.Contains(all, "node/transfer-1/leases-0") {
			t.Fatalf("seed %d: the transfer has begun again: %v", seed, all)
		}
	}
}

// A bug that ends the Node ends every transfer, and each caller is told once.
func TestAPanicOfTheNodeEndsEveryTransfer(t *testing.T) {
	rig.Slow(t)
	sw := newSwarm(t, 1)
	m, content := testShare(t, 64<<20)
	other, _ := testShare(t, 1<<20)
	source := sw.add("source", 5e5).seed(m, content)
	failed := 0
	n := sw.add("node", 1e6, func(d *Deps) {
		d.Remember = func([]peers.Record) { panic("a test") }
		d.Failed = func(error) { failed++ }
	})
	n.fetch(m.ID(), source)
	n.fetchWith(other.ID(), TransferConfig{Verifiers: 1, Stall: time.Hour}, source)
	ends := func() (ends []Ended) {
		for _, e := range n.events {
			if e, ok := e.(Ended); ok {
				ends = append(ends, e)
			}
		}
		return ends
	}
	sw.w.Run(30 * time.Second)
	if len(ends()) != 1 { // those of the share that nobody has
		t.Fatalf("ended so far: %+v", ends())
	}
	sw.w.Run(2 * time.Minute) // until the ranking is saved
	all := ends()
	if len(all) != 2 || all[1].Err == nil || !strings.Contains(all[1].Err.Error(), "a test") || all[1].Last.Share != m.ID() || failed != 1 {
		t.Errorf("ended: %+v; it was told %d times that it failed", all, failed)
	}
	if err := n.program.Fetch(t.Context(), FetchShare{Handle: n.program.Handle(m.ID())}); !errors.Is(err, system.ErrNoAnswer) {
		t.Errorf("fetching then: %v, want ErrNoAnswer", err)
	}
}

// A program that is closed ends every transfer that has not ended.
func TestClosingEndsEveryTransfer(t *testing.T) {
	rig.Slow(t)
	sw := newSwarm(t, 1)
	m, content := testShare(t, 64<<20)
	source := sw.add("source", 5e5).seed(m, content)
	n := sw.add("node", 1e6)
	n.fetch(m.ID(), source)
	sw.w.Run(5 * time.Second)
	if err := n.program.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n.end == nil || !errors.Is(n.end.Err, ErrStopped) {
		t.Errorf("ended: %+v, want ErrStopped", n.end)
	}
}
