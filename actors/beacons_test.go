package actors

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/piecelease/fetcher/actors/system"
	"github.com/piecelease/fetcher/beacon"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// meets makes a node announce what it serves of a share at beacons.
func meets(at ...Meeting) func(*Deps) {
	return func(d *Deps) { d.Meetings = func() []Meeting { return at } }
}

func isBeacon(d *Deps) { d.Beacon = true }

func at(id share.ID, beacons ...peers.ID) (out []Meeting) {
	for _, b := range beacons {
		out = append(out, Meeting{peers.Addr{ID: b}, id.AtBeacon(nil)})
	}
	return out
}

// remembered returns how many records a beacon has.
func (n *simNode) remembered() int {
	n.sw.t.Helper()
	st, err := n.program.Beacon(context.Background())
	if err != nil {
		n.sw.t.Fatal(err)
	}
	return st.Records
}

// The source that a newcomer knows is gone; a beacon knows another.
func TestABeaconLeadsToASourceThatNobodyNamed(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 2<<20)
	b := sw.add("beacon", 1e6, isBeacon)
	gone := sw.add("gone", 1e6)
	gone.down = true
	sw.add("seeder", 1e6, meets(at(m.ID(), "beacon")...)).seed(m, content)
	sw.w.Run(time.Second)
	if n := b.remembered(); n != 1 {
		t.Fatalf("%d records", n)
	}
	var via peers.Via
	sw.w.Observe = func(d system.Delivery) {
		if s, ok := d.Message.(SourceFound); ok && s.Addr.ID == "seeder" {
			via = s.Via
		}
	}
	x := sw.add("newcomer", 1e6, meets())
	x.beacons = at(m.ID(), "beacon")
	x.fetch(m.ID(), gone)
	sw.run(time.Minute, x)
	x.complete(content)
	if via != peers.ViaBeacon {
		t.Errorf("the source was found via %v", via)
	}
}

// Beacons are asked again after a panic for what is being looked for.
func TestBeaconsAreAskedAfterAPanic(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 2<<20)
	sw.add("beacon", 1e6, isBeacon)
	gone := sw.add("gone", 1e6)
	gone.down = true
	x := sw.add("newcomer", 1e6, meets())
	x.beacons = at(m.ID(), "beacon")
	x.fetchWith(m.ID(), TransferConfig{Verifiers: 1, Stall: time.Hour, Called: true}, gone)
	sw.w.Run(time.Second)
	x.program.s.Send(actor.NewPID(string(x.id), "node/beacons"), system.TaskPanic{Reason: "a test"})
	sw.w.Run(time.Second)
	sw.add("seeder", 1e6, meets(at(m.ID(), "beacon")...)).seed(m, content)
	sw.run(10*time.Minute, x)
	x.complete(content)
}

// Without Deps.Meetings no beacon is asked or told anything, whatever a ticket names.
func TestWhoeverDidNotAskGoesToNoBeacon(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	sw.add("beacon", 1e6, isBeacon)
	source := sw.add("source", 1e6).seed(m, content)
	x := sw.add("newcomer", 1e6)
	x.beacons = at(m.ID(), "beacon")
	x.fetch(m.ID(), source)
	sw.run(time.Minute, x)
	if x.met["beacon"] {
		t.Error("it was dialled")
	}
}

// Whoever names a beacon that is away is told so, and not at each attempt.
func TestABeaconThatIsAwayIsSaidOnce(t *testing.T) {
	sw := newSwarm(t, 1)
	var log bytes.Buffer
	sw.w.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	m, content := testShare(t, 1<<20)
	sw.add("beacon", 1e6, isBeacon).down = true
	sw.add("seeder", 1e6, meets(at(m.ID(), "beacon")...)).seed(m, content)
	sw.w.Run(30 * time.Minute)
	if n := strings.Count(log.String(), "a beacon cannot be reached"); n != 1 {
		t.Errorf("it was said %d times:\n%s", n, &log)
	}
}

