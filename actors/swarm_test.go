package actors

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

func TestThreeTransfersFetchFromOneSource(t *testing.T) {
	rig.Slow(t)
	run := func(seed uint64) uint64 {
		sw := newSwarm(t, seed)
		m, content := testShare(t, 24<<20+5)
		source := sw.add("source", 20e6).seed(m, content)
		var nodes []*simNode
		for i := range 3 {
			n := sw.add(fmt.Sprint("node", i), 20e6)
			n.fetch(m.ID(), source)
			nodes = append(nodes, n)
		}
		sw.run(time.Minute, nodes...)
		for _, n := range nodes {
			n.complete(content)
			if d := n.end.Last.Duplicate; d > int64(len(content))/20 {
				t.Errorf("%s got %d bytes twice", n.id, d)
			}
		}
		return sw.w.Trace()
	}
	a, b, c := run(1), run(1), run(2)
	if a != b {
		t.Errorf("the same seed gave two traces: %x and %x", a, b)
	}
	if a == c {
		t.Errorf("two seeds gave one trace: %x", a)
	}
}

func TestNodesFeedEachOther(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 16<<20)
	source := sw.add("source", 4e6).seed(m, content)
	var nodes []*simNode
	for i := range 4 {
		n := sw.add(fmt.Sprint("node", i), 20e6)
		n.fetch(m.ID(), source)
		nodes = append(nodes, n)
	}
	sw.run(time.Minute, nodes...)
	var sent int64
	for _, n := range nodes {
		n.complete(content)
		sent += source.out[n.id]
	}
	if sent > 3*int64(len(content)) {
		t.Errorf("the source sent %d bytes of a share of %d to 4 nodes", sent, len(content))
	}
}

func TestLiarsAreNamedAndBanned(t *testing.T) {
	for name, lie := range map[string]func(*simNode){
		"block": func(n *simNode) { n.corrupt = func(_ share.Piece, b []byte) { b[0] ^= 1 } },
		"proof": func(n *simNode) { n.forge = func(_ share.Piece, v []share.Hash) { v[0][0] ^= 1 } },
	} {
		t.Run(name, func(t *testing.T) {
			sw := newSwarm(t, 1)
			m, content := testShare(t, 16<<20)
			honest := sw.add("honest", 4e6).seed(m, content)
			liar := sw.add("liar", 20e6).seed(m, content)
			lie(liar)
			n := sw.add("node", 1e6)
			n.fetch(m.ID(), honest, liar)
			sw.run(time.Minute, n)
			n.complete(content)
			for _, s := range n.end.Last.Sources {
				switch {
				case s.Peer == liar.id && !s.Banned:
					t.Errorf("the liar is not banned: %+v", s)
				case s.Peer == honest.id && (s.BadBlocks > 0 || s.Banned):
					t.Errorf("the honest source is blamed: %+v", s)
				}
			}
		})
	}
}

