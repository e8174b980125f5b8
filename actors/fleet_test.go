package actors

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/fleet"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/transfer"
	"github.com/piecelease/fetcher/wire"
)

// A simFleet is a share outside, a coordinator, and members that lease from it.
type simFleet struct {
	*swarm
	m       *share.Manifest
	content []byte
	origin  *simNode
	seat    *simNode
	members []*simNode

	epoch  uint64
	known  []peers.ID // members that the coordinator remembers
	events []fleet.Event
}

// newFleet is a fleet of n members of a share of size bytes, which an origin with
// an uplink of rate bytes per second has.
func newFleet(t testing.TB, seed uint64, size, n int, rate float64) *simFleet {
	f := &simFleet{swarm: newSwarm(t, seed)}
	f.m, f.content = testShare(t, size)
	f.origin = f.add("origin", rate).seed(f.m, f.content)
	f.seat = f.add("seat", 20e6)
	for i := range n {
		f.members = append(f.members, f.add(fmt.Sprint("member", i), 20e6))
	}
	return f
}

// coordinate starts another run of the coordinator.
func (f *simFleet) coordinate(allow ...*simNode) {
	f.t.Helper()
	f.epoch++
	m := CoordinateShare{Config: fleet.Config{Share: f.m.ID(), Layout: f.m.Layout(), Epoch: f.epoch, Members: f.known},
		Remember: func(ids []peers.ID) { f.known = ids }, Notify: func(e fleet.Event) { f.events = append(f.events, e) }}
	for _, n := range allow {
		m.Allow = append(m.Allow, n.id)
	}
	if err := f.seat.program.Coordinate(context.Background(), m); err != nil {
		f.t.Fatal(err)
	}
}

// kill ends a node as kill -9 does; its peers notice soon.
func (f *simFleet) kill(n *simNode) {
	f.w.Patience = 50 * time.Millisecond
	n.down = true
	n.program.Crash()
	links := n.inbound
	n.inbound = nil
	f.w.After(f.w.Patience, func() {
		for _, l := range links {
			if !l.closed {
				l.closed = true
				l.sink.Down(fmt.Errorf("connection reset: %w", peers.ErrLost))
			}
		}
	})
}

// restart starts the node again, as a new process.
func (f *simFleet) restart(n *simNode) {
	n.down = false
	n.program = Start(Deps{Runtime: f.w.Runtime(string(n.id)), Network: n, Catalog: n.catalog})
}

// join starts a member's fetch.
func (f *simFleet) join(n *simNode, change ...func(*TransferConfig)) {
	f.t.Helper()
	cfg := TransferConfig{Verifiers: 2, Stall: 40 * time.Second, Keep: true, Fleet: FleetConfig{Coordinator: peers.Addr{ID: f.seat.id}}}
	for _, c := range change {
		c(&cfg)
	}
	n.fetchWith(f.m.ID(), cfg, f.origin)
}

// entered returns how many verified bytes came from outside to nodes that have ended,
// and fails the test if they are more than the share plus extra.
func (f *simFleet) entered(extra int64) (n int64) {
	f.t.Helper()
	for _, m := range f.order {
		if m.end == nil {
			continue
		}
		n += m.end.Last.Duplicate
		for _, s := range m.end.Last.Sources {
			if s.Peer == f.origin.id {
				n += s.Bytes
			}
		}
	}
	if most := int64(len(f.content)) + extra; n > most {
		f.t.Errorf("%d bytes entered the fleet, of a share of %d; want at most %d", n, len(f.content), most)
	}
	return n
}

func (f *simFleet) status() fleet.Status {
	f.t.Helper()
	st, err := f.seat.program.Fleet(context.Background(), f.m.ID(), 10)
	if err != nil {
		f.t.Fatal(err)
	}
	return st
}

func (f *simFleet) saw(id peers.ID, change fleet.Change) bool {
	for _, e := range f.events {
		if e.Peer == id && e.Change == change {
			return true
		}
	}
	return false
}

