package leasemgr

import (
	"fmt"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

func TestEveryRefusalHasAReasonAndAnEnd(t *testing.T) {
	r := newRig(t, 2, Config{MaxLeasesPerPeer: 1})
	r.add("a", "b", "c")
	equal(t, "stranger", r.not("x", UnknownSource), Refusal{Reason: UnknownSource, Never: true})
	r.not("a", NoneHere)
	r.woken(r.m.SetHave("a", setOf(2, 0), r.now), "a")
	l := r.one("a")
	r.not("a", AtCapacity)
	r.has("b", 0)
	if no := r.not("b", AllLeased); !no.Until.After(r.now) {
		t.Errorf("%+v", no)
	}
	r.not("c", NoneHere)
	r.woken(r.m.Have("c", []share.Piece{0}, r.now), "c") // it could hedge that piece later
	r.not("c", AllLeased)
	r.woken(r.m.Fail("a", 0, l.Token, Lost, r.now), "a", "b", "c")
	l = r.one("b")
	r.not("c", AllLeased)
	todo := r.done(l)
	r.woken(todo)
	r.not("c", NoneHere)
	r.woken(r.m.Have("c", []share.Piece{1}, r.now), "c")
	todo = r.done(r.one("c"))
	equal(t, "done", todo.Done, true)
	equal(t, "never", r.not("c", AllVerified).Never, true)
	r.woken(r.m.Unverified(1, r.now), "c") // unless a piece turns out bad after all
	equal(t, "piece", r.one("c").Piece, 1)
	r.m.Unverified(77, r.now)
	r.m.Unverified(1, r.now)
}

// In a large fleet each member announces each piece to many that have it leased already.
func TestAnAnnouncementWakesOnlyWhomItIsOfUse(t *testing.T) {
	r := newRig(t, 3, Config{})
	r.add("a", "b").full("a").has("b", 0).rate("a", 1<<20, 0).rate("b", 1<<20, 0)
	r.m.Verified(2, r.now)
	r.get("a", 2)
	r.not("b", AllLeased)
	r.woken(r.m.Have("b", []share.Piece{1}, r.now)) // its holder is on time
	r.pass(time.Minute)
	r.add("c").has("c", 0).rate("c", 1<<30, 0)
	r.m.sources[r.m.byID["c"]].waiting = AllLeased
	r.m.asleep.set(r.m.byID["c"])
	r.m.sleepers++
	r.woken(r.m.Have("c", []share.Piece{1}, r.now), "c") // it is late
}

func TestExpiryWakesOthers(t *testing.T) {
	r := newRig(t, 1, Config{HedgeFloor: -1, HedgeShare: -1})
	r.add("a", "b").full("a", "b")
	r.one("a")
	r.not("b", AllLeased)
	r.to(r.m.Wake())
	todo := r.m.Expire(r.now)
	equal(t, "expired", len(todo.Expired), 1)
	r.woken(todo, "b")
}

func TestLossOfASourceWakesOthers(t *testing.T) {
	r := newRig(t, 3, Config{})
	r.add("a", "b", "c").full("a", "b").has("c", 2)
	ls := r.get("a", 2)
	r.m.Verified(2, r.now)
	if len(ls) != 2 {
		t.Fatal(ls)
	}
	r.get("b", 9)
	r.not("b", AllLeased)
	todo := r.m.RemoveSource("a", r.now)
	equal(t, "told", len(todo.Revoked)+len(todo.Expired), 0)
	if _, ok := r.m.byID["a"]; ok {
		t.Error("still there")
	}
	r.woken(todo, "b")
	r.not("a", UnknownSource)
	r.m.RemoveSource("a", r.now)
}

func TestOnlyWhoHasThePieceIsWoken(t *testing.T) {
	r := newRig(t, 10, Config{MaxLeasesPerPeer: 20})
	r.add("a", "b", "c").full("a").has("b", 1).has("c", 2)
	ls := r.get("a", 10)
	r.not("b", AllLeased)
	r.not("c", AllLeased)
	for _, l := range ls {
		if l.Piece == 2 {
			r.woken(r.m.Fail("a", 2, l.Token, GaveBack, r.now), "c")
		}
	}
}

func TestBestSourceIsWokenFirst(t *testing.T) {
	firsts := func(explore float64) map[peers.ID]int {
		count := map[peers.ID]int{}
		for seed := range uint64(400) {
			now := time.Unix(1, 0)
			m := New(Config{Explore: explore, HedgeFloor: -1, HedgeShare: -1}, Plan{Layout: even{1, mib}, Seed: seed}, now)
			for i, id := range []peers.ID{"holder", "bad", "slow", "good", "fast"} {
				m.AddSource(id, now)
				m.SetHave(id, share.FullSet(1), now)
				m.Measured(id, []float64{1, 1e9, 1e5, 1e6, 1e7}[i], 0, now)
			}
			m.Rank("bad", 0.0001, false, now)
			m.Rank("good", 2, false, now)
			m.Acquire("holder", 1, now)
			for _, id := range []peers.ID{"slow", "bad", "good", "fast"} {
				m.Acquire(id, 1, now)
			}
			todo := m.RemoveSource("holder", now)
			if len(todo.Wake) != 4 {
				t.Fatalf("woke %v", todo.Wake)
			}
			count[todo.Wake[0]]++
		}
		return count
	}
	none := firsts(-1)
	if none["fast"] != 400 {
		t.Errorf("without exploring the first were %v", none)
	}
	some := firsts(0.5)
	if len(some) != 4 || some["fast"] < 200 {
		t.Errorf("exploring half of the time the first were %v", some)
	}
}

func TestCapacityWakesWhenALeaseEnds(t *testing.T) {
	r := newRig(t, 100, Config{})
	r.add("a").full("a")
	ls := r.get("a", 4)
	r.not("a", AtCapacity)
	r.woken(r.m.Fail("a", ls[0].Piece, ls[0].Token, GaveBack, r.now), "a")
	r.get("a", 2)
	r.woken(r.done(ls[1]), "a")
	r.get("a", 2)
	// A rate that allows more does so too.
	r.woken(r.m.Measured("a", 100*mib, 0, r.now), "a")
	r.get("a", 100)
	r.not("a", AtCapacity)
	// Less than what is out wakes nobody, until enough of it ended.
	r.woken(r.m.Measured("a", 1, 0, r.now))
	// The same goes for a better score.
	r.add("b").full("b")
	r.m.Rank("b", 0, false, r.now)
	r.one("b")
	r.not("b", AtCapacity)
	r.woken(r.m.Rank("b", 1, false, r.now), "b")
}

func TestPauseStopsGrantsAndResumeWakes(t *testing.T) {
	r := newRig(t, 100, Config{})
	r.add("a").full("a")
	l := r.one("a")
	r.m.Pause("disk full: need 3 GiB, have 1 GiB")
	r.not("a", IsPaused)
	equal(t, "why", r.m.Why(l.Piece+1, r.now).Next, "disk full: need 3 GiB, have 1 GiB; goes on when that is over")
	r.m.Progress("a", l.Piece, l.Token, 10, r.now)
	r.woken(r.m.Resume(r.now), "a")
	r.one("a")
	r.m.Pause("")
	r.not("a", IsPaused)
}

func TestBanTakesLeasesAndEnds(t *testing.T) {
	r := newRig(t, 1, Config{})
	r.add("a", "b").full("a", "b")
	l := r.one("a")
	r.not("b", AllLeased)
	todo := r.m.Rank("a", 1, true, r.now)
	if len(todo.Revoked) != 1 || todo.Revoked[0].Token != l.Token {
		t.Errorf("%+v", todo)
	}
	r.woken(todo, "b")
	equal(t, "until", r.not("a", IsBanned), Refusal{Reason: IsBanned})
	r.woken(r.m.Rank("a", 1, true, r.now)) // as before
	r.pass(1000 * time.Hour)
	r.m.Expire(r.now)
	r.not("a", IsBanned)
	r.woken(r.m.Rank("a", 1, false, r.now), "a")
	r.one("a")
}

func TestSourceIsNotAskedAgainAtOnceForWhatItFailed(t *testing.T) {
	for _, c := range []struct {
		why  Reason
		cfg  Config
		want time.Duration
	}{
		{BadData, Config{}, 30 * time.Second},
		{Missed, Config{}, 30 * time.Second},
		{Missed, Config{ShunFor: time.Second}, time.Second},
		{BadData, Config{ShunFor: -1}, 0},
		{GaveBack, Config{}, 0},
		{Lost, Config{}, 0},
		{Disk, Config{}, 0},
	} {
		r := newRig(t, 1, c.cfg)
		r.add("a", "b").full("a", "b")
		l := r.one("a")
		r.m.Fail("a", 0, l.Token, c.why, r.now)
		if c.want == 0 {
			r.one("a")
			continue
		}
		r.not("a", NoneHere)
		equal(t, "wake", r.m.Wake(), r.now.Add(c.want))
		r.pass(c.want - 1)
		r.woken(r.m.Expire(r.now))
		r.pass(1)
		r.woken(r.m.Expire(r.now), "a")
		r.one("a")
	}
}

func TestOnlySourceOfAPieceIsAskedAgainAtOnce(t *testing.T) {
	r := newRig(t, 2, Config{})
	r.add("a", "b").full("a").has("b", 0)
	r.m.Verified(0, r.now)
	l := r.one("a")
	r.pass(5 * time.Second)
	equal(t, "expired", len(r.m.Expire(r.now).Expired), 1)
	equal(t, "again", r.one("a").Piece, l.Piece)
}

func TestPartialSourceFindsAShunnedPieceAgain(t *testing.T) {
	r := newRig(t, 10, Config{})
	r.add("a", "b").has("a", 3, 4).has("b", 3)
	ls := r.get("a", 2)
	for _, l := range ls {
		if l.Piece == 3 {
			r.m.Fail("a", 3, l.Token, BadData, r.now)
		} else {
			r.done(l)
		}
	}
	r.not("a", NoneHere)
	r.pass(30 * time.Second)
	r.woken(r.m.Expire(r.now), "a")
	equal(t, "piece", r.one("a").Piece, 3)
}

func TestPieceASourceLacksIsTakenFromItsHaves(t *testing.T) {
	for _, full := range []bool{true, false} {
		r := newRig(t, 3, Config{})
		r.add("a")
		if full {
			r.full("a")
		} else {
			r.has("a", 0, 1)
		}
		l := r.one("a")
		r.m.Fail("a", l.Piece, l.Token, NotFound, r.now)
		for _, l := range r.get("a", 3) {
			r.done(l)
		}
		r.not("a", NoneHere)
		r.woken(r.m.Have("a", []share.Piece{l.Piece}, r.now), "a")
		equal(t, "piece", r.one("a").Piece, l.Piece)
	}
	r := newRig(t, 3, Config{}) // the last piece
	r.add("a").has("a", 2)
	l := r.one("a")
	r.m.Fail("a", 2, l.Token, NotFound, r.now)
	equal(t, "pieces", r.m.sources[0].have.n, 0)
}

// A cursor that passed a piece while it was kept from its source finds it again.
func TestShunnedPieceIsFoundBehindTheCursor(t *testing.T) {
	const n = 20_000
	r := newRig(t, n, Config{MaxLeasesPerPeer: n})
	r.add("a", "b").has("a", 3, 4).has("b", 3)
	for _, l := range r.get("a", 2) {
		if l.Piece == 3 {
			r.m.Fail("a", 3, l.Token, BadData, r.now)
		} else {
			r.done(l)
		}
	}
	r.m.sort() // and nothing changes after it
	r.not("a", NoneHere)
	r.pass(30 * time.Second)
	r.woken(r.m.Expire(r.now), "a")
	equal(t, "piece", r.one("a").Piece, 3)
}

func TestShunEndsInItsOwnTimeAlsoInTheSamePlace(t *testing.T) {
	r := newRig(t, 1, Config{})
	r.add("a", "b").full("a", "b")
	l := r.one("a")
	r.m.Fail("a", 0, l.Token, BadData, r.now)
	r.m.RemoveSource("a", r.now)
	r.pass(10 * time.Second)
	r.add("c").full("c") // where a was
	l = r.one("c")
	r.m.Fail("c", 0, l.Token, BadData, r.now)
	r.pass(20 * time.Second) // a's time is over, c's is not
	r.m.Expire(r.now)
	r.not("c", NoneHere)
	r.pass(10 * time.Second)
	r.woken(r.m.Expire(r.now), "c")
}

// A source's new piece is found even if its cursor has passed it and the order of
// rarity is outdated.
func TestNewPiecesAreFoundBehindTheCursor(t *testing.T) {
	const n = 20_000
	for _, all := range []bool{false, true} {
		r := newRig(t, n, Config{MaxLeasesPerPeer: n})
		r.add("a", "b").has("a", 1, 2).has("b", 1, 2, 3)
		r.m.sort()
		equal(t, "granted", len(r.get("a", n)), 2)
		r.not("a", AllLeased) // its cursor is at the end
		if all {
			r.woken(r.m.SetHave("a", setOf(n, 1, 2, 3), r.now), "a")
		} else {
			r.woken(r.m.Have("a", []share.Piece{3}, r.now), "a")
		}
		equal(t, "piece", r.one("a").Piece, 3)
	}
}

// crowd is a rig in which one source holds the only piece and n others wait for it.
func crowd(t *testing.T, n int) (*rig, Lease) {
	r := newRig(t, 1, Config{HedgeFloor: -1, HedgeShare: -1})
	r.add("holder").full("holder")
	l := r.one("holder")
	for i := range n {
		id := peers.ID(fmt.Sprintf("%04d", i))
		r.add(id).full(id)
		r.not(id, AllLeased)
	}
	return r, l
}

func TestThousandsAreWokenInGrowingBatches(t *testing.T) {
	const n = 2000
	r, l := crowd(t, n)
	todo := r.m.Fail("holder", 0, l.Token, GaveBack, r.now)
	woken, rounds := len(todo.Wake), 1
	equal(t, "woken at once", woken, firstOffers+2)
	// Nobody takes it: all are woken in the end.
	for woken < n {
		at := r.m.Wake()
		if at.IsZero() || at.Sub(r.now) > 50*time.Millisecond {
			t.Fatalf("%d of %d woken, and the next alarm is at %s", woken, n, at)
		}
		r.to(at.Add(-1))
		r.woken(r.m.Expire(r.now)) // not before its time
		r.to(at)
		todo := r.m.Expire(r.now)
		if len(todo.Wake) == 0 {
			t.Fatal("an alarm that woke nobody")
		}
		woken += len(todo.Wake)
		rounds++
	}
	if rounds > 10 {
		t.Errorf("it took %d rounds", rounds)
	}
	equal(t, "all were told, no alarm is left", r.m.Wake(), time.Time{})
}

func TestNoMoreAreWokenForAPieceThatIsTaken(t *testing.T) {
	r, l := crowd(t, 2000)
	todo := r.m.Fail("holder", 0, l.Token, GaveBack, r.now)
	taken := r.one(todo.Wake[0])
	for rounds := 0; r.m.Wake().Before(taken.Expires); rounds++ {
		if rounds > 100 {
			t.Fatal("alarms without end")
		}
		r.to(r.m.Wake())
		r.woken(r.m.Expire(r.now))
	}
}

// A takeover makes room for the old holder, which is gone before it is told.
func TestSourceThatIsGoneIsNotWoken(t *testing.T) {
	r := newRig(t, 3, Config{})
	r.add("slow", "fast").full("slow", "fast").rate("slow", mib, 0).rate("fast", 20*mib, 0)
	r.get("slow", 2)
	r.not("slow", AtCapacity)
	r.pass(2600 * time.Millisecond) // both are overdue
	equal(t, "leases", len(r.get("fast", 2)), 2)
	equal(t, "taken", r.m.Stats().Taken, 1)
	r.woken(r.m.RemoveSource("slow", r.now))
}

func TestThoseWhoWaitDoNotAskAtOnce(t *testing.T) {
	const n = 500
	r := newRig(t, 1, Config{HedgeFloor: -1, HedgeShare: -1})
	r.add("holder").full("holder")
	r.one("holder")
	at := map[time.Time]bool{}
	var last time.Time
	for i := range n {
		id := peers.ID(fmt.Sprintf("%04d", i))
		r.add(id).full(id)
		no := r.not(id, AllLeased)
		at[no.Until] = true
		last = no.Until
	}
	if len(at) < n/2 || last.Sub(r.now) > 2*time.Second {
		t.Errorf("%d different times for %d sources, the last in %s", len(at), n, last.Sub(r.now))
	}
}

func TestSourceThatAskedAgainIsNotWokenForTheOldRefusal(t *testing.T) {
	r := newRig(t, 1, Config{})
	r.add("a", "b").full("a", "b")
	r.one("b")
	r.not("a", AllLeased)
	r.pass(2 * time.Second)
	h := r.one("a")
	r.m.RemoveSource("b", r.now)
	r.woken(r.m.Fail("a", 0, h.Token, GaveBack, r.now))
}

func TestTokenOfAnotherSourceIsStale(t *testing.T) {
	r := newRig(t, 2, Config{})
	r.add("a", "b").full("a", "b")
	l := r.one("a")
	before := r.m.fingerprint()
	r.m.Progress("b", l.Piece, l.Token, 5, r.now)
	r.m.Fail("b", l.Piece, l.Token, BadData, r.now)
	equal(t, "state", r.m.fingerprint(), before)
}

func TestReconnectedSourceStartsAnew(t *testing.T) {
	r := newRig(t, 10, Config{})
	r.add("a", "b").full("a", "b")
	l := r.one("a")
	r.m.Fail("a", l.Piece, l.Token, BadData, r.now)
	l = r.one("a")
	r.m.RemoveSource("a", r.now)
	r.add("c").full("c") // in the same place
	todo := r.m.Fail("a", l.Piece, l.Token, Lost, r.now)
	equal(t, "stale", fmt.Sprint(todo), fmt.Sprint(Todo{}))
	r.m.Fail("c", l.Piece, l.Token, Lost, r.now)
	equal(t, "failed", r.m.Stats().Failed, 1)
	r.pass(30 * time.Second)
	r.m.Expire(r.now) // what was kept from a does not concern c
	r.add("a", "a")
	r.not("a", NoneHere)
}

func TestCallsForStrangersDoNothing(t *testing.T) {
	r := newRig(t, 3, Config{})
	before := r.m.fingerprint()
	r.m.SetHave("x", share.FullSet(3), r.now)
	r.m.Have("x", []share.Piece{1}, r.now)
	r.m.Measured("x", 1, 1, r.now)
	r.m.Rank("x", 1, true, r.now)
	r.m.RemoveSource("x", r.now)
	r.m.Progress("x", 1, 1, 1, r.now)
	r.m.Fail("x", 1, 1, Lost, r.now)
	r.m.Verified(3, r.now)
	r.m.Begun(3)
	r.m.SetReader(1, 3, 3, r.now)
	equal(t, "state", r.m.fingerprint(), before)
	equal(t, "why", r.m.Why(3, r.now).State, IsUnknown)
}

// Of the two holders of a piece either may be late, and lose it to a faster source.
func TestAnAnnouncementIsOfUseIfEitherHolderIsLate(t *testing.T) {
	r := newRig(t, 2, Config{})
	r.add("a", "b", "c", "d").has("a", 0).has("b", 0).has("d", 1).has("c", 1)
	r.rate("a", 1<<16, 0).rate("b", 1<<20, 0).rate("c", 1<<30, 0).rate("d", 1<<30, 0)
	l := r.one("a")
	r.pass(time.Millisecond)
	if !r.one("b").Hedge {
		t.Fatal("no hedge")
	}
	other := r.one("d")
	r.not("c", AllLeased)
	r.pass(1900 * time.Millisecond)
	r.m.Progress("a", l.Piece, l.Token, 1, r.now)
	r.m.Progress("d", other.Piece, other.Token, 1, r.now)
	r.woken(r.m.Have("c", []share.Piece{0}, r.now), "c")
	equal(t, "piece", r.one("c").Piece, 0)
}
