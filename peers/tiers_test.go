package peers

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var tierDay = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// from returns a place by the numbers of its location and network.
func from(location, net int) Endpoint {
	return Endpoint{Location: fmt.Sprint("10.", location), Net: fmt.Sprint("10.", location, ".", net)}
}

// club is Tiers with a few places, and where its moves put each peer.
type club struct {
	*Tiers
	t    interface{ Fatalf(string, ...any) }
	now  time.Time
	sets map[ID]Set // as answered and reported
}

func newClub(t interface{ Fatalf(string, ...any) }, cfg TierConfig) *club {
	return &club{Tiers: NewTiers(cfg), t: t, now: tierDay, sets: map[ID]Set{}}
}

func (c *club) join(id ID, at Endpoint, rtt time.Duration) Answer {
	a := c.Subscribe(id, at, rtt, c.now)
	c.sets[id] = a.Set
	c.told()
	return a
}

// told applies the moves: each must begin where the peer was.
func (c *club) told() {
	for _, m := range c.Moves() {
		if was, known := c.sets[m.ID]; !known || was != m.From && m.Why != Invalid {
			c.t.Fatalf("%s moves from %v to %v (%v) and was told to be %v", m.ID, m.From, m.To, m.Why, was)
		}
		c.sets[m.ID] = m.To
	}
}

func (c *club) tick(d time.Duration) {
	c.now = c.now.Add(d)
	c.Tick(c.now)
	c.told()
}

func (c *club) many(prefix string, n int, at Endpoint, rtt time.Duration) (ids []ID) {
	for i := range n {
		id := ID(fmt.Sprint(prefix, i))
		c.join(id, at, rtt)
		ids = append(ids, id)
	}
	return ids
}

func (c *club) count(s Set, ids []ID) (n int) {
	for _, id := range ids {
		if c.Set(id) == s {
			n++
		}
	}
	return n
}

func (c *club) score(id ID) float64 {
	st, _ := c.Standing(id, c.now)
	return st.Score
}

const near = 20 * time.Millisecond // tier 1: 3 active, 15 passive

func TestTiersByRoundTrip(t *testing.T) {
	for rtt, want := range map[time.Duration]Tier{
		0: 4, time.Nanosecond: 0, 5*time.Millisecond - 1: 0, 5 * time.Millisecond: 1, 50*time.Millisecond - 1: 1, 50 * time.Millisecond: 2,
		100 * time.Millisecond: 3, 150*time.Millisecond - 1: 3, 150 * time.Millisecond: 4, time.Hour: 4,
	} {
		if got := tierOf(rtt); got != want {
			t.Errorf("%v: tier %d, want %d", rtt, got, want)
		}
	}
}

func TestPlacesThatNobodyClaimsGoToWhoeverWaits(t *testing.T) {
	c := newClub(t, TierConfig{MaxActive: 20, MaxPassive: 30, MaxTracked: 10})
	all := c.many("a", 70, from(1, 1), near)
	for s, want := range map[Set]int{Active: 20, Passive: 30, Tracked: 10, Outside: 10} {
		if got := c.count(s, all); got != want {
			t.Errorf("%d are %v, want %d", got, s, want)
		}
	}
	if a := c.join("late", from(1, 1), near); a.Set != Outside || a.Retry != 10*time.Second {
		t.Errorf("with no room: %+v", a)
	}
	if a := c.join("a0", from(1, 1), near); a.Set != Active || c.Len(Active) != 20 {
		t.Errorf("a second subscription: %+v, %d active", a, c.Len(Active))
	}
}

func TestBorrowedPlacesGiveWayAtOnce(t *testing.T) {
	c := newClub(t, TierConfig{MaxActive: 20, MaxPassive: 30, MaxTracked: 10})
	sybils := c.many("a", 60, from(1, 1), near)
	for _, id := range sybils {
		for range 30 {
			c.Did(id, 1, c.now) // whatever the scores are
		}
	}
	var others []ID
	for i := range 6 {
		ids := c.many(fmt.Sprint("b", i), 3, from(2+i, 1), near)
		if n := c.count(Active, ids); n < 2 { // of one network: half of 3, rounded up
			t.Errorf("%d of those of location %d are active", n, 2+i)
		}
		others = append(others, ids...)
	}
	if n := c.count(Active, sybils); n != 3 {
		t.Errorf("%d places are left to those that had all, want their 3", n)
	}
	if n := c.count(Active, others); n != 17 {
		t.Errorf("%d others are active, want 17", n)
	}
}

