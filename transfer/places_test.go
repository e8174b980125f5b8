package transfer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// named returns IDs.
func named(prefix string, n int) (ids []peers.ID) {
	for i := range n {
		ids = append(ids, peers.ID(fmt.Sprint(prefix, i)))
	}
	return ids
}

// bring lets time pass second by second, in which each of the running sources that rates
// names brings as many bytes, from a place of its own.
func (w *world) bring(seconds int, rates map[peers.ID]int) {
	w.Helper()
	for range seconds {
		for _, id := range w.running() {
			w.happens(func() {
				if n := rates[id]; n > 0 {
					w.x.moved = w.now
					w.x.gave(id, n)
				}
			})
			w.status(SourceStatus{Source: id, State: Active, Why: "fetching", Connected: true, RTT: 20 * time.Millisecond, From: at(id)})
		}
		w.pass(time.Second)
	}
}

// at is the endpoint of a source: all whose names begin alike are in one location.
func at(id peers.ID) peers.Endpoint {
	return peers.Endpoint{Addr: string(id), Location: string(id[:1]), Net: string(id)}
}

// run says how many of some sources are fetched from.
func (w *world) run(ids []peers.ID) (n int) {
	for _, id := range w.running() {
		if slices.Contains(ids, id) {
			n++
		}
	}
	return n
}

func rates(ids []peers.ID, rate int) map[peers.ID]int {
	m := map[peers.ID]int{}
	for _, id := range ids {
		m[id] = rate
	}
	return m
}

// Sources that bring nothing make room for those that wait, one a second once they had their time.
func TestWhoBringsNothingMakesRoom(t *testing.T) {
	mute, good := named("m", 64), named("g", 4)
	w := fetching(t, Config{}, append(slices.Clone(mute), good...)...)
	w.bring(9, rates(good, 1<<20))
	if n := w.run(mute); n != 64 {
		t.Fatalf("%d of 64 places are left before their time", n)
	}
	w.bring(7, rates(good, 1<<20))
	if n := w.run(good); n != 4 {
		t.Errorf("%d of 4 good sources have a place after 16 s", n)
	}
	w.bring(60, rates(good, 1<<20))
	if n := w.run(good); n != 4 {
		t.Errorf("%d of 4 good sources have kept their places", n)
	}
	for _, s := range w.progress().Sources {
		st := s.Standing
		if isGood := slices.Contains(good, s.Peer); isGood != (st.Location == "g" && st.Tier == 1 && st.Score > 0.7) || st.Since.IsZero() || (st.Set == peers.Active) != (w.poolOf(s.Peer) != 0) {
			t.Errorf("%s: %+v", s.Peer, st)
		}
		if st.Set != peers.Active && (s.State != Resting || !strings.HasPrefix(s.Why, "waits while others are tried")) {
			t.Errorf("%s: %v, %q", s.Peer, s.State, s.Why)
		}
	}
}

// One that waits is not tried before a good source ends, but for one at a time; so nobody
// displaces good sources by naming others.
func TestNamesDisplaceNoGoodSource(t *testing.T) {
	good, names := named("g", 8), named("n", 400)
	w := fetching(t, Config{MaxSources: 8}, append(slices.Clone(good), names...)...)
	for i := range 120 {
		w.bring(1, rates(good, 1<<20))
		if n := w.run(good); n < 7 {
			t.Fatalf("after %d s %d of 8 good sources have a place", i, n)
		}
	}
	if n := len(w.running()); n != 8 {
		t.Errorf("%d of 8 places are in use", n)
	}
}

// Sources from elsewhere that do as well have a claim to a few places.
func TestAnotherLocationGetsItsPlaces(t *testing.T) {
	here, there := named("h", 20), named("t", 3)
	w := fetching(t, Config{MaxSources: 8}, append(slices.Clone(here), there...)...)
	all := rates(append(slices.Clone(here), there...), 1<<20)
	w.bring(600, all)
	if n := w.run(there); n != 3 {
		t.Errorf("%d of 3 from elsewhere have a place", n)
	}
}