// An announcement is renewed before it is forgotten, and after the beacon was away and has
// forgotten everything; and it is taken back when it is not to be announced any more.
func TestWhatIsAnnouncedStaysAnnounced(t *testing.T) {
	sw := newSwarm(t, 1)
	sw.w.Patience = time.Second
	m, content := testShare(t, 1<<20)
	b := sw.add("beacon", 1e6, isBeacon)
	say := at(m.ID(), "beacon", "seeder")
	x := sw.add("seeder", 1e6, func(d *Deps) { d.Meetings = func() []Meeting { return say } }).seed(m, content)
	sw.w.Run(3 * beacon.TTL)
	if n := b.remembered(); n != 1 {
		t.Errorf("%d records after a while", n)
	}
	sw.w.Cut("seeder", "beacon")
	b.down = true
	x.met["beacon"], b.met["seeder"] = false, false
	sw.w.Run(2 * beacon.TTL)
	if n := b.remembered(); n != 0 {
		t.Errorf("%d records without a word", n)
	}
	b.down = false
	sw.w.Heal("seeder", "beacon")
	sw.w.Run(2 * beaconRarest)
	if n := b.remembered(); n != 1 {
		t.Errorf("%d records after the beacon came back", n)
	}
	say = nil
	x.program.Tell(MeetingsChanged{})
	sw.w.Run(2 * meetSoon)
	if n := b.remembered(); n != 0 {
		t.Errorf("%d records after it was taken back", n)
	}
}

// A node that is a beacon is also its own beacon.
func TestANodeIsItsOwnBeacon(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	b := sw.add("beacon", 1e6, isBeacon, meets(at(m.ID(), "beacon")...)).seed(m, content)
	sw.w.Run(time.Second)
	if n := b.remembered(); n != 1 {
		t.Fatalf("%d records", n)
	}
	x := sw.add("newcomer", 1e6, meets())
	x.beacons = at(m.ID(), "beacon")
	x.fetch(m.ID())
	sw.run(time.Minute, x)
	x.complete(content)

	other, content := testShare(t, 3<<20)
	sw.add("seeder", 1e6, meets(at(other.ID(), "beacon")...)).seed(other, content)
	sw.w.Run(time.Second)
	b.beacons = at(other.ID(), "beacon")
	b.fetch(other.ID())
	sw.run(time.Minute, b)
	b.complete(content)
}

// asks makes a puppet send something to a beacon, and returns the answer.
func (p *puppet) asks(b *simNode, typ uint32, payload []byte) any {
	p.sw.t.Helper()
	p.heard = nil
	p.say(b, wire.Envelope{Kind: wire.KindTell, To: BeaconName, Reply: 100, Type: typ, Payload: payload})
	p.sw.w.Run(time.Second)
	for _, e := range p.heard {
		if m, err := (wire.Codec{}).Decode(e.Type, e.Payload); e.Kind == wire.KindReply && err == nil {
			return m
		}
	}
	return nil
}

// The answer to a question is at most twice as long as the question, on the wire.
func TestAnAnswerIsAtMostTwiceTheQuestion(t *testing.T) {
	sw := newSwarm(t, 1)
	b := sw.add("beacon", 1e6, isBeacon)
	key := share.Hash{1}
	for i := range 30 {
		p := sw.puppet(fmt.Sprintf("net%d/12D3KooWGRUVh2z7bWbXoYbF7TjJn9r8oPTP6Qo2sKZkHcSB", i), b)
		m := wire.Announce{Keys: []share.Hash{key}, Addrs: []string{"/ip4/203.0.113.255/udp/65535/quic-v1", "/ip4/203.0.113.255/tcp/65535"}}
		if a, ok := p.asks(b, wire.TypeAnnounce, wire.Append(nil, m)).(wire.Announced); !ok || a.Refused != 0 || a.TTL != beacon.TTL {
			t.Fatalf("answered %+v", a)
		}
	}
	p := sw.puppet("asker", b)
	for _, padding := range []int{0, 1, 40, 100, 500, 2 << 10, wire.MaxPadding} {
		q := wire.Append(nil, wire.Seek{Key: key, Padding: padding})
		f, ok := p.asks(b, wire.TypeSeek, q).(wire.Found)
		if a := wire.Append(nil, f); !ok || len(a) > 2*len(q) || f.Key != key {
			t.Errorf("%d bytes are answered with %d", len(q), len(a))
		}
		if want := map[int]int{0: 0, 500: 5, 2 << 10: wire.MaxIntroduced}; len(f.Peers) < want[padding] || len(f.Peers) > wire.MaxIntroduced {
			t.Errorf("padded with %d bytes: %d peers", padding, len(f.Peers))
		}
	}
	if a, ok := p.asks(b, wire.TypeAnnounce, wire.Append(nil, wire.Announce{Keys: []share.Hash{key}, Addrs: []string{"host victim"}})).(wire.Announced); !ok || a.Refused != uint8(beacon.NoAddress) {
		t.Errorf("an address of another is answered %+v", a)
	}
}