func TestNetworksShareTheirLocation(t *testing.T) {
	c := newClub(t, TierConfig{MaxActive: 3, MaxPassive: 15, MaxTracked: 10})
	sybils := c.many("a", 25, from(1, 1), near)
	for _, id := range sybils {
		c.Did(id, 1, c.now)
	}
	if a := c.join("b", from(1, 2), near); a.Set != Active || c.count(Active, sybils) != 2 {
		t.Errorf("another network has %v, and %d are active of the first", a.Set, c.count(Active, sybils))
	}
	if a := c.join("c", from(1, 2), near); a.Set != Passive {
		t.Errorf("its second has %v: each has its share", a.Set)
	}
	c.now = c.now.Add(time.Hour) // some of the first have a better score
	for range 5 {
		for _, id := range sybils {
			c.Did(id, 1, c.now)
		}
		c.now = c.now.Add(20 * time.Second)
		c.Tick(c.now)
		for _, m := range c.Moves() {
			if m.Why != Better && m.Why != Worse {
				t.Errorf("a score has taken from a network what it has a claim to: %+v", m)
			}
		}
	}
}

func TestAFreePlaceGoesToTheNetworkWithAClaim(t *testing.T) {
	c := newClub(t, TierConfig{MaxActive: 3})
	c.join("z", from(2, 1), near)
	for _, id := range c.many("a", 3, from(1, 1), near) {
		c.Did(id, 1, c.now)
	}
	c.join("b", from(1, 2), near)
	c.Close("z", c.now)
	if moves := c.Moves(); len(moves) != 1 || moves[0] != (Move{"b", Passive, Active, Refilled}) {
		t.Errorf("%+v", moves)
	}
}

func TestABetterNetworkTakesThePlaceOfAWorse(t *testing.T) {
	c := newClub(t, TierConfig{MaxActive: 3})
	for i := range 4 {
		c.join(ID(fmt.Sprint(i)), from(1, i), near)
	}
	c.now = c.now.Add(20 * time.Second)
	for _, id := range []ID{"0", "2", "3"} {
		for range 10 {
			c.Did(id, 1, c.now)
		}
	}
	c.tick(0)
	if c.Set("3") != Active || c.Set("1") != Passive {
		t.Errorf("%v", c.sets)
	}
}

func TestInvariant62NeitherOfTwoMayBeNew(t *testing.T) {
	c := newClub(t, TierConfig{MaxActive: 1})
	better := func(id ID) {
		for range 10 {
			c.Did(id, 1, c.now)
		}
	}
	c.join("a", from(1, 1), near)
	c.now = c.now.Add(time.Minute)
	c.join("b", from(1, 1), near)
	better("b")
	if c.tick(5 * time.Second); c.Set("a") != Active {
		t.Error("a peer that has just come took the place of another")
	}
	c = newClub(t, TierConfig{MaxActive: 1})
	c.many("a", 2, from(1, 1), near)
	c.now = c.now.Add(time.Minute)
	c.Close("a0", c.now) // a1 is active since just now
	c.told()
	c.join("b", from(1, 1), near)
	c.each["b"].since = tierDay
	better("b")
	if c.tick(5 * time.Second); c.Set("a1") != Active {
		t.Error("a peer that has just got a place lost it")
	}
}

func TestATickIsNotSoonerThanItsTime(t *testing.T) {
	c := newClub(t, TierConfig{MaxActive: 1})
	c.many("a", 2, from(1, 1), near)
	c.now = c.now.Add(10 * time.Second)
	c.Did("a0", 1, c.now)
	c.tick(0)
	for range 10 {
		c.Did("a1", 1, c.now)
	}
	if c.tick(time.Second - 1); c.Set("a0") != Active {
		t.Error("a tick came too soon")
	}
	if c.tick(1); c.Set("a1") != Active {
		t.Error("a tick did not come in time")
	}
}

