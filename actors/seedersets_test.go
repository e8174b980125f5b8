package actors

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// fewPlaces has room for one active child, one passive and one tracked.
func fewPlaces(d *Deps) { d.Tiers = peers.TierConfig{MaxActive: 1, MaxPassive: 1, MaxTracked: 1} }

func (p *puppet) hears(of uint32) (n int) {
	for _, e := range p.heard {
		if e.Type == of {
			n++
		}
	}
	return n
}

// Active children hear of a piece soon, passive ones within a second, and tracked ones
// when they are no longer tracked.
func TestAnnouncementsFollowTheSets(t *testing.T) {
	sw := newSwarm(t, 1)
	m, _ := testShare(t, 8<<20)
	source := sw.add("source", 1e6, fewPlaces)
	source.offer(m.ID(), 8, share.NewSet(8))
	var all []*puppet
	for i := range 4 {
		p := sw.puppet(fmt.Sprint("child", i), source)
		p.subscribe(source, m.ID(), 7)
		all = append(all, p)
	}
	for i, p := range all {
		accepted, maps := 1, 1
		if i == 3 {
			maps = 0
		}
		if p.hears(wire.TypeSubscribeResult) != accepted || p.hears(wire.TypeHaveMap) != maps { // invariant 63
			t.Errorf("child %d heard %d answers and %d maps", i, p.hears(wire.TypeSubscribeResult), p.hears(wire.TypeHaveMap))
		}
	}
	if r := all[3].subscribes(source, wire.Subscribe{Share: m.ID()}); r.Accepted || r.Retry != 10*time.Second || r.Reason.Code != wire.CodeFull {
		t.Errorf("beyond the bound: %+v", r)
	}
	heard := func(want ...int) {
		t.Helper()
		for i, n := range want {
			if got := all[i].told(8).Count(); got != n {
				t.Errorf("child %d heard of %d pieces, want %d", i, got, n)
			}
		}
	}
	for piece := range share.Piece(4) {
		source.tellSeeder(PieceAvailable{m.ID(), piece, false})
		sw.w.Run(150 * time.Millisecond)
	}
	heard(4, 0, 0)
	sw.w.Run(600 * time.Millisecond)
	heard(4, 4, 0)
	if n := all[1].hears(wire.TypeHave); n != 1 {
		t.Errorf("the passive child heard of four pieces in %d messages", n)
	}
	all[0].say(source, wire.Envelope{Kind: wire.KindTell, To: SeederName, Type: wire.TypeUnsubscribe, Payload: wire.Append(nil, wire.Unsubscribe{Share: m.ID()})})
	source.tellSeeder(PieceAvailable{m.ID(), 4, false})
	sw.w.Run(200 * time.Millisecond)
	heard(4, 5, 0) // it is active now
	sw.w.Run(time.Second)
	heard(4, 5, 5) // and this one passive
	if r := all[3].subscribes(source, wire.Subscribe{Share: m.ID()}); !r.Accepted {
		t.Errorf("a place has fallen free: %+v", r)
	}
	source.tellSeeder(PieceAvailable{m.ID(), 5, false})
	sw.w.Run(2 * time.Second)
	if heard(4, 6, 6); all[3].told(8).Has(5) {
		t.Error("a tracked child heard of a piece")
	}
	sw.w.Run(30 * time.Second)
	if !all[3].told(8).Has(5) {
		t.Error("a tracked child never hears of anything")
	}
}

// A few children hear of each piece at once, unless in a fleet; twenty hear of those that came within 100 ms, and more later.
func TestFewChildrenHearSoon(t *testing.T) {
	sw := newSwarm(t, 1)
	m, _ := testShare(t, 12<<20)
	source := sw.add("source", 1e6, func(*Deps) {})
	source.offer(m.ID(), 12, share.NewSet(12))
	var all []*puppet
	for i, c := range []struct {
		children int
		soon     bool
		apart    time.Duration
		messages int
	}{{2, true, 20, 3}, {2, false, 20, 1}, {24, true, 20, 1}, {40, true, 60, 1}} {
		for len(all) < c.children {
			p := sw.puppet(fmt.Sprint("child", len(all)), source)
			p.subscribe(source, m.ID(), 7)
			all = append(all, p)
		}
		sw.w.Run(time.Second)
		before := all[0].hears(wire.TypeHave)
		for j := range 3 {
			source.tellSeeder(PieceAvailable{m.ID(), share.Piece(3*i + j), c.soon})
			sw.w.Run(c.apart * time.Millisecond)
		}
		sw.w.Run(100 * time.Millisecond)
		if n := all[0].hears(wire.TypeHave) - before; n != c.messages || all[0].told(12).Count() != 3*(i+1) {
			t.Errorf("one of %d children heard of %d pieces, the last three in %d messages, want %d", c.children, all[0].told(12).Count(), n, c.messages)
		}
	}
}