func TestEachByteEntersAFleetOnce(t *testing.T) {
	rig.Slow(t)
	run := func(seed uint64) uint64 {
		f := newFleet(t, seed, 24<<20+5, 3, 4e6)
		f.coordinate(f.members...)
		for _, n := range f.members {
			f.join(n)
		}
		f.run(time.Minute, f.members...)
		shared := 0
		for _, n := range f.members {
			n.complete(f.content)
			if f.origin.out[n.id] > int64(len(f.content))/10 {
				shared++
			}
		}
		n := f.entered(0)
		t.Logf("%d bytes entered in %v", n, f.w.Elapsed())
		if shared < 3 {
			t.Errorf("%d of 3 members fetched from outside", shared)
		}
		st := f.status()
		if len(st.Members) != 3 || st.Verified != f.m.Layout().Pieces() || st.Refused != 0 {
			t.Errorf("in the end: %+v", st)
		}
		return f.w.Trace()
	}
	if a, b := run(1), run(1); a != b {
		t.Errorf("the same seed gave two traces: %x and %x", a, b)
	}
}

// A source need not name others to a member of a fleet, unless it may go on alone.
func TestMembersOfAFleetNeedNoNames(t *testing.T) {
	f := newFleet(t, 1, 1<<20, 2, 8e6)
	f.coordinate(f.members...)
	plain := f.add("plain", 20e6)
	said := map[peers.ID]bool{}
	for _, n := range append(f.members, plain) {
		n.rewrite = func(frame []byte) []byte {
			if e, err := wire.ParseEnvelope(frame); err == nil && e.Type == wire.TypeSubscribe && e.To == SeederName {
				if s, err := wire.Parse[wire.Subscribe](e.Payload); err == nil && !s.Mirror {
					said[n.id] = s.MirrorsOnly
				}
			}
			return frame
		}
	}
	f.join(f.members[0])
	f.join(f.members[1], func(c *TransferConfig) { c.Fleet.Alone = time.Minute })
	plain.fetch(f.m.ID(), f.origin)
	f.run(time.Minute, f.members...)
	if want := map[peers.ID]bool{f.members[0].id: true, f.members[1].id: false, plain.id: false}; !maps.Equal(said, want) {
		t.Errorf("they want mirrors alone: %v, want %v", said, want)
	}
}

func TestLeasesOfAMemberThatDiesReturn(t *testing.T) {
	f := newFleet(t, 1, 16<<20, 2, 4e6)
	f.coordinate(f.members...)
	f.join(f.members[0])
	f.join(f.members[1])
	f.w.Run(time.Second)
	if st := f.status(); st.Leased == 0 {
		t.Fatalf("nothing is leased: %+v", st)
	}
	f.kill(f.members[1])
	f.run(time.Minute, f.members[0])
	f.members[0].complete(f.content)
	if !f.saw("member1", fleet.MemberLost) {
		t.Errorf("events: %v", f.events)
	}
	f.w.Run(20 * time.Second)
	if st := f.status(); st.Wanted+st.Leased != 0 || len(st.Members) != 1 {
		t.Errorf("in the end: %+v", st)
	}
}

func TestAFleetOutlivesItsCoordinator(t *testing.T) {
	rig.Slow(t)
	for _, away := range []time.Duration{100 * time.Millisecond, 3 * time.Second, 20 * time.Second} {
		t.Run(away.String(), func(t *testing.T) {
			f := newFleet(t, 1, 32<<20, 3, 4e6)
			f.coordinate(f.members...)
			for _, n := range f.members {
				f.join(n)
			}
			f.w.Run(3 * time.Second)
			f.kill(f.seat)
			f.w.Run(away)
			f.restart(f.seat)
			f.coordinate(f.members...)
			f.run(time.Minute, f.members...)
			for _, n := range f.members {
				n.complete(f.content)
			}
			// What was being fetched continues, and is leased to the same member again.
			n := f.entered(0)
			t.Logf("%d bytes entered in %v", n, f.w.Elapsed())
			st := f.status()
			if st.Epoch != 2 || st.Verified != f.m.Layout().Pieces() {
				t.Errorf("in the end: %+v", st)
			}
		})
	}
}

func TestPiecesGoOnToTheOthersThroughLeases(t *testing.T) {
	f := newFleet(t, 1, 8<<20, 2, 8e6)
	f.coordinate(f.members...)
	f.join(f.members[0])
	f.run(time.Minute, f.members[0])
	f.join(f.members[1]) // the first member has everything, and has stayed
	f.run(time.Minute, f.members[1])
	f.members[1].complete(f.content)
	f.entered(0)
	if sent := f.members[0].out["member1"]; sent < int64(len(f.content)) {
		t.Errorf("the first member sent %d bytes to the second", sent)
	}
	n := f.members[0]
	delete(n.catalog, f.m.ID())
	if _, err := n.program.Withdraw(context.Background(), f.m.ID(), 0); err != nil {
		t.Fatal(err)
	}
	f.w.Run(time.Second)
	if !f.saw("member0", fleet.MemberLeft) {
		t.Errorf("events: %v", f.events)
	}
}