func TestWorthIsBounded(t *testing.T) {
	c := newClub(t, TierConfig{})
	c.many("a", 5, from(1, 1), near)
	nan := 0.0
	for i, worth := range []float64{1, 5, 0, -5, nan / nan} {
		c.Did(ID(fmt.Sprint("a", i)), worth, c.now)
	}
	if c.score("a0") != c.score("a1") || c.score("a2") != c.score("a3") || c.score("a4") != InitialScore {
		t.Errorf("%v %v %v %v %v", c.score("a0"), c.score("a1"), c.score("a2"), c.score("a3"), c.score("a4"))
	}
}

func TestWhoTakesFastIsWorthMore(t *testing.T) {
	c := newClub(t, TierConfig{})
	c.many("a", 3, from(1, 1), near)
	for range 200 {
		c.Flowed("a0", 1<<20, time.Second, c.now)
		c.Flowed("a1", 1<<20, 2*time.Second, c.now)
		c.Flowed("a2", 0, time.Second, c.now)
		c.Flowed("nobody", 1, 0, c.now)
	}
	if a, b := c.score("a0"), c.score("a1"); a < 0.55 || a > 0.6 || b < 0.38 || b > 0.45 || c.score("a2") != InitialScore {
		t.Errorf("%.3f, %.3f and %.3f", a, b, c.score("a2"))
	}
	c.Flowed("a2", 1<<20, 0, c.now) // a clock may stand still
	if s := c.score("a2"); s < 0.35 || s > 0.38 {
		t.Errorf("%.3f", s)
	}
}

func TestBriefVisitsToATierDoNotAdd(t *testing.T) {
	c := newClub(t, TierConfig{})
	c.join("a", from(1, 1), 40*time.Millisecond)
	tier := func() Tier { st, _ := c.Standing("a", c.now); return st.Tier }
	c.Measured("a", 400*time.Millisecond, c.now) // 85 ms, tier 2
	for range 4 {
		c.Measured("a", 1, c.now)
	}
	c.now = c.now.Add(time.Minute)
	if c.Measured("a", 400*time.Millisecond, c.now); tier() != 1 {
		t.Error("it was back in its tier in between")
	}
	c.now = c.now.Add(5 * time.Second)
	c.Measured("a", 10*time.Second, c.now) // tier 4
	c.now = c.now.Add(5 * time.Second)
	if c.Measured("a", 10*time.Second, c.now); tier() != 1 {
		t.Error("it was in two other tiers, in neither for long")
	}
	c.now = c.now.Add(5 * time.Second)
	c.Measured("a", 0, c.now)
	if c.Measured("a", 10*time.Second, c.now); tier() != 4 {
		t.Error("it stays in its tier after a dwell in another")
	}
	was := c.each["a"].rtt
	if c.Measured("a", 0, c.now); c.each["a"].rtt != was {
		t.Error("nothing was measured")
	}
}

func TestInvariant61CloseFreesOnePlaceAndItIsRefilled(t *testing.T) { // invariant 61
	c := newClub(t, TierConfig{MaxActive: 2, MaxPassive: 3, MaxTracked: 2})
	c.many("a", 7, from(1, 1), near)
	c.Did("a3", 1, c.now)
	c.Did("a6", 1, c.now)
	c.Close("a0", c.now)
	c.told()
	if c.Set("a0") != Outside || c.Set("a3") != Active || c.Set("a6") != Passive || c.Len(Active) != 2 || c.Len(Passive) != 3 || c.Len(Tracked) != 1 {
		t.Errorf("%v, with %d, %d, %d", c.sets, c.Len(Active), c.Len(Passive), c.Len(Tracked))
	}
	c.Close("a0", c.now) // again
	c.Close("nobody", c.now)
	if len(c.Moves()) > 0 || len(c.each) != 6 {
		t.Error("a peer that is not there freed a place")
	}
}

