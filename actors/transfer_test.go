package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// transfer is the first transfer of a node.
func (n *simNode) transfer() *actor.PID { return actor.NewPID(string(n.id), "node/transfer-1") }

// A Fetch that says it has not begun has not.
func TestAFetchWhoseContextHasEndedDoesNotBegin(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	source := sw.add("source", 4e6).seed(m, content)
	n := sw.add("node", 1e6)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := n.program.Fetch(ctx, FetchShare{Handle: Handle{Share: m.ID()}, Sources: []peers.Addr{{ID: source.id}}, Disk: memDisk{n}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want what ended the context", err)
	}
	sw.w.Run(10 * time.Second)
	if len(n.shares) > 0 {
		t.Error("it was fetched all the same")
	}
	if err := n.program.Coordinate(ctx, CoordinateShare{Config: fleet.Config{Share: m.ID(), Layout: m.Layout()}}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want what ended the context", err)
	}
	if st, _ := n.program.Fleet(context.Background(), m.ID(), 1); st.Waiting != "not coordinated by this node" {
		t.Errorf("it is coordinated all the same: %+v", st)
	}
}

// A source that is already banned when a transfer begins does not affect the others.
func TestASourceBannedBeforeIsLeftOut(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 4<<20)
	liar := sw.add("liar", 4e6).seed(m, content)
	honest := sw.add("honest", 4e6).seed(m, content)
	n := sw.add("node", 1e6)
	n.program.s.Send(n.program.node, PeerLied{Peer: "liar", Proof: true})
	n.fetch(m.ID(), liar, honest)
	sw.run(time.Minute, n)
	n.complete(content)
}

// A source that did badly before holds one lease at a time from the start, not only once something new is known of it.
func TestASourceThatDidBadlyBeforeHoldsOneLease(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testFolder(t, slices.Repeat([]int{share.BlockSize}, 32)...)
	bad := sw.add("bad", 1e4).seed(m, content)
	n := sw.add("node", 1e6, func(d *Deps) {
		d.Remembered = []peers.Record{{ID: bad.id, At: d.Runtime.Now(), Integrity: 0.1, Speed: 0.1, Prompt: 0.1}}
	})
	n.fetch(m.ID(), bad)
	sw.w.Run(500 * time.Millisecond)
	scores, err := n.program.Scores(t.Context(), []peers.ID{bad.id})
	if err != nil || scores[0] >= 0.2 {
		t.Fatalf("its score is %v, %v", scores, err)
	}
	st, err := system.Ask[PlanStatus](t.Context(), n.program.s, n.program.node, ToTransfer{Handle{Share: m.ID()}, PlanQuery{}})
	if err != nil || st.Leased != 1 {
		t.Errorf("with a score of %.2f it holds %d leases, %v", scores[0], st.Leased, err)
	}
}

// A source that this node does not ask, because of its own limit, is not late, whatever a reader waits for.
func TestASourceThatTheLimitKeepsFromAReaderIsNotLate(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testFolder(t, slices.Repeat([]int{share.BlockSize}, 8)...)
	source := sw.add("source", 1e6).seed(m, content)
	n := sw.add("node", 1e6, func(d *Deps) { d.DownloadRate = 8 << 10 }) // a block each 8 s
	n.fetch(m.ID(), source)
	sw.w.Run(time.Second)
	r, err := n.program.OpenReader(t.Context(), Handle{Share: m.ID()}, OpenReader{Path: "05"})
	if err != nil {
		t.Fatal(err)
	}
	n.program.MoveReader(Handle{Share: m.ID()}, MoveReader{Reader: r.Reader})
	sw.w.Run(30 * time.Second)
	p, err := n.program.Progress(t.Context(), Handle{Share: m.ID()})
	if err != nil || p.Sources[0].Failures.Late != 0 || p.Leases.Expired != 0 {
		t.Errorf("it has answered all that it was asked: %+v, %+v, %v", p.Sources[0].Failures, p.Leases, err)
	}
}

// A source that is found while a transfer begins again is used afterwards.
func TestASourceFoundWhileATransferBeginsAgainIsUsed(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 8<<20)
	a := sw.add("a", 4e6).seed(m, content)
	b := sw.add("b", 4e6).seed(m, content)
	n := sw.add("node", 1e6)
	n.fetch(m.ID(), a)
	sw.w.Run(time.Second)
	n.closing = func() {
		n.closing = nil
		a.down, a.mute = true, true
		n.program.s.Send(n.transfer(), SourceFound{Addr: peers.Addr{ID: b.id}})
	}
	n.program.s.Send(n.transfer(), system.ChildFailed{Who: n.transfer(), Name: "verifier", Reason: "a test"})
	sw.run(time.Minute, n)
	n.complete(content)
}