// A member that has a part of the share, and has stayed, fetches the rest: it stays a member with all of it.
func TestAMemberThatFetchesMoreStaysWithAllOfIt(t *testing.T) {
	f := newFleet(t, 1, 1<<20, 1, 8e6)
	f.m, f.content = testFolder(t, 1<<20, 1<<20, 1<<20)
	f.origin.seed(f.m, f.content)
	f.coordinate(f.members...)
	n := f.members[0]
	cfg := TransferConfig{Verifiers: 2, Keep: true, Fleet: FleetConfig{Coordinator: peers.Addr{ID: f.seat.id}}}
	n.fetchSome(f.m.ID(), cfg, firstFile, f.origin)
	f.run(time.Minute, n)
	f.w.Run(10 * time.Second)
	if st := f.status(); st.Verified != 1 || len(st.Members) != 1 || st.Members[0].Gone {
		t.Fatalf("with a part: %+v", st)
	}
	n.end = nil
	n.fetchWith(f.m.ID(), cfg, f.origin)
	f.run(time.Minute, n)
	n.complete(f.content)
	f.w.Run(10 * time.Second)
	if st := f.status(); st.Verified != 3 || len(st.Members) != 1 || st.Members[0].Gone {
		t.Errorf("with all of it: %+v", st)
	}
}

// A member that has a part of the share, and whose fetch of the rest ends early, stays a member with that part.
func TestAMemberWhoseFetchOfMoreFailsStaysWithItsPart(t *testing.T) {
	f := newFleet(t, 1, 1<<20, 1, 8e6)
	f.m, f.content = testFolder(t, 1<<20, 1<<20)
	f.origin.seed(f.m, f.content)
	f.coordinate(f.members...)
	n := f.members[0]
	cfg := TransferConfig{Verifiers: 2, Keep: true, Stall: time.Minute, Fleet: FleetConfig{Coordinator: peers.Addr{ID: f.seat.id}}}
	n.fetchSome(f.m.ID(), cfg, firstFile, f.origin)
	f.run(time.Minute, n)
	f.origin.down = true
	for range 2 {
		n.end = nil
		n.fetchWith(f.m.ID(), cfg, f.origin)
		f.run(5*time.Minute, n)
		if _, err := n.program.Withdraw(t.Context(), f.m.ID(), 0); err != nil { // the part is still offered
			t.Fatal(err)
		}
		f.w.Run(time.Minute)
		if st := f.status(); n.end.Err == nil || st.Verified != 1 || len(st.Members) != 1 || st.Members[0].Gone {
			t.Fatalf("the fetch ended with %v: %+v", n.end.Err, st)
		}
	}
}

func TestWhoIsNotOnTheListIsRefusedAndCounted(t *testing.T) {
	f := newFleet(t, 1, 4<<20, 2, 8e6)
	f.coordinate(f.members[0])
	f.join(f.members[0])
	f.run(time.Minute, f.members[0])
	f.join(f.members[1])
	f.run(time.Minute, f.members[1])
	end := f.members[1].end
	if !errors.Is(end.Err, transfer.ErrNotMember) || !errors.Is(end.Err, share.ErrNotAllowed) || !strings.Contains(end.Err.Error(), "member1") {
		t.Errorf("ended with %v", end.Err)
	}
	if f.members[1].asked != 0 {
		t.Errorf("%d bytes were asked for without a lease", f.members[1].asked)
	}
	if st := f.status(); st.Refused == 0 || len(st.Members) != 1 {
		t.Errorf("in the end: %+v", st)
	}
	if !f.saw("member1", fleet.NotAllowed) {
		t.Errorf("events: %v", f.events)
	}
}