func TestInvalidGoesAndTheBestTakesItsPlace(t *testing.T) {
	c := newClub(t, TierConfig{MaxActive: 1, MaxPassive: 2, MaxTracked: 2})
	c.many("a", 5, from(1, 1), near)
	c.Did("a2", 1, c.now)
	c.Invalid("a0", c.now)
	moves := c.Moves()
	if len(moves) != 3 || moves[0] != (Move{"a0", Active, Outside, Invalid}) || moves[1] != (Move{"a2", Passive, Active, Refilled}) || moves[2].To != Passive {
		t.Errorf("%+v", moves)
	}
	c.Invalid("a1", c.now) // passive
	if c.Len(Passive) != 2 || c.Len(Tracked) != 0 || c.Set("a1") != Outside {
		t.Errorf("%d passive and %d tracked", c.Len(Passive), c.Len(Tracked))
	}
}

func TestInvariant62TheBetterTakesThePlaceOfTheWorse(t *testing.T) { // invariant 62
	c := newClub(t, TierConfig{MaxActive: 1, MaxPassive: 1, MaxTracked: 2})
	c.many("a", 3, from(1, 1), near)
	keep := func() { // keep keeps the active peers' scores from fading
		for c.score("a0") < 0.29 {
			c.Did("a0", 0.4, c.now)
		}
	}
	for c.score("a0") < 0.5 {
		c.Did("a0", 1, c.now)
	}
	for c.score("a1") < 0.55 {
		c.Did("a1", 1, c.now)
	}
	c.tick(9 * time.Second)
	if c.Set("a0") != Active {
		t.Fatal("a place was lost within the dwell")
	}
	c.tick(2 * time.Second)
	if c.Set("a0") != Passive || c.Set("a1") != Active {
		t.Fatal("the better did not take the place of the worse")
	}
	for c.score("a0") < 0.9 {
		c.Did("a0", 1, c.now)
	}
	c.tick(5 * time.Second)
	if c.Set("a1") != Active {
		t.Error("two were exchanged again within the dwell")
	}
	c.tick(6 * time.Second)
	if c.Set("a0") != Active {
		t.Error("two were not exchanged again after the dwell")
	}
	// a1 is passive now, a2 tracked
	if st, _ := c.Standing("a0", c.now); st.Why != Better || st.Since != c.now || st.Tier != 1 || st.Location != "10.1" {
		t.Errorf("%+v", st)
	}
	for c.score("a2") < 0.95 {
		c.Did("a2", 1, c.now)
	}
	keep()
	c.tick(11 * time.Second)
	if c.Set("a2") != Passive {
		t.Error("a tracked peer did not take the place of the worse one")
	}
}

func TestALittleBetterIsNotEnough(t *testing.T) {
	c := newClub(t, TierConfig{MaxActive: 1, MaxPassive: 1, MaxTracked: 1})
	c.many("a", 2, from(1, 1), near)
	c.now = c.now.Add(time.Minute)
	for c.score("a0") < 0.6 {
		c.Did("a0", 1, c.now)
	}
	for c.score("a1") < 0.6 {
		c.Did("a1", 1, c.now)
	}
	if a, b := c.score("a0"), c.score("a1"); b <= a || b*0.9 > a {
		c.Did("a1", 1, c.now)
	}
	c.tick(0)
	if a, b := c.score("a0"), c.score("a1"); c.Set("a0") != Active && b*0.9 <= a {
		t.Errorf("%.3f had to give way to %.3f", a, b)
	}
	c.Did("a1", 1, c.now)
	c.Did("a1", 1, c.now)
	c.tick(time.Second)
	if c.Set("a1") != Active {
		t.Errorf("%.3f did not give way to %.3f", c.score("a0"), c.score("a1"))
	}
}