// A source that announces pieces that the share does not have is not asked for any.
func TestAnnouncementsOfAnotherShareAreALie(t *testing.T) {
	rig.Slow(t)
	for name, announce := range map[string]func(id share.ID) (uint32, []byte){
		"map": func(id share.ID) (uint32, []byte) {
			return wire.TypeHaveMap, wire.Append(nil, wire.HaveMap{Share: id, Pieces: 17, Bits: []byte{255, 255, 1}})
		},
		"piece": func(id share.ID) (uint32, []byte) {
			return wire.TypeHave, wire.Append(nil, wire.Have{Share: id, Pieces: []share.Piece{3, 16}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			sw := newSwarm(t, 1)
			m, content := testShare(t, 16<<20)
			honest := sw.add("honest", 4e6).seed(m, content)
			liar := sw.add("liar", 20e6).seed(m, content)
			liar.rewrite = func(frame []byte) []byte {
				e, err := wire.ParseEnvelope(frame)
				if err != nil || e.Type != wire.TypeHaveMap {
					return frame
				}
				e.Type, e.Payload = announce(m.ID())
				return wire.AppendEnvelope(nil, e)
			}
			n := sw.add("node", 1e6)
			n.fetch(m.ID(), honest, liar)
			sw.run(time.Minute, n)
			n.complete(content)
			for _, s := range n.end.Last.Sources {
				if s.Banned != (s.Peer == liar.id) || s.Bytes > 0 != (s.Peer == honest.id) {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

// A peer that breaks a promise may have lost the piece. That lowers its speed, which
// decides who is asked first, but does not keep it from being asked at all.
func TestAClaimThatDoesNotHoldIsNoLie(t *testing.T) {
	rig.Slow(t)
	sw := newSwarm(t, 1)
	m, content := testShare(t, 16<<20)
	honest := sw.add("honest", 4e6).seed(m, content)
	boaster := sw.add("boaster", 20e6).seed(m, content)
	boaster.shares[m.ID()].have = share.NewSet(16)
	var known []peers.Record
	n := sw.add("node", 1e6, func(d *Deps) { d.Remember = func(r []peers.Record) { known = r } })
	n.fetch(m.ID(), honest, boaster)
	sw.run(10*time.Second, n)
	n.complete(content)
	for _, s := range n.end.Last.Sources {
		if s.Banned || s.BadBlocks > 0 {
			t.Errorf("it is blamed: %+v", s)
		}
	}
	sw.w.Run(2 * time.Minute) // until the ranking is saved
	i := slices.IndexFunc(known, func(r peers.Record) bool { return r.ID == boaster.id })
	if i < 0 || known[i].Prompt > 0.5 || known[i].Integrity != 1 || known[i].Offences != 0 {
		t.Errorf("of it is known %+v", known)
	}
}

func TestAMuteSourceDoesNotHoldTheFetchUp(t *testing.T) {
	rig.Slow(t)
	sw := newSwarm(t, 1)
	m, content := testShare(t, 32<<20)
	good := sw.add("good", 8e6).seed(m, content)
	mute := sw.add("mute", 8e6).seed(m, content)
	n := sw.add("node", 1e6)
	n.fetch(m.ID(), good, mute)
	sw.w.After(time.Second, func() { mute.mute = true })
	sw.run(20*time.Second, n)
	n.complete(content)
	if took := sw.w.Elapsed(); took > 12*time.Second {
		t.Errorf("took %v; the good source alone needs 4 s", took)
	}
}

func TestAFetchWithoutSourcesSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(sw *swarm, m *share.Manifest, content []byte) *simNode
		want error
	}{
		"unreachable": {func(sw *swarm, m *share.Manifest, content []byte) *simNode {
			s := sw.add("source", 1e6).seed(m, content)
			s.down = true
			return s
		}, share.ErrNetwork},
		"unknown": {func(sw *swarm, m *share.Manifest, content []byte) *simNode { return sw.add("source", 1e6) }, share.ErrNotFound},
		"mute": {func(sw *swarm, m *share.Manifest, content []byte) *simNode {
			s := sw.add("source", 1e6).seed(m, content)
			s.mute = true
			return s
		}, share.ErrStalled},
		"liar": {func(sw *swarm, m *share.Manifest, content []byte) *simNode {
			s := sw.add("source", 1e6).seed(m, content)
			s.corrupt = func(_ share.Piece, b []byte) { b[5]++ }
			return s
		}, share.ErrLied},
	} {
		t.Run(name, func(t *testing.T) {
			sw := newSwarm(t, 1)
			m, content := testShare(t, 4<<20)
			source := c.set(sw, m, content)
			n := sw.add("node", 1e6)
			n.fetchWith(m.ID(), TransferConfig{Verifiers: 1, Stall: 20 * time.Second}, source)
			sw.run(2*time.Minute, n)
			if !errors.Is(n.end.Err, c.want) {
				t.Errorf("ended with %v, want %v", n.end.Err, c.want)
			}
			t.Log(n.end.Err)
		})
	}
}

func TestAFullDiskIsWaitedFor(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 8<<20)
	source := sw.add("source", 2e6).seed(m, content)
	n := sw.add("node", 1e6)
	n.fetch(m.ID(), source)
	sw.w.After(time.Second, func() { n.full = true })
	sw.w.After(20*time.Second, func() { n.full = false })
	sw.run(time.Minute, n)
	n.complete(content)
	said := false
	for _, e := range n.events {
		if s, ok := e.(Stalled); ok && s.Reason != "" {
			said = true
		}
	}
	if !said {
		t.Error("the wait was not explained")
	}
}

func TestAStoppedTransferLeavesNothingLeased(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 8<<20)
	source := sw.add("source", 2e6).seed(m, content)
	n := sw.add("node", 1e6)
	n.fetch(m.ID(), source)
	sw.w.Run(2 * time.Second)
	n.program.StopTransfer(Handle{Share: m.ID()})
	sw.run(10*time.Second, n)
	if !errors.Is(n.end.Err, ErrStopped) {
		t.Errorf("ended with %v", n.end.Err)
	}
	target := n.shares[m.ID()]
	if !target.closed || target.durable.Count() == 0 || target.durable.Count() != n.end.Last.Done {
		t.Errorf("closed %v with %d of %d pieces durable", target.closed, target.durable.Count(), n.end.Last.Done)
	}
	n.end = nil
	n.fetch(m.ID(), source)
	sw.run(time.Minute, n)
	n.complete(content)
	if n.end.Last.Resumed == 0 {
		t.Error("nothing was resumed")
	}
}

// A caller that is told that a transfer has ended may fetch the share again at once.
func TestTheEndIsTheEndForTheNodeToo(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	source := sw.add("source", 2e6).seed(m, content)
	n := sw.add("node", 1e6)
	ends := 0
	var cmd FetchShare
	cmd = FetchShare{Handle: Handle{Share: m.ID()}, Sources: []peers.Addr{{ID: source.id}}, Disk: memDisk{n}, Notify: func(e Event) {
		if _, ok := e.(Ended); !ok {
			return
		}
		if ends++; ends < 3 {
			n.program.s.Send(n.program.node, cmd)
		}
	}}
	n.program.s.Send(n.program.node, cmd)
	sw.w.Run(10 * time.Second)
	if ends != 3 {
		t.Errorf("%d transfers ended of 3", ends)
	}
}

// Requests depend on leases: when nobody grants them any more, what is leased is
// fetched, and then nothing more is asked for.
func TestWithoutALeaseManagerNothingIsAskedForAfterOneWindow(t *testing.T) {
	rig.Slow(t)
	sw := newSwarm(t, 1)
	m, content := testShare(t, 64<<20)
	source := sw.add("source", 4e6).seed(m, content)
	n := sw.add("node", 1e6)
	n.fetchWith(m.ID(), TransferConfig{Verifiers: 1, Stall: 2 * time.Minute}, source)
	sw.w.Run(3 * time.Second)
	before := n.asked
	n.program.s.Root.Stop(actor.NewPID(string(n.id), "node/transfer-1/leases-0"))
	sw.w.Run(20 * time.Second)
	after := n.asked - before
	sw.w.Run(time.Minute)
	if n.asked-before != after {
		t.Errorf("%d bytes were asked for long after the leases had ended", n.asked-before-after)
	}
	if window := int64(4 << 20); after > window {
		t.Errorf("%d bytes were asked for without a lease manager", after)
	}
}

func TestPiecesThatTheDiskLostAreFetchedAgain(t *testing.T) {
	rig.Slow(t)
	sw := newSwarm(t, 1)
	m, content := testShare(t, 24<<20)
	source := sw.add("source", 4e6).seed(m, content)
	n := sw.add("node", 1e6)
	n.loses = 5
	n.fetch(m.ID(), source)
	sw.run(time.Minute, n)
	n.complete(content)
	if n.loses != 0 {
		t.Error("nothing was lost")
	}
	if p := n.end.Last; p.Done != p.Pieces || p.Verified != p.Bytes {
		t.Errorf("counts are off: %+v", p)
	}
}

// The messages between two nodes are lost, but not the link: the pieces that the source gets
// meanwhile are learned of all the same.
func TestAnnouncementsGoOnAfterMessagesWereLost(t *testing.T) {
	sw := newSwarm(t, 1)
	sw.w.Patience = 200 * time.Millisecond
	m, content := testShare(t, 8<<20)
	origin := sw.add("origin", 2e6).seed(m, content)
	middle, end := sw.add("middle", 20e6), sw.add("end", 20e6)
	middle.fetch(m.ID(), origin)
	sw.w.Run(time.Second)
	end.fetchWith(m.ID(), TransferConfig{Verifiers: 1, Anonymous: true}, middle)
	sw.w.Run(500 * time.Millisecond)
	sw.w.Cut("end", "middle")
	sw.w.Run(time.Second)
	sw.w.Heal("end", "middle")
	sw.run(30*time.Second, middle, end)
	end.complete(content)
}

// The only source once denies having a piece that it claims: it is believed again after
// the time that package fetchpool documents.
func TestAPieceThatWasNotThereIsAskedForAgain(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 8<<20)
	source := sw.add("source", 20e6).seed(m, content)
	n := sw.add("node", 1e6)
	have := source.shares[m.ID()].have
	have.Remove(3)
	sw.w.After(time.Second, func() { have.Add(3) })
	n.fetch(m.ID(), source)
	sw.run(time.Minute, n)
	n.complete(content)
	if took := sw.w.Elapsed(); took < 30*time.Second || took > 32*time.Second {
		t.Errorf("took %v, want 30 s and a little", took)
	}
}

// That one source is banned from before is no reason to begin with others before the list of
// files is here.
func TestABanFromBeforeDoesNotHurtTheOthers(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 4<<20)
	honest, liar := sw.add("honest", 20e6).seed(m, content), sw.add("liar", 20e6).seed(m, content)
	n := sw.add("node", 1e6)
	n.program.s.Send(n.program.node, PeerLied{Peer: liar.id, Proof: true})
	n.fetch(m.ID(), liar, honest)
	sw.run(10*time.Second, n)
	n.complete(content)
	if n.asked == 0 || liar.out[n.id] > 1000 {
		t.Errorf("the liar sent %d bytes", liar.out[n.id])
	}
	n.end = nil
	other, content := testShare(t, 3<<20)
	liar.seed(other, content)
	n.fetch(other.ID(), liar)
	sw.run(10*time.Second, n)
	if !errors.Is(n.end.Err, share.ErrLied) {
		t.Errorf("from the liar alone: %v", n.end.Err)
	}
}

// A source that is banned as a fetch begins is fetched from when the ban is over, and what it sends is counted once.
func TestABanEndsWhileAFetchGoesOn(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 4<<20)
	liar := sw.add("liar", 20e6).seed(m, content)
	n := sw.add("node", 1e6, func(d *Deps) { d.Ranking.BanFor = time.Minute })
	n.program.s.Send(n.program.node, PeerLied{Peer: liar.id, Proof: true})
	n.fetchWith(m.ID(), TransferConfig{Stall: time.Hour, Called: true}, liar)
	sw.w.Run(55 * time.Second)
	if n.end != nil || liar.out[n.id] > 0 {
		t.Fatalf("the liar sent %d bytes; the end: %+v", liar.out[n.id], n.end)
	}
	sw.run(15*time.Second, n)
	n.complete(content)
	if p := n.end.Last; p.WireIn > liar.out[n.id] || p.Sources[0].Banned {
		t.Errorf("%d bytes came, and %d were sent: %+v", p.WireIn, liar.out[n.id], p.Sources)
	}
}