func TestWithoutACoordinatorAFetchWaitsOrGoesOnAlone(t *testing.T) {
	f := newFleet(t, 1, 8<<20, 2, 8e6)
	waits, alone := f.members[0], f.members[1]
	f.join(waits)
	f.join(alone, func(c *TransferConfig) { c.Fleet.Alone = 5 * time.Second })
	f.run(2*time.Minute, waits, alone)
	alone.complete(f.content)
	if err := waits.end.Err; !errors.Is(err, share.ErrStalled) || !strings.Contains(err.Error(), "does not coordinate") {
		t.Errorf("ended with %v", err)
	}
	if waits.asked != 0 {
		t.Errorf("%d bytes were asked for without a lease", waits.asked)
	}
}

func TestWhoWentOnAloneJoinsAgain(t *testing.T) {
	rig.Slow(t)
	f := newFleet(t, 1, 32<<20, 2, 4e6)
	f.coordinate(f.members...)
	alone := func(c *TransferConfig) { c.Fleet.Alone = 2 * time.Second }
	f.join(f.members[0], alone)
	f.join(f.members[1], alone)
	f.w.Run(2 * time.Second)
	f.kill(f.seat)
	f.w.Run(4 * time.Second)
	f.restart(f.seat)
	f.coordinate(f.members...)
	f.run(time.Minute, f.members...)
	for _, n := range f.members {
		n.complete(f.content)
	}
	// For two seconds each chose on its own.
	t.Logf("%d bytes entered of %d", f.entered(2*4e6), len(f.content))
	if st := f.status(); st.Verified != f.m.Layout().Pieces() {
		t.Errorf("in the end: %+v", st)
	}
}

// A member is cut off. What it holds goes to the other; when it comes back it asks to
// keep its leases, may not, and stops.
func TestAPoolStopsOnATokenThatIsNoLongerItsOwn(t *testing.T) {
	f := newFleet(t, 1, 2<<20, 2, 200e3) // more than five seconds a piece
	f.coordinate(f.members...)
	f.join(f.members[1])
	f.w.Run(4 * time.Second)
	f.join(f.members[0])
	f.w.Run(time.Second)
	f.w.Patience = 500 * time.Millisecond
	f.w.Cut("member0", "seat")
	f.w.Run(4 * time.Second) // the other has finished its piece, and taken over this one
	var ended, revoked int
	f.w.Observe = func(d system.Delivery) {
		switch m := d.Message.(type) {
		case SourceHasNot:
			if strings.HasPrefix(d.To(), "member0/") {
				ended += len(m.Pieces)
			}
		case LeaseRevoked:
			if strings.HasPrefix(d.To(), "member0/node/transfer-1/pool-") && strings.HasSuffix(d.To(), "-origin") {
				revoked += len(m.Leases)
			}
		}
	}
	f.w.Heal("member0", "seat")
	f.w.Run(5 * time.Second)
	if ended == 0 || revoked == 0 {
		t.Errorf("%d pieces were taken from the origin's pool, %d leases revoked", ended, revoked)
	}
	f.w.Observe = nil
	f.run(5*time.Minute, f.members...)
	for _, n := range f.members {
		n.complete(f.content)
	}
	// Only what member0 had of the pieces it lost can have come twice.
	t.Logf("%d bytes entered of %d", f.entered(1<<20), len(f.content))
	if !f.saw("member0", fleet.MemberLost) {
		t.Errorf("events: %v", f.events)
	}
}

func TestWhatIsLeasedGoesOnWithoutTheCoordinatorForAWhile(t *testing.T) {
	f := newFleet(t, 1, 16<<20, 1, 50e3)
	f.coordinate(f.members...)
	n := f.members[0]
	f.join(n, func(c *TransferConfig) { c.Stall = time.Hour })
	f.w.Run(30 * time.Second)
	f.kill(f.seat)
	f.w.Run(time.Second)
	at := f.origin.out[n.id]
	f.w.Run(10*time.Second - 2*time.Second)
	if f.origin.out[n.id] == at {
		t.Error("it stopped at once")
	}
	f.w.Run(5 * time.Second)
	at = f.origin.out[n.id]
	f.w.Run(time.Minute)
	if f.origin.out[n.id]-at > 10<<10 { // no more than messages
		t.Errorf("%d bytes came much later", f.origin.out[n.id]-at)
	}
	why, err := n.program.Why(context.Background(), Handle{Share: f.m.ID()})
	if text := strings.Join(why, "\n"); err != nil || !strings.Contains(text, "coordinator") || !strings.Contains(text, "not joined for") {
		t.Errorf("says %q, %v", text, err)
	}
	t.Log(why[len(why)-1])
	f.restart(f.seat)
	f.coordinate(f.members...)
	f.w.Run(10 * time.Second)
	if f.origin.out[n.id] == at {
		t.Error("it does not go on when the coordinator is back")
	}
	why, _ = n.program.Why(context.Background(), Handle{Share: f.m.ID()})
	if text := strings.Join(why, "\n"); !strings.Contains(text, ": joined with ") {
		t.Errorf("says %q", text)
	}
	t.Log(why[len(why)-1])
}