func TestWhoDoesNothingWithItsPlaceLosesIt(t *testing.T) {
	c := newClub(t, TierConfig{MaxActive: 1, MaxPassive: 4, MaxTracked: 4})
	c.many("a", 2, from(1, 1), near)
	c.tick(20 * time.Second) // 0.3 has faded to 0.24
	if c.Set("a1") != Active || c.Set("a0") != Passive {
		t.Errorf("a0 with %.2f is %v", c.score("a0"), c.Set("a0"))
	}
	c.now = c.now.Add(time.Hour)
	if s := c.score("a0"); s < 0.299 || s > 0.301 {
		t.Errorf("the score of a peer that waits is %.3f, and not a newcomer's", s)
	}
	c.now = c.now.Add(1000 * time.Hour)
	c.Did("a0", 1, c.now)
	if s := c.score("a0"); s < 0.36 || s > 0.38 {
		t.Errorf("after a long time one success makes it %.3f", s)
	}
}

func TestAnotherTierOnlyAfterADwell(t *testing.T) {
	c := newClub(t, TierConfig{})
	c.join("a", from(1, 1), near)
	tier := func() Tier { st, _ := c.Standing("a", c.now); return st.Tier }
	measure := func(rtt time.Duration, n int) {
		for range n {
			c.Measured("a", rtt, c.now)
		}
	}
	measure(300*time.Millisecond, 1)
	if tier() != 1 {
		t.Fatal("one measurement has made it another tier")
	}
	measure(300*time.Millisecond, 50)
	c.now = c.now.Add(9 * time.Second)
	measure(300*time.Millisecond, 1)
	if tier() != 1 {
		t.Fatal("it is of another tier within the dwell")
	}
	measure(near, 60)
	c.now = c.now.Add(2 * time.Second)
	measure(300*time.Millisecond, 50) // measured again, from there
	if tier() != 1 {
		t.Fatal("it was not there all the time")
	}
	c.now = c.now.Add(10 * time.Second)
	measure(300*time.Millisecond, 1)
	if tier() != 4 || c.Set("a") != Active {
		t.Errorf("it is of tier %d, and %v", tier(), c.Set("a"))
	}
	if a := c.join("a", from(2, 1), near); a.Set != Active || tier() != 1 {
		t.Errorf("at another place: %v, tier %d", a.Set, tier())
	}
	if st, _ := c.Standing("a", c.now); st.Location != "10.2" || st.Why != Refilled {
		t.Errorf("%+v", st)
	}
}

func TestNewcomersAreTried(t *testing.T) {
	c := newClub(t, TierConfig{MaxActive: 4, MaxPassive: 40, MaxTracked: 40})
	for i := range 40 { // those with a good score come back again and again
		c.join(ID(fmt.Sprint("good", i)), from(1, 1), near)
		for range 20 {
			c.Did(ID(fmt.Sprint("good", i)), 1, c.now)
		}
	}
	c.join("new", from(1, 1), near)
	for i := range 40 {
		if c.Set("new") == Active {
			return
		}
		id := ID(fmt.Sprint("good", i))
		c.Close(id, c.now)
		c.join(id, from(1, 1), near)
		for range 20 {
			c.Did(id, 1, c.now)
		}
	}
	t.Error("none of forty freed places went to a peer that was never tried")
}

func TestLeaveTakesAllOutOnce(t *testing.T) {
	c := newClub(t, TierConfig{MaxActive: 1, MaxPassive: 1, MaxTracked: 1})
	c.many("a", 3, from(1, 1), near)
	if got := c.Leave(); !slices.Equal(got, []ID{"a0", "a1", "a2"}) || len(c.each) > 0 || len(c.all.below) > 0 || len(c.cells.items) > 0 {
		t.Errorf("%v, and %d are left", got, len(c.each))
	}
	if len(c.Leave()) > 0 || !c.Wake().IsZero() {
		t.Error("something is left")
	}
}

func TestTiersWakeOnlyWhenSomebodyWaits(t *testing.T) {
	c := newClub(t, TierConfig{MaxActive: 1, Tick: 3 * time.Second})
	c.join("a", from(1, 1), near)
	c.tick(time.Hour)
	if !c.Wake().IsZero() {
		t.Error("nobody waits")
	}
	c.join("b", from(1, 1), near)
	if c.Wake().IsZero() {
		t.Error("somebody waits")
	}
	c.tick(time.Second)
	c.tick(3 * time.Second)
	if want := c.now.Add(3 * time.Second); !c.Wake().Equal(want) {
		t.Errorf("%v, want %v", c.Wake(), want)
	}
}