// A peer that is to be reached through its beacon, and has no place there yet, asks again soon; it is
// introduced as soon as it has one, and whoever asks takes the way through the beacon.
func TestABeaconLeadsToPeersThroughItself(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	place := false
	b := sw.add("beacon", 1e6, isBeacon, func(d *Deps) { d.Placed = func(peers.ID) bool { return place } })
	gone := sw.add("gone", 1e6)
	gone.down = true
	var answers []wire.Announced
	var homes []peers.Addr
	sw.w.Observe = func(d system.Delivery) {
		switch x := d.Message.(type) {
		case wire.Announced:
			answers = append(answers, x)
		case SourceFound:
			if x.Addr.ID == "seeder" {
				homes = append(homes, x.Addr)
			}
		}
	}
	seeder := sw.add("seeder", 1e6, meets(at(m.ID(), "beacon")...)).seed(m, content)
	seeder.addrs = []string{"/a" + peers.Through("beacon") + "/p2p/seeder"}
	sw.w.Run(3 * time.Second)
	if len(answers) != 1 || answers[0].Retry != placedSoon {
		t.Fatalf("without a place: %+v", answers)
	}
	place = true
	sw.w.Run(placedSoon)
	if n := b.remembered(); n != 1 {
		t.Fatalf("%d records", n)
	}
	x := sw.add("newcomer", 1e6, meets())
	x.beacons = at(m.ID(), "beacon")
	x.fetch(m.ID(), gone)
	sw.run(time.Minute, x)
	x.complete(content)
	if want := peers.Through("beacon"); len(homes) != 1 || !slices.Equal(homes[0].Addrs, []string{want}) || homes[0].By != "beacon" {
		t.Errorf("%+v, want %s", homes, want)
	}
}

// A beacon that lies names victims, itself, the asker, and addresses of nobody. It only wastes time.
func TestALyingBeaconCostsTimeAndNothingElse(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	source := sw.add("source", 1e6).seed(m, content)
	source.down = true
	x := sw.add("x", 1e6, meets())
	liar := sw.puppet("liar", x)
	x.met["liar"] = true
	dialled := 0
	sw.w.OnMessages(liar.id, func(_ peers.ID, frame []byte) {
		e, err := wire.ParseEnvelope(frame)
		if err != nil || e.Type != wire.TypeSeek {
			return
		}
		seek, _ := wire.Parse[wire.Seek](e.Payload)
		for i := range 625 { // answers, where one is expected: 10,000 victims
			f := wire.Found{Key: seek.Key}
			for j := range wire.MaxIntroduced - 2 {
				f.Peers = append(f.Peers, peers.Addr{ID: peers.ID(fmt.Sprint("victim", i, "-", j)), Addrs: []string{"/sim"}})
			}
			f.Peers = append(f.Peers, peers.Addr{ID: "x", Addrs: []string{"/sim"}}, peers.Addr{ID: "liar", Addrs: []string{"reach 2 loopback"}})
			sw.w.Outbox(liar.id).Send("x", wire.AppendEnvelope(nil, wire.Envelope{Kind: wire.KindReply, Token: e.Reply, Type: wire.TypeFound, Payload: wire.Append(nil, f)}))
		}
	}, func(peers.ID) {})
	x.beacons = at(m.ID(), "liar")
	x.fetch(m.ID(), source)
	sw.w.Run(20 * time.Second)
	seen := map[peers.ID]bool{}
	for _, l := range x.opened {
		if l.to == nil {
			dialled++
		} else {
			seen[l.to.id] = true
		}
	}
	if dialled > maxNamedBy*4 {
		t.Errorf("%d dials of victims", dialled)
	}
	if seen["x"] {
		t.Error("it dialled itself")
	}
	source.down = false
	sw.run(time.Minute, x)
	x.complete(content)
}