// A source outside the fleet keeps its place while pieces are leased from it, though the other members bring more.
func TestWhatIsLeasedFromOutsideTheFleetIsWaitedFor(t *testing.T) {
	for _, x := range []struct {
		of       Fleet
		via      peers.Via
		fetching bool
		want     int
	}{
		{Fleet{Secret: "s"}, peers.ViaTicket, true, 1},
		{Fleet{Coordinator: peers.Addr{ID: "c"}}, peers.ViaDHT, true, 1},
		{Fleet{Secret: "s"}, peers.ViaTicket, false, 0}, // nothing is leased from it
		{Fleet{Secret: "s"}, peers.ViaPeer, true, 0},    // a member
		{Fleet{Secret: "s"}, peers.ViaItself, true, 0},
		{Fleet{}, peers.ViaTicket, true, 0},
	} {
		members := named("m", 12)
		w := fetching(t, Config{MaxSources: 8, Fleet: x.of}, members[:7]...)
		w.happens(func() { w.x.SourceFound(SourceFound{Addr: peers.Addr{ID: "o"}, Via: x.via}, w.now) })
		w.active("o")
		w.find(members[7:]...)
		for range 120 {
			for _, id := range w.running() {
				if id != "o" {
					w.happens(func() {
						w.x.moved = w.now
						w.x.gave(id, 1<<20)
					})
				}
				w.status(SourceStatus{Source: id, State: Active, Connected: true, Fetching: id != "o" || x.fetching, From: at(id)})
			}
			w.pass(time.Second)
		}
		if n := w.run([]peers.ID{"o"}); n != x.want {
			t.Errorf("%+v: %d, want %d", x, n, x.want)
		}
	}
}

func TestSilentSourcesOutsideTheFleetDoNotKeepMembersOut(t *testing.T) {
	members := named("m", 8)
	w := fetching(t, Config{MaxSources: 8, Fleet: Fleet{Secret: "s"}})
	for _, id := range named("o", 8) {
		w.happens(func() { w.x.SourceFound(SourceFound{Addr: peers.Addr{ID: id}, Via: peers.ViaDHT}, w.now) })
		w.active(id)
	}
	for _, id := range members {
		w.happens(func() { w.x.SourceFound(SourceFound{Addr: peers.Addr{ID: id}, Via: peers.ViaPeer}, w.now) })
	}
	fewest := len(members)
	for i := range 1200 {
		for _, id := range w.running() {
			if id[0] == 'm' {
				w.happens(func() { w.x.gave(id, 1<<20) })
			}
			w.status(SourceStatus{Source: id, State: Active, Connected: true, Fetching: true, From: at(id)})
		}
		w.happens(func() { w.x.moved = w.now })
		w.pass(time.Second)
		if i > 600 {
			fewest = min(fewest, w.run(members))
		}
	}
	if fewest < 6 {
		t.Errorf("members had %d of 8 places", fewest)
	}
}

// While the node itself holds its sources back, none loses its place for bringing nothing.
func TestWhoIsHeldBackByThisNodeKeepsItsPlace(t *testing.T) {
	for name, hold := range map[string]func(w *world){
		"a limit":       func(w *world) { w.x.Limit(100_000, false, 0) },
		"no reader":     func(w *world) {},
		"the full disk": func(w *world) { w.happens(func() { w.x.DiskFailed(share.ErrDiskFull, w.now) }) },
	} {
		a, b := named("a", 4), named("b", 4)
		w := fetching(t, Config{MaxSources: 4, Stall: time.Hour, OnDemand: name == "no reader"}, append(slices.Clone(a), b...)...)
		hold(w)
		for range 40 {
			w.happens(func() {
				if name == "a limit" {
					w.x.moved = w.now
					w.x.gave("a0", 100_000)
				}
			})
			w.pass(time.Second)
			if w.work == LookForRoom {
				w.worked(nil, 100, 0)
			}
		}
		if n := w.run(a); n != 4 {
			t.Errorf("%s: %d of 4 have kept their places", name, n)
		}
	}
}