func TestTierConfigHasEffect(t *testing.T) {
	c := newClub(t, TierConfig{MaxActive: 1, MaxPassive: 1, MaxTracked: 1, Dwell: time.Second, Retry: time.Minute})
	c.many("a", 3, from(1, 1), near)
	if a := c.join("b", from(1, 1), near); a.Retry != time.Minute {
		t.Errorf("%+v", a)
	}
	for range 10 {
		c.Did("a1", 1, c.now)
	}
	if c.tick(time.Second); c.Set("a1") != Active {
		t.Error("the dwell is not what was asked for")
	}
}

// With Explore the best that waits takes the place of the worst wherever they are, the one that has waited
// longest is tried now and then, and who is nowhere has no claim.
func TestSourcesAreImprovedAcrossLocations(t *testing.T) {
	c := newClub(t, TierConfig{MaxActive: 6, Explore: 30 * time.Second})
	here := c.many("h", 6, from(1, 1), near)
	waiting := c.many("w", 3, Endpoint{}, 0)
	if n := c.count(Active, waiting); n != 0 {
		t.Fatalf("%d without a location have a place", n)
	}
	c.now = c.now.Add(10 * time.Second)
	for _, id := range []ID{"h0", "h1", "h3", "h4", "h5", "w2"} {
		for range 20 {
			c.Did(id, 0.9, c.now)
		}
	}
	if c.tick(0); c.count(Active, here) != 5 || c.Set("h2") != Passive || c.Set("w2") != Active {
		t.Fatalf("the best that waits has not got the place of the worst: %v", c.sets)
	}
	for range 20 { // all that are active do well
		for id := range c.each {
			if c.Set(id) == Active {
				c.Did(id, 0.9, c.now)
			}
		}
		c.tick(time.Second)
	}
	if st, _ := c.Standing("w0", c.now); st.Set != Active || st.Why != Tried {
		t.Errorf("nobody is tried: %+v", st)
	}
}

// The worst of all that have no claim gives way, and trying has its time.
func TestTheWorstOfAllGivesWay(t *testing.T) {
	c := newClub(t, TierConfig{MaxActive: 10, Explore: time.Minute})
	one, two := c.many("a", 5, from(1, 1), near), c.many("b", 5, from(2, 1), near)
	c.many("w", 6, Endpoint{}, 0)
	c.now = c.now.Add(10 * time.Second)
	for _, id := range append(one, two...) {
		c.Did(id, 0.9, c.now)
	}
	for range 5 {
		c.Did("a3", 0, c.now)
		c.Did("b3", 0.2, c.now)
	}
	if c.tick(0); c.Set("a3") != Passive || c.Set("b3") != Active {
		t.Fatalf("%v", c.sets)
	}
	tried := 0
	for range 69 {
		for id := range c.each {
			if c.Set(id) == Active {
				c.Did(id, 0.9, c.now)
			}
		}
		c.now = c.now.Add(time.Second)
		c.Tick(c.now)
		for _, m := range c.moves {
			if m.Why == Tried {
				tried++
			}
		}
		c.told()
	}
	if tried != 1 {
		t.Errorf("%d were tried", tried)
	}
}

// A place to which its tier and location has a claim is not taken from it.
func TestExploringTakesNoPlaceThatIsAShare(t *testing.T) {
	c := newClub(t, TierConfig{MaxActive: 3, Explore: 10 * time.Second})
	here := c.many("h", 3, from(1, 1), near)
	wait := c.many("w", 3, from(2, 1), near)
	if c.count(Active, wait) != 0 {
		t.Fatal("a claim where nobody has more than the share")
	}
	for range 100 {
		c.tick(time.Second)
	}
	if c.count(Active, here) != 3 {
		t.Errorf("%d have kept their places", c.count(Active, here))
	}
}