func TestMembersLeaseWhatTheySelected(t *testing.T) {
	rig.Slow(t)
	f := newFleet(t, 1, 1, 2, 4e6)
	f.m, f.content = testFolder(t, 4<<20, 4<<20, 4<<20, 4<<20)
	f.origin.seed(f.m, f.content)
	f.coordinate(f.members...)
	a, b := f.members[0], f.members[1]
	cfg := TransferConfig{Verifiers: 2, Keep: true, Fleet: FleetConfig{Coordinator: peers.Addr{ID: "seat"}}}
	a.fetchSome(f.m.ID(), cfg, paths(leasemgr.Normal, leasemgr.Skip, "00", "01"), f.origin)
	b.fetchSome(f.m.ID(), cfg, paths(leasemgr.Normal, leasemgr.Skip, "01"), f.origin)
	f.w.Run(500 * time.Millisecond)
	set := func(p leasemgr.Priority, entry int) {
		t.Helper()
		if err := b.program.SetPriority(context.Background(), Handle{Share: f.m.ID()}, SetPriority{[]int{entry}, p}); err != nil {
			t.Error(err)
		}
	}
	set(leasemgr.Normal, 2)
	f.w.Run(200 * time.Millisecond)
	f.run(time.Minute, f.members...)
	if a.end.Err != nil || a.end.Last.Verified != 8<<20 || b.end.Err != nil || b.end.Last.Verified != 8<<20 {
		t.Errorf("ended with %+v and %+v", a.end, b.end)
	}
	f.entered(-4 << 20) // nobody wants the last file
	if st := f.status(); st.Verified != 12 || st.Leased != 0 {
		t.Errorf("in the end: %+v", st)
	}

	b.end = nil
	b.fetchSome(f.m.ID(), cfg, nil, f.origin)
	f.w.Run(300 * time.Millisecond)
	set(leasemgr.Skip, 3) // after part of it was leased
	f.run(time.Minute, b)
	if st := f.status(); st.Verified >= 16 || st.Leased != 0 || b.end.Err != nil {
		t.Errorf("after a file was skipped: %+v, %+v", st, b.end)
	}
}

// A member freezes, but its connections stay: only the deadline takes its leases.
func TestLeasesOfAFrozenMemberExpire(t *testing.T) {
	rig.Slow(t)
	f := newFleet(t, 1, 16<<20, 2, 4e6)
	f.w.Patience = 10 * time.Minute
	f.coordinate(f.members...)
	f.join(f.members[0])
	f.join(f.members[1])
	f.w.Run(time.Second)
	f.members[1].program.Freeze()
	f.w.Run(30 * time.Second)
	st := f.status()
	if st.Wanted != 0 || st.Leased != 0 {
		t.Errorf("after half a minute: %+v", st)
	}
	f.members[1].program.Thaw()
	f.run(time.Minute, f.members...)
	for _, n := range f.members {
		n.complete(f.content)
	}
	f.entered(6 << 20) // what the frozen one had asked for
}

func TestACoordinatorMayFetchToo(t *testing.T) {
	rig.Slow(t)
	f := newFleet(t, 1, 16<<20, 1, 4e6)
	f.coordinate(f.members...)
	f.join(f.seat)
	f.join(f.members[0])
	f.run(time.Minute, f.seat, f.members[0])
	f.seat.complete(f.content)
	f.members[0].complete(f.content)
	f.entered(0)
}

func TestASourceThatTurnsOutAMemberNeedsNoLeases(t *testing.T) {
	rig.Slow(t)
	f := newFleet(t, 1, 16<<20, 2, 4e6)
	f.coordinate(f.members...)
	// The first treats the second as any other source.
	cfg := TransferConfig{Verifiers: 1, Keep: true, Fleet: FleetConfig{Coordinator: peers.Addr{ID: "seat"}}}
	f.members[1].fetchWith(f.m.ID(), cfg, f.origin)
	f.w.Run(time.Second)
	f.members[0].fetchWith(f.m.ID(), cfg, f.members[1], f.origin)
	f.run(time.Minute, f.members...)
	f.members[0].complete(f.content)
	f.entered(0)
}

