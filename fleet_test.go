package fetcher

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/leasemgr"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// testFleet is a share outside, and the nodes of a future fleet.
type testFleet struct {
	t       *testing.T
	content []byte
	ticket  string
	origin  peers.ID
	dir     string // the coordinator's
	source  *Node
	ids     []peers.ID
	dirs    []string // the members'
}

// newTestFleet makes a share of size bytes that arrives at rate, and n future members.
func newTestFleet(t *testing.T, size, n int, rate int64) *testFleet {
	src := filepath.Join(t.TempDir(), "big.bin")
	f := &testFleet{t: t, content: writeRandom(t, src, size, 1), dir: t.TempDir()}
	s := shareOf(t, src, func(c *Config) { c.UploadRate = rate })
	f.ticket, f.source, f.origin = s.Ticket(), s.node, s.node.ID()
	for range n {
		dir := t.TempDir()
		m, err := Open(t.Context(), Config{Dir: dir, Listen: loopback})
		must(t, err)
		f.ids, f.dirs = append(f.ids, m.ID()), append(f.dirs, dir)
		must(t, m.Close())
	}
	return f
}

// coordinator opens a node that coordinates the share.
func (f *testFleet) coordinator(change ...func(*Config)) (*Node, *Coordination) {
	f.t.Helper()
	n := openNode(f.t, append([]func(*Config){func(c *Config) { c.Dir, c.Fleet.Allow = f.dir, f.ids }}, change...)...)
	c, err := n.Coordinate(f.t.Context(), f.ticket, nil)
	must(f.t, err)
	return n, c
}

// member opens the i-th member and starts its fetch.
func (f *testFleet) member(i int, coordinator string, opt FetchOptions, change ...func(*Config)) *Transfer {
	f.t.Helper()
	n := openNode(f.t, append([]func(*Config){func(c *Config) { c.Dir, c.Fleet.Coordinator = f.dirs[i], coordinator }}, change...)...)
	if n.ID() != f.ids[i] {
		f.t.Fatalf("member %d is %s, was %s", i, n.ID(), f.ids[i])
	}
	opt.Dir = f.t.TempDir()
	x, err := n.Fetch(f.t.Context(), f.ticket, opt)
	must(f.t, err)
	return x
}

// whole waits for a member, and fails the test unless it has the whole share.
func (f *testFleet) whole(x *Transfer) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	if err := x.Wait(ctx); err != nil {
		f.t.Fatalf("%v\n%s", err, strings.Join(x.Why("gives up"), "\n"))
	}
	if got, err := os.ReadFile(x.Path()); err != nil || !bytes.Equal(got, f.content) {
		f.t.Errorf("%s differs: %v", x.Path(), err)
	}
}

// entered returns how many verified bytes came from outside.
func (f *testFleet) entered(xs ...*Transfer) (n int64) {
	for _, x := range xs {
		for _, s := range x.Progress().Sources {
			if s.Peer == f.origin {
				n += s.Bytes
			}
		}
	}
	return n
}

func TestAFleetGoesOnWithTheNextRunOfItsCoordinator(t *testing.T) {
	rig.OnlyLong(t)
	t.Parallel()
	f := newTestFleet(t, 12<<20, 2, 1e6) // until both take part, however slow this machine is
	seat, c := f.coordinator()
	at := seat.Addrs()[0]
	if c.Epoch() != 1 || c.Manifest().Name != "big.bin" {
		t.Errorf("run %d of %q", c.Epoch(), c.Manifest().Name)
	}
	a := f.member(0, at, FetchOptions{Keep: true})
	b := f.member(1, at, FetchOptions{Keep: true})
	for a.Progress().Verified+b.Progress().Verified < 4<<20 || f.entered(a) == 0 || f.entered(b) == 0 {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-a.Done():
			t.Fatal(a.Wait(t.Context()))
		}
	}
	f.source.SetUploadRate(8e6)
	if st, err := c.Status(10); err != nil || len(st.Members) != 2 || len(st.Why) == 0 {
		t.Errorf("in the middle: %+v, %v", st, err)
	}
	must(t, c.Stop(t.Context()))
	select {
	case <-c.Done():
	default:
		t.Error("stopped, and not done")
	}
	if err := c.Err(); err != nil {
		t.Error(err)
	}
	time.Sleep(200 * time.Millisecond)
	c, err := seat.Coordinate(t.Context(), f.ticket, nil)
	must(t, err)
	if c.Epoch() != 2 {
		t.Errorf("run %d", c.Epoch())
	}
	f.whole(a)
	f.whole(b)
	if n := f.entered(a, b); n != int64(len(f.content)) {
		t.Errorf("%d bytes entered the fleet, of %d", n, len(f.content))
	}
	if f.entered(a) == 0 || f.entered(b) == 0 {
		t.Error("one of them fetched nothing from outside")
	}
	joined := 0
	for events := c.Events(t.Context()); len(events) > 0; {
		if e := <-events; e.Change == MemberJoined {
			joined++
		}
	}
	if joined < 2 {
		t.Errorf("%d have joined", joined)
	}
}