// check checks what must hold whatever has happened.
func (c *club) check() {
	if len(c.each) != c.Len(Active)+c.Len(Passive)+c.Len(Tracked) {
		c.t.Fatalf("%d peers, in sets of %d, %d, %d", len(c.each), c.Len(Active), c.Len(Passive), c.Len(Tracked))
	}
	for s := range Set(sets) { // invariant 61
		if c.Len(s) > c.all.target[s] {
			c.t.Fatalf("%d are %v, %d may be", c.Len(s), s, c.all.target[s])
		}
		if s < Tracked && c.Len(s) < c.all.target[s] && c.Len(s+1) > 0 {
			c.t.Fatalf("%d are %v while there is room where %v", c.Len(s+1), s+1, s)
		}
	}
	var n [sets]int
	seen := map[ID]bool{}
	var walk func(b *branch)
	walk = func(b *branch) {
		for s := range Set(sets) {
			for _, m := range b.members[s].best.items { // invariant 60
				if seen[m.id] || m.set != s || m.net != b || c.each[m.id] != m {
					c.t.Fatalf("%s is in two sets, or not where it says", m.id)
				}
				seen[m.id] = true
				n[s]++
				if sc := c.Tiers.score(m, c.now); sc < 0 || sc > 1 {
					c.t.Fatalf("%s has a score of %v", m.id, sc)
				}
			}
			if s < Tracked { // no claim is left
				for at, kid := range b.below {
					for other, o := range b.below {
						if kid.n[s+1] > 0 && kid.n[s] < kid.target[s] && o.n[s] > o.target[s] && c.Len(s) >= c.all.target[s] {
							c.t.Fatalf("%s waits for a place of %s where %v", at, other, s)
						}
					}
				}
			}
		}
		for _, kid := range b.below {
			walk(kid)
		}
	}
	walk(c.all)
	if n != c.all.n {
		c.t.Fatalf("%v are there, %v were counted", n, c.all.n)
	}
	for id, s := range c.sets { // invariant 63: what was reported last is true
		if c.Set(id) != s {
			c.t.Fatalf("%s is %v and was told to be %v", id, c.Set(id), s)
		}
	}
}

// TestInvariants60To63HoldWhateverHappens plays random histories: invariants 60, 61 and 63, and that
// nobody waits for a place to which it has a claim.
func TestInvariants60To63HoldWhateverHappens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := newClub(rt, TierConfig{MaxActive: rapid.IntRange(1, 12).Draw(rt, "active"), MaxPassive: rapid.IntRange(1, 12).Draw(rt, "passive"),
			MaxTracked: rapid.IntRange(1, 12).Draw(rt, "tracked"), Explore: rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(rt, "explore")})
		id := func() ID { return ID(fmt.Sprint(rapid.IntRange(0, 40).Draw(rt, "peer"))) }
		at := func() Endpoint {
			if location := rapid.IntRange(0, 4).Draw(rt, "location"); location > 0 {
				return from(location, rapid.IntRange(0, 2).Draw(rt, "net"))
			}
			return Endpoint{}
		}
		rtt := func() time.Duration {
			return rapid.SampledFrom([]time.Duration{0, 1e6, 20e6, 70e6, 120e6, 300e6}).Draw(rt, "rtt")
		}
		rt.Repeat(map[string]func(*rapid.T){
			"subscribe": func(*rapid.T) { c.join(id(), at(), rtt()) },
			"close": func(*rapid.T) {
				x, before := id(), len(c.each)
				freed := c.Set(x) != Outside
				c.Close(x, c.now)
				delete(c.sets, x)
				if got := before - len(c.each); freed != (got == 1) || !freed && got != 0 {
					rt.Fatalf("a close has freed %d places", got)
				}
			},
			"invalid":  func(*rapid.T) { x := id(); c.Invalid(x, c.now); delete(c.sets, x); c.moves = dropMoves(c.moves, x) },
			"did":      func(*rapid.T) { c.Did(id(), rapid.Float64Range(-1, 2).Draw(rt, "worth"), c.now) },
			"measured": func(*rapid.T) { c.Measured(id(), rtt(), c.now) },
			"tick": func(*rapid.T) {
				c.now = c.now.Add(time.Duration(rapid.Int64Range(0, int64(20*time.Second)).Draw(rt, "later")))
				c.improved(func() { c.Tick(c.now) })
			},
			"long": func(*rapid.T) {
				c.now = c.now.Add(time.Duration(rapid.IntRange(1, 2000).Draw(rt, "minutes")) * time.Minute)
			},
			"": func(*rapid.T) {
				c.told()
				c.check()
			},
		})
	})
}