// A source that promised to serve the share, and then does nothing of the kind, is named
// and dropped; if it was the last, the fetch ends.
func TestABrokenPromiseEndsTheFetch(t *testing.T) {
	rig.Slow(t)
	// cut makes the payloads of a type end a byte early.
	cut := func(typ uint32) func(*simNode) {
		return func(n *simNode) {
			n.bends = func(frame []byte) []byte {
				e, err := wire.ParseEnvelope(frame)
				if err != nil || e.Type != typ {
					return frame
				}
				e.Payload = e.Payload[:len(e.Payload)-1]
				return wire.AppendEnvelope(nil, e)
			}
		}
	}
	for name, c := range map[string]struct {
		breaks func(*simNode)
		ends   error
		word   string
	}{
		"a have-map that cannot be read":    {cut(wire.TypeHaveMap), share.ErrLied, "(bad: broke the protocol: malformed message: "},
		"an answer that cannot be read":     {cut(wire.TypeSubscribeResult), share.ErrLied, "(bad: broke the protocol: malformed message: "},
		"an end that cannot be read":        {func(n *simNode) { n.bends = goodbyes }, share.ErrLied, "(bad: broke the protocol: malformed message: "},
		"every request for a piece refused": {func(n *simNode) { n.denies = true }, share.ErrStalled, "the only source was given up (bad: refuses)"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, alone := range []bool{true, false} {
				sw := newSwarm(t, 1)
				m, content := testShare(t, 8<<20)
				bad := sw.add("bad", 4e6).seed(m, content)
				c.breaks(bad)
				n := sw.add("node", 1e6)
				from := []*simNode{bad}
				if !alone {
					from = append(from, sw.add("good", 4e6).seed(m, content))
				}
				n.fetch(m.ID(), from...)
				sw.run(10*time.Second, n)
				if !alone {
					n.complete(content)
					continue
				}
				if !errors.Is(n.end.Err, c.ends) || !strings.Contains(n.end.Err.Error(), c.word) {
					t.Errorf("ended with %q, want %q", n.end.Err, c.word)
				}
			}
		})
	}
}