// Nodes die, come back and are cut off at random. In the end everybody has
// everything, and what came in more than once is bounded by what was in flight
// at each of these events.
func TestAFleetSurvivesWhateverHappens(t *testing.T) {
	rig.Slow(t)
	seeds := rig.Most(12, 4)
	if rig.Raced {
		seeds = 3
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			f := newFleet(t, seed, 24<<20, 3, 4e6)
			f.w.Patience = 300 * time.Millisecond
			rng := f.w.Rand("what happens")
			f.coordinate(f.members...)
			for _, n := range f.members {
				f.join(n, func(c *TransferConfig) { c.Stall = 10 * time.Minute })
			}
			for range 8 {
				f.w.Run(time.Duration(rng.Int64N(int64(1500 * time.Millisecond))))
				n := f.members[rng.IntN(len(f.members))]
				switch rng.IntN(4) {
				case 0:
					f.kill(f.seat)
					f.w.Run(time.Duration(rng.Int64N(int64(4 * time.Second))))
					f.restart(f.seat)
					f.coordinate(f.members...)
				case 1:
					f.w.Cut(n.id, f.seat.id)
					f.w.Run(time.Duration(rng.Int64N(int64(3 * time.Second))))
					f.w.Heal(n.id, f.seat.id)
				case 2:
					n.program.Freeze()
					f.w.Run(time.Duration(rng.Int64N(int64(5 * time.Second))))
					n.program.Thaw()
				case 3:
					if n.end == nil {
						f.kill(n)
						f.w.Run(time.Duration(rng.Int64N(int64(3 * time.Second))))
						f.restart(n)
						f.join(n, func(c *TransferConfig) { c.Stall = 10 * time.Minute })
					}
				}
			}
			f.run(5*time.Minute, f.members...)
			for _, n := range f.members {
				n.complete(f.content)
			}
			n := f.origin.out["member0"] + f.origin.out["member1"] + f.origin.out["member2"] // messages included
			t.Logf("%d bytes left the origin, of %d", n, len(f.content))
			if n > int64(len(f.content))+6<<20 {
				t.Errorf("%d bytes left the origin, of a share of %d", n, len(f.content))
			}
			f.w.Run(30 * time.Second)
			if st := f.status(); st.Leased != 0 || st.Verified != f.m.Layout().Pieces() || st.Waiting != "" {
				t.Errorf("in the end: %+v", st)
			}
		})
	}
}

// The LeaseManager's wake-up goes straight to a pool, and its refusal through the
// leaseClient. If the first overtakes the second, the pool must ask again.
func TestAWakeUpMayOvertakeARefusal(t *testing.T) {
	rig.Slow(t)
	seeds := rig.Most(20, 5)
	if rig.Raced {
		seeds = 3
	}
	for seed := range uint64(seeds) {
		f := newFleet(t, seed, 8<<20, 2, 4e6)
		f.coordinate(f.members...)
		f.join(f.seat)
		for _, n := range f.members {
			f.join(n)
		}
		f.run(time.Minute, f.members...)
		for _, n := range f.members {
			f.kill(n)
		}
		f.run(5*time.Minute, f.seat)
		f.seat.complete(f.content)
	}
}

// A member may end at any moment, and its children end after it.
func TestNothingIsLeftOfAMemberThatEnds(t *testing.T) {
	rig.Slow(t)
	for _, coordinated := range []bool{true, false} {
		for at := 10 * time.Millisecond; at < 3*time.Second; at += 61 * time.Millisecond {
			f := newFleet(t, uint64(at), 4<<20, 1, 1e6)
			if coordinated {
				f.coordinate(f.members...)
			}
			x := f.members[0]
			f.join(x)
			f.w.Run(at)
			if err := x.program.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
			if what := x.program.Remains(); len(what) > 0 {
				t.Errorf("coordinated %v, ended after %v: there are still %s", coordinated, at, strings.Join(what, ", "))
			}
			for _, l := range x.opened {
				if !l.closed {
					t.Errorf("coordinated %v, ended after %v: a link is open", coordinated, at)
				}
			}
		}
	}
}