// A member that ends in good order has left, and was not lost, though word of its end overtakes what it said last.
func TestAMemberThatEndsHasLeft(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	f := newTestFleet(t, 1<<20, 2, 0)
	seat, c := f.coordinator()
	events := c.Events(t.Context())
	for i := range f.ids {
		x := f.member(i, seat.Addrs()[0], FetchOptions{})
		f.whole(x)
		must(t, x.node.Close())
		for _, want := range []FleetChange{MemberJoined, MemberLeft} {
			select {
			case e := <-events:
				if e.Peer != f.ids[i] || e.Change != want {
					t.Errorf("member %d: %+v, want %v", i, e, want)
				}
			case <-time.After(30 * time.Second):
				t.Fatalf("member %d: nothing is said in 30 s, want %v", i, want)
			}
		}
	}
}

func TestOneProcessCoordinates(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, 1<<20, 1, 0)
	seat, _ := f.coordinator()
	if _, err := seat.Coordinate(t.Context(), f.ticket, nil); !errors.Is(err, share.ErrHeld) {
		t.Errorf("twice in one node: %v", err)
	}
	other := openNode(t, func(c *Config) { c.Dir = f.dir })
	if _, err := other.Coordinate(t.Context(), f.ticket, nil); !errors.Is(err, share.ErrHeld) {
		t.Errorf("in two nodes: %v", err)
	}
	must(t, seat.Close())
	c, err := other.Coordinate(t.Context(), f.ticket, nil)
	if err != nil || c.Epoch() != 2 {
		t.Errorf("the next: %+v, %v", c, err)
	}
	if _, err := seat.Coordinate(t.Context(), f.ticket, nil); err == nil {
		t.Error("a closed node coordinates")
	}
	if _, err := other.Coordinate(t.Context(), someID(t), nil); !errors.Is(err, ErrNoSource) {
		t.Errorf("a share that nobody is known to have: %v", err)
	}
}

func TestWhoIsNotAllowedIsToldItsID(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, 1<<20, 1, 0)
	seat, c := f.coordinator(func(c *Config) { c.Fleet.Allow = nil })
	x := f.member(0, seat.Addrs()[0], FetchOptions{Stall: 45 * time.Second})
	told := false
	for e := range x.Events(t.Context()) {
		if s, ok := e.(Stalled); ok && strings.Contains(s.Reason, "not allowed") && strings.Contains(s.Reason, string(f.ids[0])) {
			told = true
			break
		}
	}
	if !told {
		t.Fatalf("ended with %v", x.Wait(t.Context()))
	}
	if e := <-c.Events(t.Context()); e.Change != NotAllowed || e.Peer != f.ids[0] {
		t.Errorf("event %+v", e)
	}
	if st, err := c.Status(1); err != nil || st.Refused == 0 {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestAloneIsAfterHowLongAFetchGoesOnByItself(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, 1<<20, 1, 0)
	nobody := "/ip4/127.0.0.1/tcp/1/p2p/12D3KooWJcge8xRZ5k8JqvEmhYiX4BRtBjinpdRf5jNBvhX5ycZN"
	f.whole(f.member(0, nobody, FetchOptions{}, func(c *Config) { c.Fleet.Alone = 100 * time.Millisecond }))
}

func TestANodeMayLeaseFromItself(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t, 3<<20, 1, 0)
	seat := openNode(t, func(c *Config) {
		c.Dir = f.dirs[0]
		c.Fleet = Fleet{Coordinator: "/p2p/" + string(f.ids[0]), Settle: 200 * time.Millisecond, Leases: leasemgr.Config{MaxLeasesPerPeer: 1}}
	})
	_, err := seat.Coordinate(t.Context(), f.ticket, nil)
	must(t, err)
	x, err := seat.Fetch(t.Context(), f.ticket, FetchOptions{Dir: t.TempDir()})
	must(t, err)
	f.whole(x)
}

// A restarted coordinator waits for the previous members, for Settle.
func TestSettleIsHowLongMembersAreWaitedFor(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	f := newTestFleet(t, 1<<20, 2, 0)
	wait := func(d time.Duration) func(*Config) { return func(c *Config) { c.Fleet.Settle = d } }
	seat, c := f.coordinator(wait(time.Hour))
	f.whole(f.member(0, seat.Addrs()[0], FetchOptions{Keep: true}))
	for st, _ := c.Status(1); st.Members[0].Pieces != 1; st, _ = c.Status(1) {
		time.Sleep(5 * time.Millisecond)
	}
	must(t, seat.Close())

	seat, c = f.coordinator(wait(time.Hour), func(c *Config) { c.Listen = []string{"/ip4/127.0.0.1/tcp/0"} })
	if st, err := c.Status(1); err != nil || st.Waiting == "" {
		t.Errorf("does not wait: %+v, %v", st, err)
	}
	must(t, seat.Close())
	_, c = f.coordinator(wait(time.Nanosecond))
	st, err := c.Status(1)
	for end := time.Now().Add(30 * time.Second); err == nil && st.Waiting != "" && time.Now().Before(end); st, err = c.Status(1) {
		time.Sleep(5 * time.Millisecond)
	}
	if err != nil || st.Waiting != "" {
		t.Errorf("waits: %+v, %v", st, err)
	}
}

func TestAFleetThatCannotBeMeantIsRefused(t *testing.T) {
	t.Parallel()
	for name, fleet := range map[string]Fleet{
		"no multiaddr": {Coordinator: "12D3KooW"},
		"no peer":      {Coordinator: "/ip4/127.0.0.1/tcp/1"},
		"alone":        {Alone: -1},
		"settle":       {Settle: -1},
	} {
		if n, err := Open(t.Context(), Config{Dir: t.TempDir(), Listen: loopback, Fleet: fleet}); err == nil {
			n.Close()
			t.Errorf("%s: opened", name)
		}
	}
}