// goodbyes turns every have-map into a Goodbye that names no share.
func goodbyes(frame []byte) []byte {
	e, err := wire.ParseEnvelope(frame)
	if err != nil || e.Type != wire.TypeHaveMap {
		return frame
	}
	e.Type, e.Payload = wire.TypeGoodbye, nil
	return wire.AppendEnvelope(nil, e)
}

// Sources that stop in the middle are not taken for slow ones, and hold no lease for long.
func TestFrozenSourcesHoldNoLease(t *testing.T) {
	rig.Slow(t)
	for seed := range uint64(rig.Most(5, 2)) {
		sw := newSwarm(t, seed)
		m, content := testShare(t, 64<<20)
		a, b := sw.add("a", 2e6).seed(m, content), sw.add("b", 2e6).seed(m, content)
		n := sw.add("node", 1e6)
		n.fetchWith(m.ID(), TransferConfig{Verifiers: 2, Stall: 90 * time.Second}, a, b)
		sw.w.Run(3 * time.Second)
		for _, x := range []*simNode{a, b} {
			x.program.Freeze()
			x.mute = true
		}
		sw.w.Run(4 * time.Second)
		p, err := n.program.Plan(t.Context(), Handle{Share: m.ID()}, 100)
		if err != nil || p.Leased > 0 {
			t.Errorf("seed %d: after 4 s %d pieces are leased: %v\n%s", seed, p.Leased, err, strings.Join(p.Why, "\n"))
		}
		for _, x := range []*simNode{a, b} {
			x.program.Thaw()
			x.mute = false
		}
		sw.run(2*time.Minute, n)
		n.complete(content)
	}
}