// What each child hears of each share is a message.
func TestNewsOfManySharesAreNoMoreMessages(t *testing.T) {
	sw := newSwarm(t, 1)
	source := sw.add("source", 1e6, func(*Deps) {})
	var ids []share.ID
	for i := range 4 {
		m, _ := testShare(t, (12+i)<<20)
		source.offer(m.ID(), 12+i, share.NewSet(12+i))
		ids = append(ids, m.ID())
	}
	var all []*puppet
	for i := range 40 {
		p := sw.puppet(fmt.Sprint("child", i), source)
		for _, id := range ids {
			p.subscribe(source, id, 7)
		}
		all = append(all, p)
	}
	count := func() (n int) {
		for _, p := range all {
			n += p.hears(wire.TypeHave)
		}
		return n
	}
	sw.w.Run(time.Second)
	before := count()
	for j := range share.Piece(10) {
		for _, id := range ids {
			source.tellSeeder(PieceAvailable{id, j, true})
		}
		sw.w.Run(100 * time.Millisecond)
	}
	if n := count() - before; n != 160 {
		t.Errorf("%d messages in a second, want one to each child for each share", n)
	}
}

// A child that has to make room for another is told goodbye, and its subscriptions are over.
func TestAChildWithoutAPlaceIsToldGoodbye(t *testing.T) {
	sw := newSwarm(t, 1)
	m, _ := testShare(t, 8<<20)
	source := sw.add("source", 1e6, func(d *Deps) { d.Tiers = peers.TierConfig{MaxActive: 4, MaxPassive: 16, MaxTracked: 16} })
	source.offer(m.ID(), 8, share.NewSet(8))
	var near []*puppet
	for i := range 36 { // all from one location
		p := sw.puppet(fmt.Sprint("one/", i), source)
		p.subscribe(source, m.ID(), 7)
		near = append(near, p)
	}
	far := sw.puppet("two/0", source)
	if r := far.subscribes(source, wire.Subscribe{Share: m.ID()}); !r.Accepted {
		t.Fatalf("whoever comes from elsewhere: %+v", r)
	}
	source.tellSeeder(PieceAvailable{m.ID(), 1, false})
	sw.w.Run(150 * time.Millisecond)
	if far.told(8).Count() != 1 {
		t.Error("whoever comes from elsewhere is not active")
	}
	sw.w.Run(time.Minute)
	gone, heard := 0, 0
	for _, p := range near {
		gone += p.hears(wire.TypeGoodbye)
		heard += p.told(8).Count()
	}
	if gone != 1 || heard != 35 {
		t.Errorf("of 36 %d had to go, and %d heard of a piece", gone, heard)
	}
}

// takes makes a child take a request that is served for that long, and returns its state then.
func (n *simNode) takes(child peers.ID, id share.ID, took time.Duration) peers.Standing {
	n.sw.t.Helper()
	var a Admission
	n.program.Request(AdmitRequest{Child: child, Share: id, Bytes: 1 << 16, Reply: func(x Admission) { a = x }})
	n.sw.w.Settle()
	n.sw.w.Run(took)
	n.program.Served(a.Job, 1<<16)
	n.sw.w.Settle()
	list, err := n.program.Children(n.sw.t.Context())
	if err != nil {
		n.sw.t.Fatal(err)
	}
	for _, e := range list {
		if e.Peer == child && e.Share == id {
			return e.Standing
		}
	}
	n.sw.t.Fatalf("%s is not among %+v", child, list)
	return peers.Standing{}
}

// A peer that never subscribed, which nobody must, has its share of a source that has room for more.
func TestWhoNeverSubscribedIsServedToo(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	source := sw.add("source", 1e6, func(d *Deps) { d.Uploads.Slots = 1 }).seed(m, content)
	sw.puppet("child", source).subscribe(source, m.ID(), 7)
	var order []peers.ID
	jobs := map[peers.ID][]Admission{}
	for _, peer := range []peers.ID{"child", "child", "child", "guest", "guest"} {
		source.program.Request(AdmitRequest{Child: peer, Share: m.ID(), Bytes: 1 << 16, Reply: func(a Admission) {
			jobs[peer] = append(jobs[peer], a)
			order = append(order, peer)
		}})
		sw.w.Settle()
	}
	for i := 0; i < len(order); i++ {
		job := jobs[order[i]][0]
		jobs[order[i]] = jobs[order[i]][1:]
		source.program.Served(job.Job, 1<<16)
		sw.w.Settle()
	}
	if want := []peers.ID{"child", "guest", "child", "guest", "child"}; !slices.Equal(order, want) {
		t.Errorf("served %v, want %v", order, want)
	}
}