// An answer to a question that was not asked is ignored.
func TestWhatWasNotAskedIsNotHeard(t *testing.T) {
	sw := newSwarm(t, 1)
	m, _ := testShare(t, 1<<20)
	b := sw.add("beacon", 1e6, isBeacon)
	x := sw.add("x", 1e6, meets())
	x.beacons = at(m.ID(), "beacon")
	x.fetch(m.ID())
	sw.w.Run(time.Second)
	named := 0
	sw.w.Observe = func(d system.Delivery) {
		if _, ok := d.Message.(PeersNamed); ok {
			named++
		}
	}
	key := m.ID().AtBeacon(nil)
	other := sw.puppet("other", x)
	for token := range uint64(200) {
		for _, p := range []peers.ID{other.id, b.id} {
			sw.w.Outbox(p).Send("x", wire.AppendEnvelope(nil, wire.Envelope{Kind: wire.KindReply, Token: token, Type: wire.TypeFound,
				Payload: wire.Append(nil, wire.Found{Key: key, Peers: []peers.Addr{{ID: "evil", Addrs: []string{"/sim"}}}})}))
		}
	}
	sw.w.Run(100 * time.Millisecond)
	if named > 0 {
		t.Error("it was passed on")
	}
}

func TestBeaconsAreAskedAgainLessAndLessOften(t *testing.T) {
	sw := newSwarm(t, 1)
	m, _ := testShare(t, 1<<20)
	sw.add("beacon", 1e6, isBeacon)
	x := sw.add("x", 1e6, meets())
	x.beacons = at(m.ID(), "beacon")
	var asked []time.Duration
	sw.w.Observe = func(d system.Delivery) {
		if _, ok := d.Message.(wire.Seek); ok {
			asked = append(asked, sw.w.Elapsed().Round(time.Second))
		}
	}
	x.fetchWith(m.ID(), TransferConfig{Verifiers: 1, Stall: time.Hour})
	sw.w.Run(3 * time.Minute)
	if want := []time.Duration{0, 5 * time.Second, 15 * time.Second, 35 * time.Second, 75 * time.Second, 135 * time.Second}; !slices.Equal(asked, want) {
		t.Errorf("asked at %v, want %v", asked, want)
	}
}

// When the node begins it has no address yet (its relay has not given it a place), so it has nothing to
// announce. Later it has one. Deps.Meetings is called now and then.
func TestWhatIsToBeAnnouncedIsLookedAtNowAndThen(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	b := sw.add("beacon", 1e6, isBeacon)
	var say []Meeting
	sw.add("seeder", 1e6, func(d *Deps) { d.Meetings = func() []Meeting { return say } }).seed(m, content)
	sw.w.Run(10 * time.Second)
	say = at(m.ID(), "beacon")
	sw.w.Run(24 * beacon.TTL)
	if n := b.remembered(); n != 1 {
		t.Errorf("%d records after 12 hours", n)
	}
}

// When the node begins it has addresses, and the one by which others reach it comes a moment later: the router forwards a port. Later that
// is another port. A beacon, with which it is connected all the time, hears of each soon, and not a quarter of an hour later.
func TestABeaconHearsOfTheAddressThatANodeGets(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	b := sw.add("beacon", 1e6, isBeacon)
	var said []string
	sw.w.Observe = func(d system.Delivery) {
		if a, ok := d.Message.(wire.Announce); ok {
			said = a.Addrs
		}
	}
	seeder := sw.add("seeder", 1e6, meets(at(m.ID(), "beacon")...)).seed(m, content)
	seeder.addrs = []string{"host private"}
	sw.w.Run(10 * time.Second)
	for _, forwarded := range []string{"port 4001", "port 4002"} {
		seeder.addrs = []string{"host private", forwarded}
		sw.w.Run(2 * meetAnew)
		if n := b.remembered(); n != 1 || !slices.Contains(said, forwarded) {
			t.Errorf("%d records, and the beacon was told of %q, %s after the router forwarded %s", n, said, 2*meetAnew, forwarded)
		}
	}
}