// A limit that is not used up explains nothing.
func TestALimitThatIsNotUsedUpExplainsNothing(t *testing.T) {
	w := fetching(t, Config{MaxSources: 1}, "a", "b")
	w.x.Limit(10_000_000, false, 0)
	w.bring(20, map[peers.ID]int{"b": 1 << 20})
	if w.poolOf("b") == 0 {
		t.Errorf("%v has the place", w.running())
	}
}

// A source that comes to be far away is of another tier.
func TestATierFollowsTheRoundTrip(t *testing.T) {
	w := fetching(t, Config{MaxSources: 1}, "a", "b")
	w.bring(15, map[peers.ID]int{"a": 1 << 20})
	tier := func() peers.Tier { return w.progress().Sources[0].Standing.Tier }
	if tier() != 1 {
		t.Fatalf("tier %d", tier())
	}
	for range 40 {
		w.happens(func() { w.x.gave("a", 1<<20) })
		w.status(SourceStatus{Source: "a", State: Active, Connected: true, RTT: 300 * time.Millisecond, From: at("a")})
		w.pass(time.Second)
	}
	if tier() != 4 {
		t.Errorf("tier %d", tier())
	}
}

// A source whose score is good gives way too when all that is missing is with others.
func TestWhatNobodyHasIsLookedForElsewhere(t *testing.T) {
	had, last := named("h", 8), named("l", 1)
	w := fetching(t, Config{MaxSources: 8}, append(slices.Clone(had), last...)...)
	w.bring(20, rates(had, 1<<20))
	w.bring(15, nil)
	if w.run(last) != 1 {
		t.Error("the one that waits is not tried")
	}
}

// Nothing is rated, and nobody is woken for it, while all have a place.
func TestPlacesForAllNeedNoRating(t *testing.T) {
	w := fetching(t, Config{MaxSources: 3}, named("a", 3)...)
	w.happens(func() { w.x.Next(w.now) })
	for _, s := range w.progress().Sources {
		if s.Standing != (peers.Standing{}) {
			t.Errorf("%+v", s.Standing)
		}
	}
	if next := w.x.rateAll(false); !next.IsZero() {
		t.Error("woken at", next)
	}
}

// A source that has brought something, and cannot be reached for a while, goes before those that never brought anything.
func TestWhoHasBroughtSomethingComesBackFirst(t *testing.T) {
	w := fetching(t, Config{MaxSources: 8, Stall: time.Hour}, append(named("g", 1), named("n", 1000)...)...)
	good := rates(named("g", 1), 1<<20)
	w.bring(30, good)
	for range 70 { // cut off
		w.bring(1, nil)
		if w.poolOf("g0") != 0 {
			w.status(SourceStatus{Source: "g0", State: Connecting, Dials: enoughDials})
		}
	}
	for range 15 {
		w.bring(1, good)
	}
	if w.poolOf("g0") == 0 {
		t.Error("the only good source has no place 15 s after it can be reached again")
	}
}

// Sources whose links wait for this node keep their places, but for those that are exchanged now and then.
func TestWhoWaitsForThisNodeKeepsItsPlace(t *testing.T) {
	a := named("a", 4)
	w := fetching(t, Config{MaxSources: 4, Stall: time.Hour}, append(slices.Clone(a), named("b", 4)...)...)
	for range exploreEvery / time.Second {
		w.happens(func() { w.x.moved = w.now })
		for _, id := range w.running() {
			w.status(SourceStatus{Source: id, State: Connecting, Why: "waits: this machine is busy", Held: true})
		}
		w.pass(time.Second)
	}
	if n := w.run(a); n < 3 {
		t.Errorf("%d of 4 have kept their places", n)
	}
}