// A pool that was refused leases waits until the lease manager wakes it: an announcement of its
// source is no reason to ask.
func TestARefusedPoolAsksWhenItIsWoken(t *testing.T) {
	rig.Slow(t)
	sw := newSwarm(t, 1)
	m, content := testShare(t, 8<<20)
	refused, again, asked, announced := map[string]bool{}, 0, 0, 0
	sw.w.Observe = func(d system.Delivery) {
		switch x := d.Message.(type) {
		case LeaseResponse:
			refused[d.To()] = x.Refused.Reason != 0 && x.Refused.Until.IsZero()
		case LeasesAvailable:
			delete(refused, d.To())
		case SourceHasMore:
			announced++
		case LeaseRequest:
			if asked++; refused[d.From()] {
				again++
			}
		}
	}
	source := sw.add("source", 1e6).seed(m, content)
	nodes := []*simNode{source}
	for _, name := range []string{"a", "b", "c"} {
		nodes = append(nodes, sw.add(name, 10e6))
	}
	for _, x := range nodes[1:] {
		x.fetchWith(m.ID(), TransferConfig{}, nodes...)
	}
	sw.run(time.Minute, nodes[1:]...)
	if asked == 0 || announced == 0 || again > 0 {
		t.Errorf("%d of %d requests came from pools that were refused and not woken; %d announcements", again, asked, announced)
	}
}