// blocked is a disk that opens nothing until it is told to give up.
type blocked struct{}

func (blocked) Open(ctx context.Context, _ *share.Manifest, _ []bool) (Target, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A transfer ends when told to, however long its place on disk takes to open.
func TestOpeningCanBeStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := testShare(t, 1<<20)
		p := Start(Deps{Runtime: system.Real(nil), Network: &simNode{id: "self"}})
		ended := make(chan Ended, 1)
		err := p.Fetch(t.Context(), FetchShare{Handle: Handle{Share: m.ID()}, Manifest: m, Disk: blocked{}, Notify: func(e Event) {
			if e, ok := e.(Ended); ok {
				ended <- e
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if now, err := p.Progress(t.Context(), Handle{Share: m.ID()}); err != nil || now.State != Opening || now.Reason == "" {
			t.Errorf("%v because of %q, %v", now.State, now.Reason, err)
		}
		p.StopTransfer(Handle{Share: m.ID()})
		synctest.Wait()
		select {
		case e := <-ended:
			if !errors.Is(e.Err, ErrStopped) {
				t.Errorf("ended with %v", e.Err)
			}
		default:
			t.Error("the transfer goes on")
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// slowly is a disk that opens nothing, and takes a second to give that up.
type slowly struct{ busy *atomic.Bool }

func (d slowly) Open(ctx context.Context, _ *share.Manifest, _ []bool) (Target, error) {
	d.busy.Store(true)
	defer d.busy.Store(false)
	<-ctx.Done()
	time.Sleep(time.Second)
	return nil, ctx.Err()
}

// The end of a transfer that panics while its place on disk is opened is told when nothing is at work there any more: whoever hears of it may
// fetch the share again.
func TestAPanicWhileThePlaceIsOpenedIsToldWhenThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := testShare(t, 1<<20)
		p := Start(Deps{Runtime: system.Real(nil), Network: &simNode{id: "self"}})
		ended, busy := make(chan bool, 1), &atomic.Bool{}
		err := p.Fetch(t.Context(), FetchShare{Handle: Handle{Share: m.ID()}, Manifest: m, Disk: slowly{busy}, Notify: func(e Event) {
			if _, ok := e.(Ended); ok {
				ended <- busy.Load()
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		p.s.Send(actor.NewPID(p.s.Address(), "node/transfer-1"), system.TaskPanic{Reason: "a test"})
		select {
		case early := <-ended:
			if early {
				t.Error("its end is told while its place is still being opened")
			}
		case <-time.After(time.Minute):
			t.Error("its end is not told")
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// More is chosen while the disk has no room to finish.
func TestMoreIsChosenWhileTheDiskIsFull(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testFolder(t, 2<<20, 2<<20)
	source := sw.add("source", 4e6).seed(m, content)
	n := sw.add("node", 1e6)
	n.fetchSome(m.ID(), TransferConfig{Verifiers: 1}, paths(leasemgr.Normal, leasemgr.Skip, "00"), source)
	n.finishing = func(context.Context) error {
		n.full = true
		return share.ErrDiskFull
	}
	sw.w.Run(5 * time.Second)
	if p, err := n.program.Progress(context.Background(), Handle{Share: m.ID()}); err != nil || p.State != DiskFull {
		t.Fatalf("%v, %v", p.State, err)
	}
	if err := n.program.SetPriority(context.Background(), Handle{Share: m.ID()}, SetPriority{[]int{1}, leasemgr.Normal}); err != nil {
		t.Fatal(err)
	}
	n.full, n.finishing = false, nil
	sw.run(time.Minute, n)
	n.complete(content)
}

// A disk may be full although bytes are free on it: no more files fit, or a quota
// is used up. It is tried now and then, and given up like any other.
func TestADiskThatIsFullWithRoomOnItIsGivenUp(t *testing.T) {
	for _, x := range []struct {
		freed, blind bool
		why          string
	}{
		{true, false, "takes no more, though 1 B is free"},
		{false, false, "too many files"},
		{true, true, "takes no more, and does not say how much is free"},
		{false, true, "too many files"},
	} {
		sw := newSwarm(t, 1)
		m, content := testShare(t, 2<<20)
		source := sw.add("source", 4e6).seed(m, content)
		n := sw.add("node", 4e6)
		n.filled, n.blind = true, x.blind
		n.fetchWith(m.ID(), TransferConfig{Verifiers: 1, Stall: 30 * time.Second}, source)
		sw.w.Run(20 * time.Second)
		if p, err := n.program.Progress(context.Background(), Handle{Share: m.ID()}); err != nil || p.State != DiskFull || !strings.Contains(p.Reason, x.why) {
			t.Fatalf("%v, %q, %v", p.State, p.Reason, err)
		}
		if x.freed {
			n.filled = false
			sw.run(time.Minute, n)
			n.complete(content)
			continue
		}
		sw.w.Run(time.Minute)
		if n.end == nil || !errors.Is(n.end.Err, share.ErrDiskFull) || strings.Count(n.end.Err.Error(), "disk full") != 1 {
			t.Errorf("ended with %+v", n.end)
		}
		full := 0
		for _, e := range n.events {
			if p, ok := e.(Progress); ok && p.State == DiskFull {
				full++
			}
		}
		if full > 100 {
			t.Errorf("%d times it was told that the disk is full", full)
		}
	}
}

// What happens after the end is not an event: the listener has gone.
func TestNothingIsToldAfterTheEnd(t *testing.T) {
	rig.Slow(t)
	for seed := range uint64(20) {
		sw := newSwarm(t, seed)
		m, content := testShare(t, 1<<20)
		source := sw.add("source", 4e6).seed(m, content)
		n := sw.add("node", 1e6)
		ended, late := false, 0
		err := n.program.Fetch(t.Context(), FetchShare{Handle: Handle{Share: m.ID()}, Sources: []peers.Addr{{ID: source.id}}, Disk: memDisk{n}, Notify: func(e Event) {
			if ended {
				late++
			}
			if _, ok := e.(Ended); ok {
				ended = true
				n.program.s.Send(n.transfer(), PeerBanned{Peer: source.id, Until: n.program.s.Now().Add(time.Hour)})
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		sw.w.Run(10 * time.Second)
		if !ended || late > 0 {
			t.Errorf("seed %d: ended: %v, and %d events came afterwards", seed, ended, late)
		}
	}
}

// Sources that cannot be reached any more make room for others.
func TestSourcesThatAreGoneGiveUpTheirPlaces(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 8<<20)
	a, b := sw.add("a", 1e6).seed(m, content), sw.add("b", 1e6).seed(m, content)
	c, d := sw.add("c", 1e6).seed(m, content), sw.add("d", 1e6).seed(m, content)
	n := sw.add("node", 1e6)
	n.fetchWith(m.ID(), TransferConfig{Verifiers: 1, MaxSources: 2}, a, b, c, d)
	sw.w.Run(time.Second)
	a.down, b.down, c.down = true, true, true
	for _, gone := range []*simNode{a, b} {
		for _, l := range gone.inbound {
			l.closed = true
			l.sink.Down(peers.ErrLost)
		}
	}
	sw.run(time.Minute, n)
	n.complete(content)
	if d.out[n.id] == 0 {
		t.Error("the one that could be reached gave nothing")
	}
}

// A peer that could not be reached and was given up comes by itself.
func TestAPeerThatComesByItselfIsASource(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 8<<20)
	half, whole := sw.add("half", 4e6).seed(m, content), sw.add("whole", 4e6).seed(m, content)
	for p := range share.Piece(8) {
		if p > 3 {
			half.shares[m.ID()].have.Remove(p)
		}
	}
	half.offer(m.ID(), 8, half.shares[m.ID()].have.Clone())
	n := sw.add("node", 1e6)
	n.fetchWith(m.ID(), TransferConfig{Verifiers: 1, Stall: time.Hour}, half)
	sw.w.Run(time.Second)
	whole.down = true
	named := PeersNamed{Share: m.ID(), By: half.id, Via: peers.ViaPeer, Peers: []peers.Addr{{ID: whole.id, Addrs: []string{"/sim"}}}}
	n.program.s.Send(actor.NewPID(string(n.id), "node/finder"), named)
	sw.w.Run(5 * time.Minute)
	if n.end != nil {
		t.Fatal(n.end)
	}
	whole.down = false
	named.By, named.Via = n.id, peers.ViaItself // as the Seeder reports a child
	n.program.s.Send(actor.NewPID(string(n.id), "node/finder"), named)
	sw.run(time.Minute, n)
	n.complete(content)
}

// The list of files is asked for until somebody has sent it, whatever others delay.
func TestSlowListsOfFilesAreNotWaitedFor(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 4<<20)
	var sources []*simNode
	for i := range 6 {
		s := sw.add(fmt.Sprint("source", i), 4e6).seed(m, content)
		s.slow = i < 5
		sources = append(sources, s)
	}
	n := sw.add("node", 1e6)
	n.fetch(m.ID(), sources...)
	sw.run(30*time.Second, n)
	n.complete(content)
}

// However long a source claims to be busy, it is asked again soon.
func TestABusySourceIsAskedForTheListAgain(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 4<<20)
	source := sw.add("source", 4e6).seed(m, content)
	source.busy = 24 * time.Hour
	n := sw.add("node", 1e6)
	n.fetch(m.ID(), source)
	sw.w.After(time.Second, func() { source.busy = 0 })
	sw.run(time.Minute, n)
	n.complete(content)
}

// A message to a transfer that has ended does not reach the next transfer of the share.
func TestAHandleMeansOneTransfer(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 4<<20)
	source := sw.add("source", 4e6).seed(m, content)
	n := sw.add("node", 1e6)
	begin := func() Handle {
		n.end = nil
		h := n.program.Handle(m.ID())
		err := n.program.Fetch(t.Context(), FetchShare{Handle: h, Sources: []peers.Addr{{ID: source.id}}, Disk: memDisk{n}, Notify: func(e Event) {
			if end, ok := e.(Ended); ok {
				n.end = &end
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	open := func(h Handle) leasemgr.Reader {
		r, err := n.program.OpenReader(t.Context(), h, OpenReader{"file"})
		if err != nil {
			t.Fatal(err)
		}
		return r.Reader
	}
	old := begin()
	was := open(old)
	n.program.StopTransfer(old)
	sw.run(time.Minute, n)
	h := begin()
	r := open(h)
	if r != was {
		t.Fatalf("readers %d and %d: the second is to have the number of the first", was, r)
	}
	n.program.StopTransfer(old)
	n.program.CloseReader(old, was)
	n.program.MoveReader(old, MoveReader{Reader: was, Offset: 3 << 20})
	if err := n.program.SetPriority(t.Context(), old, SetPriority{[]int{0}, leasemgr.Skip}); !errors.Is(err, ErrFinishing) {
		t.Errorf("choosing: %v, want ErrFinishing", err)
	}
	if _, err := n.program.Progress(t.Context(), old); !errors.Is(err, ErrFinishing) {
		t.Errorf("asking how it stands: %v, want ErrFinishing", err)
	}
	if _, err := n.program.AwaitByte(t.Context(), h, MoveReader{Reader: r, Ahead: 1}); err != nil {
		t.Error("reading:", err)
	}
	if n.end != nil {
		t.Errorf("the second has ended: %+v", n.end)
	}
	sw.run(time.Minute, n)
	n.complete(content)
}

// A transfer is stopped between its last byte and the end of Finish: the disk is told,
// so that nobody waits for it to hash.
func TestStoppingEndsWhatFinishHashes(t *testing.T) {
	rig.Slow(t)
	told, called := 0, 0
	for steps := range 100 {
		sw := newSwarm(t, 1)
		m, content := testShare(t, 1<<20)
		source := sw.add("source", 1e7).seed(m, content)
		n := sw.add("node", 1e6)
		n.finishing = func(ctx context.Context) error {
			called++
			if ctx.Err() != nil {
				told++
			}
			return ctx.Err()
		}
		n.fetch(m.ID(), source)
		if !sw.w.RunUntil(func() bool { x := n.shares[m.ID()]; return x != nil && x.have.Full() }, time.Minute) {
			t.Fatal("it does not come")
		}
		sw.w.RunUntil(func() bool { steps--; return steps < 0 }, time.Minute)
		n.program.StopTransfer(Handle{Share: m.ID()})
		sw.run(time.Minute, n)
	}
	if told == 0 || called == told {
		t.Errorf("Finish was called %d times, and told to stop %d times", called, told)
	}
}

// How late a source may be is one setting, for leases and for requests on the wire.
func TestPatienceIsOneSetting(t *testing.T) {
	for _, first := range []time.Duration{0, 20 * time.Second} {
		sw := newSwarm(t, 1)
		m, content := testShare(t, 8<<20)
		mute := sw.add("mute", 4e6).seed(m, content)
		mute.mute = true
		n := sw.add("node", 1e6)
		n.fetchWith(m.ID(), TransferConfig{Verifiers: 1, Leases: leasemgr.Config{Patience: peers.Patience{First: first}}}, mute)
		var late time.Duration // when the first lease was given up, by either
		sw.w.Observe = func(d system.Delivery) {
			switch d.Message.(type) {
			case LeaseRevoked, LeaseReturned:
				if late == 0 {
					late = sw.w.Elapsed()
				}
			}
		}
		sw.w.Run(40 * time.Second)
		if want := cmp.Or(first, 5*time.Second); late < want || late > want+time.Second {
			t.Errorf("with %v: given up after %v", first, late)
		}
	}
}