// improved is a tick, after which invariant 62 must hold: what was exchanged was old enough,
// and the worst of a cell's set is better than before.
func (c *club) improved(tick func()) {
	c.told()
	before := map[ID]Standing{}
	for id := range c.each {
		before[id], _ = c.Standing(id, c.now)
	}
	tick()
	type place struct {
		tier     Tier
		location string
		set      Set
	}
	swaps := map[place]int{}
	for _, m := range c.moves {
		st := before[m.ID]
		at := place{st.Tier, st.Location, max(m.From, m.To)}
		switch {
		case c.cfg.Explore > 0 && (m.Why == Tried || m.Why == Claimed || m.Why == GaveWay): // a network may have lost its share to who is tried
		case m.Why != Better && m.Why != Worse:
			c.t.Fatalf("a tick moves %+v", m)
		case c.now.Sub(st.Since) < c.cfg.Dwell:
			c.t.Fatalf("%+v within the dwell", m)
		}
		if swaps[at]++; swaps[at] > 2 && c.cfg.Explore == 0 {
			c.t.Fatalf("more than one swap of %+v", at)
		}
	}
	for i := 0; i+1 < len(c.moves); i += 2 {
		up, down := c.moves[i], c.moves[i+1]
		if c.cfg.Explore > 0 && up.Why == GaveWay && down.Why == Claimed {
			continue
		}
		if u, d := before[up.ID].Score, before[down.ID].Score; up.Why != Better && up.Why != Tried || down.Why != Worse || u*scoreDamping <= d && up.Why == Better {
			c.t.Fatalf("%+v with %.3f takes the place of %+v with %.3f", up, u, down, d)
		}
	}
}

func TestSameHistorySameSets(t *testing.T) {
	play := func() (out []Move) {
		c := NewTiers(TierConfig{MaxActive: 10, MaxPassive: 20, MaxTracked: 20})
		now := tierDay
		for i := range 400 {
			id := ID(fmt.Sprint(i * 7 % 90))
			now = now.Add(300 * time.Millisecond)
			switch i % 5 {
			case 0, 1, 2:
				c.Subscribe(id, from(i%3, i%7), time.Duration(i%200)*time.Millisecond, now)
			case 3:
				c.Did(id, float64(i%10)/10, now)
			default:
				c.Close(id, now)
			}
			c.Tick(now)
			out = append(out, c.Moves()...)
		}
		return out
	}
	if a, b := play(), play(); !slices.Equal(a, b) || len(a) < 50 {
		t.Errorf("%d and %d moves", len(a), len(b))
	}
}

func BenchmarkTiers(b *testing.B) {
	for _, n := range []int{1000, 4000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := NewTiers(TierConfig{})
			now := tierDay
			for i := range n {
				c.Subscribe(ID(fmt.Sprint(i)), from(i%97, i%11), time.Duration(i%200)*time.Millisecond, now)
			}
			for i := 0; b.Loop(); i++ {
				now = now.Add(time.Millisecond)
				id := ID(fmt.Sprint(i % n))
				c.Close(id, now)
				c.Subscribe(id, from(i%97, i%11), time.Duration(i%200)*time.Millisecond, now)
				c.Did(id, 0.7, now)
				c.Tick(now)
				c.Moves()
			}
		})
	}
}

func TestAGuestIsServedAsTheActiveWhileThereArePlaces(t *testing.T) {
	c := newClub(t, TierConfig{MaxActive: 2, MaxPassive: 2, MaxTracked: 2})
	for i, want := range []Set{Active, Active, Outside, Outside} {
		if got := c.Guest(); got != want {
			t.Errorf("with %d children: %v, want %v", i, got, want)
		}
		c.join(ID(fmt.Sprint(i)), from(i, 0), 0)
	}
}