func TestASetGoesBeforeTheNext(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	source := sw.add("source", 1e6, fewPlaces, func(d *Deps) { d.Uploads.Slots = 1 }).seed(m, content)
	for _, name := range []string{"active", "passive", "tracked"} {
		sw.puppet(name, source).subscribe(source, m.ID(), 7)
	}
	var order []peers.ID
	jobs := map[peers.ID]Admission{}
	for _, child := range []peers.ID{"stranger", "tracked", "passive", "active"} {
		source.program.Request(AdmitRequest{Child: child, Share: m.ID(), Bytes: 1 << 16, Reply: func(a Admission) {
			jobs[child] = a
			order = append(order, child)
		}})
		sw.w.Settle()
	}
	for i := range 4 {
		if i >= len(order) {
			break
		}
		source.program.Served(jobs[order[i]].Job, 1<<16)
		sw.w.Settle()
	}
	if want := []peers.ID{"stranger", "active", "passive", "tracked"}; !slices.Equal(order, want) {
		t.Errorf("served %v, want %v", order, want)
	}
}

// Requests that wait are served as is due to what their child is by then.
func TestWhatWaitsFollowsTheSets(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	source := sw.add("source", 1e6, fewPlaces, func(d *Deps) { d.Uploads.Slots = 1 }).seed(m, content)
	a, b := sw.puppet("a", source), sw.puppet("b", source)
	a.subscribe(source, m.ID(), 7)
	b.subscribe(source, m.ID(), 7)
	var order []peers.ID
	var first Admission
	for _, child := range []peers.ID{"a", "a", "b"} {
		source.program.Request(AdmitRequest{Child: child, Share: m.ID(), Bytes: 1 << 16, Reply: func(x Admission) {
			if order = append(order, child); len(order) == 1 {
				first = x
			}
		}})
		sw.w.Settle()
	}
	a.say(source, wire.Envelope{Kind: wire.KindTell, To: SeederName, Type: wire.TypeUnsubscribe, Payload: wire.Append(nil, wire.Unsubscribe{Share: m.ID()})})
	source.program.Served(first.Job, 1<<16)
	sw.w.Settle()
	if want := []peers.ID{"a", "b"}; !slices.Equal(order, want) {
		t.Errorf("served %v, want %v", order, want)
	}
}

func TestTheSetsFollowWhatChildrenTake(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	source := sw.add("source", 1e6, fewPlaces).seed(m, content)
	a, b := sw.puppet("x/a", source), sw.puppet("x/b", source)
	a.subscribe(source, m.ID(), 7)
	b.subscribe(source, m.ID(), 7)
	source.takes("x/a", m.ID(), 2*time.Second)
	slow := source.takes("x/a", m.ID(), 4*time.Second)
	if slow.Set != peers.Active || slow.Tier != 1 || slow.Score == peers.InitialScore {
		t.Errorf("a: %+v", slow)
	}
	a.subscribe(source, m.ID(), 8) // again: it is the same child
	if st := source.takes("x/a", m.ID(), 4*time.Second); st.Set != peers.Active || !st.Since.Equal(slow.Since) {
		t.Errorf("a: %+v", st)
	}
	for range 10 {
		source.takes("x/b", m.ID(), 500*time.Millisecond)
	}
	sw.w.Run(time.Second)
	if st := source.takes("x/b", m.ID(), 0); st.Set != peers.Active || st.Why != peers.Better {
		t.Errorf("b: %+v", st)
	}
	source.roundTrip = time.Second
	for range 8 {
		source.takes("x/b", m.ID(), 2*time.Second)
	}
	if st := source.takes("x/b", m.ID(), 0); st.Tier != 4 {
		t.Errorf("b is a second away: %+v", st)
	}
}

func TestAShareThatIsWithdrawnFreesItsPlaces(t *testing.T) {
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	other, more := testShare(t, 2<<20)
	source := sw.add("source", 1e6, fewPlaces).seed(m, content).seed(other, more)
	a, b := sw.puppet("a", source), sw.puppet("b", source)
	a.subscribe(source, m.ID(), 7)
	delete(source.catalog, m.ID())
	if told, err := source.program.Withdraw(t.Context(), m.ID(), 0); err != nil || told != 1 {
		t.Fatalf("%d were told, %v", told, err)
	}
	b.subscribe(source, other.ID(), 7)
	if st := source.takes("b", other.ID(), 0); st.Set != peers.Active {
		t.Errorf("%+v", st)
	}
}