// Somebody's ticket names a beacon of this node too, at as many hosts as a ticket may name (16, over two transports), and none is the beacon's. It is
// dialled all the same where the node's owner says that it is.
func TestATicketDoesNotHideWhereABeaconIs(t *testing.T) {
	sw := newSwarm(t, 1)
	b := newBeacons(sw.add("node", 1e6).program.s, nil, nil, nil)
	var invented []string
	for i := range 16 {
		invented = append(invented, fmt.Sprintf("/ip4/192.0.2.%d/tcp/4001", i), fmt.Sprintf("/ip4/192.0.2.%d/udp/4001/quic-v1", i))
	}
	const right = "/ip4/198.51.100.1/tcp/4001"
	for _, said := range [][]string{invented, {right}, append([]string{right}, invented...)} { // a ticket's, the owner's, and both
		if p := b.post(peers.Addr{ID: "beacon", Addrs: said}); p.at.Addrs[0] != said[0] || len(p.at.Addrs) > maxAddrs {
			t.Errorf("it is dialled at %d addresses, first at %s and not at %s", len(p.at.Addrs), p.at.Addrs[0], said[0])
		}
	}
}

// A beacon that is connected, and never ends an answer, holds nothing up: a fetch without another source ends with what
// is wrong with those that it has, and one with a source goes on.
func TestABeaconThatNeverAnswersHoldsNothingUp(t *testing.T) {
	for _, down := range []bool{true, false} {
		sw := newSwarm(t, 1)
		m, content := testShare(t, 1<<20)
		source := sw.add("source", 1e6).seed(m, content)
		source.down = down
		x := sw.add("newcomer", 1e6, meets())
		b := sw.puppet("beacon", x)
		x.beacons = at(m.ID(), "beacon")
		x.fetch(m.ID(), source)
		sw.run(time.Minute, x)
		if !slices.ContainsFunc(b.heard, func(e wire.Envelope) bool { return e.Type == wire.TypeSeek }) {
			t.Error("the beacon was not asked")
		}
		if !down {
			x.complete(content)
		} else if err := x.end.Err; err == nil || !strings.Contains(err.Error(), "source: dial: peer is unreachable") {
			t.Error(err)
		}
	}
}

// A node that tickets name as a beacon, and that is none, is named once, and costs nothing else. A question to it is
// answered by nobody, and the news of that does not say which beacon it was.
func TestANodeThatIsNoBeaconIsNamedOnce(t *testing.T) {
	sw := newSwarm(t, 1)
	var log bytes.Buffer
	sw.w.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	m, content := testShare(t, 1<<20)
	sw.add("node", 1e6)
	source := sw.add("seeder", 1e6, meets(at(m.ID(), "node")...)).seed(m, content)
	x := sw.add("newcomer", 1e6, meets())
	x.beacons = at(m.ID(), "node")
	x.fetch(m.ID(), source)
	sw.run(30*time.Minute, x)
	x.complete(content)
	if n := strings.Count(log.String(), "is not a beacon"); n != 1 || strings.Contains(log.String(), "panicked") || !strings.Contains(log.String(), "make new tickets in place of those that name the old one") {
		t.Errorf("it was said %d times:\n%s", n, &log)
	}
}

// Who has more to announce than a beacon remembers of one peer is found by as many as it remembers, for as long as it
// runs: those that there was no room for do not take the turns of those that are to be renewed.
func TestWhatABeaconHasNoRoomForDoesNotMakeItForgetTheRest(t *testing.T) {
	sw := newSwarm(t, 1)
	var log bytes.Buffer
	sw.w.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	m, content := testShare(t, 1<<20)
	b := sw.add("beacon", 1e6, isBeacon)
	var say []Meeting
	for i := range 2100 {
		say = append(say, at(share.IDOf(fmt.Append(nil, i)), "beacon")...)
	}
	keys := 0
	sw.w.Observe = func(d system.Delivery) {
		if a, ok := d.Message.(wire.Announce); ok {
			keys += len(a.Keys)
		}
	}
	sw.add("seeder", 1e6, meets(say...)).seed(m, content)
	sw.w.Run(30 * time.Second)
	first := b.remembered()
	sw.w.Run(beacon.TTL + time.Minute)
	if n := b.remembered(); n < first || keys > 4*len(say) {
		t.Errorf("%d of %d are remembered after half an hour, in which %d keys were announced", n, first, keys)
	}
	if n := strings.Count(log.String(), "has no room"); n != 1 {
		t.Errorf("it was said %d times:\n%s", n, &log)
	}
}