// A child is told of each piece once, however many arrive in between.
func TestMoreNewsThanCanBeNamedAreAMap(t *testing.T) {
	o := &audience{}
	slow, fast := &child{}, &child{}
	for i := range share.Piece(5 * deltaPieces) {
		o.heard(i)
		if i%100 == 0 {
			news, ok := o.untold(fast)
			if !ok || len(news) == 0 || news[len(news)-1] != i || fast.told > 0 && news[0] != share.Piece(fast.told) {
				t.Fatalf("at %d: %d news", i, len(news))
			}
			fast.told = o.end()
		}
		if news, ok := o.untold(slow); ok != (int(i) < deltaPieces) || ok && len(news) != int(i)+1 {
			t.Fatalf("at %d: %d news for a child that heard of none, %v", i, len(news), ok)
		}
	}
	if len(o.news) > 2*deltaPieces {
		t.Errorf("%d are remembered", len(o.news))
	}
	if _, ok := o.untold(&child{told: o.end(), whole: true}); ok {
		t.Error("a child that is to get a map gets news")
	}
}

// BenchmarkAnnouncements measures the cost of telling a thousand children about 20 pieces a
// second, at a source that is fetching, for ten virtual seconds: with sets, and if all are active.
func BenchmarkAnnouncements(b *testing.B) {
	for name, cfg := range map[string]peers.TierConfig{"sets": {}, "all-active": {MaxActive: 1000}} {
		b.Run(name, func(b *testing.B) {
			sent := 0
			var took time.Duration
			for b.Loop() {
				n, t := announce(b, cfg)
				sent, took = sent+n, took+t
			}
			b.ReportMetric(float64(sent)/float64(b.N)/announcedFor, "messages/s")
			b.ReportMetric(took.Seconds()/float64(b.N)/announcedFor, "CPU-s/s")
		})
	}
}

const announcedFor = 10 // seconds

func announce(b *testing.B, cfg peers.TierConfig) (sent int, took time.Duration) {
	const each = 20 // pieces a second
	sw := newSwarm(b, 1)
	m, _ := testShare(b, 1<<20)
	id := m.ID()
	source := sw.add("source", 1e6, func(d *Deps) { d.Tiers = cfg })
	source.offer(id, each*announcedFor, share.NewSet(each*announcedFor))
	for i := range 1000 {
		p := sw.puppet(fmt.Sprint("child", i), source)
		p.subscribe(source, id, 7)
		sw.w.OnMessages(p.id, func(peers.ID, []byte) { sent++ }, func(peers.ID) {})
	}
	sw.w.Run(time.Second)
	sent = 0
	began := time.Now()
	for i := range share.Piece(each * announcedFor) {
		source.tellSeeder(PieceAvailable{id, i, false})
		sw.w.Run(time.Second / each)
	}
	return sent, time.Since(began)
}

// Five hundred identities of one network hold every active place, until others come: these
// get theirs at once, and those are left what one location has a claim to.
func TestIdentitiesOfOneNetworkGiveWayAtOnce(t *testing.T) {
	rig.Slow(t)
	sw := newSwarm(t, 1)
	m, content := testShare(t, 1<<20)
	sets := map[peers.ID]peers.Set{}
	source := sw.add("source", 1e6, func(d *Deps) {
		d.ChildMoved = func(m peers.Move) {
			if sets[m.ID] = m.To; m.To == peers.Outside {
				delete(sets, m.ID)
			}
		}
	}).seed(m, content)
	join := func(name string) { sw.puppet(name, source).subscribe(source, m.ID(), 7) }
	active := func(of string) (n int) {
		for id, s := range sets {
			if s == peers.Active && strings.HasPrefix(string(id), of) {
				n++
			}
		}
		return n
	}
	for i := range 500 {
		join(fmt.Sprint("den/", i))
	}
	if n := active("den/"); n != 128 {
		t.Errorf("%d of them are active, and nobody else is there", n)
	}
	for i := range 160 {
		join(fmt.Sprintf("else%d/0", i))
		if theirs, others := active("den/"), active("else"); theirs != max(3, 127-i) || others != min(i+1, 125) {
			t.Fatalf("of the identities %d are active, of %d others %d", theirs, i+1, others)
		}
	}
	for i := range 160 { // others go: those that wait come before the identities
		source.program.Lost(peers.ID(fmt.Sprintf("else%d/0", i)))
		sw.w.Settle()
		if theirs := active("den/"); theirs > max(3, i-31) {
			t.Fatalf("of the identities %d are active after %d others have gone", theirs, i+1)
		}
	}
	if len(sets) != 500 || active("") != 128 {
		t.Errorf("%d are left, %d of them active", len(sets), active(""))
	}
}
