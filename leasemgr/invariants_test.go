package leasemgr

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"pgregory.net/rapid"
)

// The lease invariants of prior-art/semantics.md (b), by number. Each test runs
// the machine of random calls, crashes, clock steps and stale completions, and
// checks its own invariant only; the rule of DESIGN section 6 that refines or
// overrides it is named. TestRandomCallsAgreeWithModel checks all of them.

func hold(t *testing.T, invariant int, end func(*machine)) {
	t.Helper()
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := runMachine(t, invariant)
		if end != nil {
			end(x)
		}
	})
}

// DESIGN rule 2 says when there may be two: nothing unleased is left for the
// asker or a reader waits, and the holder is overdue or clearly slower.
func TestInvariant01OneLiveLeaseOrTwoAsHedge(t *testing.T) { hold(t, 1, nil) }

// DESIGN rule 1. A hedged piece is one leased piece.
func TestInvariant02WantedLeasedVerifiedAreThePlan(t *testing.T) { hold(t, 2, nil) }

// DESIGN: success is a lease with credit (Finished); one whose piece another
// completed is Revoked, without penalty. A source that is removed is not told.
func TestInvariant03LeaseEndsExactlyOnce(t *testing.T) { hold(t, 3, (*machine).starve) }

// DESIGN rule 3 overrides the completion: bytes that verify always count. A stale
// failure, progress or return changes nothing, and nobody is blamed.
func TestInvariant04StaleCallsChangeNothing(t *testing.T) { hold(t, 4, nil) }

func TestInvariant05VerifiedPieceIsNeverLeased(t *testing.T) { hold(t, 5, (*machine).finish) }

func TestInvariant06ValidDataIsNeverDiscarded(t *testing.T) {
	hold(t, 6, func(x *machine) {
		x.starve()
		for _, l := range x.ended {
			x.verify(l.Piece, l.Token)
			x.claim(6, x.m.state(uint32(l.Piece)) == IsVerified, "late data of piece %d was discarded", l.Piece)
		}
	})
}

// DESIGN rule 6 fixes the cap: a window in bytes once a source is measured. Less
// rate or a lower score shrink the cap below what is out; nothing is granted then.
func TestInvariant07LeasesOfASourceAreCountedAndCapped(t *testing.T) { hold(t, 7, nil) }

// Our own peer is not a source: nobody adds it. A source that has just failed to deliver a
// piece is not asked for it again for Config.ShunFor.
func TestInvariant08GrantsAreWantedHadAndAllowed(t *testing.T) { hold(t, 8, nil) }

// DESIGN rule 4: the backstop is Config.LeaseDuration after the last sign of life.
func TestInvariant09EveryLeaseExpires(t *testing.T) { hold(t, 9, (*machine).starve) }

func TestInvariant10NoWakeUpIsLost(t *testing.T) { hold(t, 10, nil) }

func TestInvariant11TransferEnds(t *testing.T) { hold(t, 11, (*machine).finish) }

func TestInvariant12RefusalHasNoSideEffects(t *testing.T) {
	hold(t, 12, func(x *machine) {
		// A grant that is given back at once restores the old state, except for counters.
		id := x.names[0]
		wanted, leased, verified := x.m.Counts()
		got, _ := x.m.Acquire(id, 1, x.now)
		x.drain()
		if len(got) == 0 || got[0].Hedge || x.m.stats.Taken > 0 {
			return
		}
		x.apply(x.m.Fail(id, got[0].Piece, got[0].Token, GaveBack, x.now))
		w, l, v := x.m.Counts()
		x.claim(12, w == wanted && l == leased && v == verified, "counts %d %d %d, before %d %d %d", w, l, v, wanted, leased, verified)
	})
}

// Live means now < expiry, for Progress, Fail and Expire alike.
func TestInvariant13OneBoundaryOfExpiry(t *testing.T) {
	hold(t, 13, nil)
	for _, late := range []bool{false, true} {
		for _, call := range []string{"progress", "fail"} {
			r := newRig(t, 4, Config{})
			r.add("a").full("a")
			l := r.one("a")
			r.to(l.Expires)
			if !late {
				r.pass(-time.Nanosecond)
			}
			before := r.m.fingerprint()
			if call == "progress" {
				r.m.Progress("a", l.Piece, l.Token, 1, r.now)
			} else {
				r.m.Fail("a", l.Piece, l.Token, Missed, r.now)
			}
			if changed := r.m.fingerprint() != before; changed == late {
				t.Errorf("%s: late %t, changed something %t", call, late, changed)
			}
			expired := len(r.m.Expire(r.now).Expired) == 1
			if expired != late {
				t.Errorf("%s: late %t, expired %t", call, late, expired)
			}
		}
	}
}

// DESIGN rule 3: epoch<<40 | counter, and the epoch grows with each open.
func TestInvariant14TokensIncreaseAlsoAcrossRestart(t *testing.T) {
	hold(t, 14, func(x *machine) {
		plan := Plan{Layout: x.m.layout, Epoch: x.m.epoch + 1}
		again := New(Config{}, plan, x.now)
		again.AddSource("a", x.now)
		again.SetHave("a", share.FullSet(x.n), x.now)
		for _, l := range first(again.Acquire("a", 1, x.now)) {
			x.claim(14, l.Token > x.last, "token %d after a restart, %d before", l.Token, x.last)
		}
	})
}

func first(ls []Lease, _ Refusal) []Lease { return ls }

func TestInvariant15MoreSourcesNeverMeanFewerGrants(t *testing.T) { hold(t, 15, nil) }

// DESIGN rules 7 and 9: the order is priority, reader, begun, rarity; the rest is
// the seed's.
func TestInvariant16SameCallsSameAnswers(t *testing.T) {
	hold(t, 16, nil)
	trace := func(seed int) (out [][]string) {
		for i := range 20 {
			rapid.Custom(func(t *rapid.T) int {
				x := newMachine(t, 0)
				x.keep = true
				for range 60 {
					x.step()
				}
				out = append(out, x.trace)
				return 0
			}).Example(seed + i)
		}
		return out
	}
	a, b := trace(5), trace(5)
	if len(a) != len(b) || len(a) < 20 {
		t.Fatalf("%d and %d traces", len(a), len(b))
	}
	for i := range a {
		if len(a[i]) != len(b[i]) {
			t.Fatalf("run %d: %d and %d answers", i, len(a[i]), len(b[i]))
		}
		for j := range a[i] {
			if a[i][j] != b[i][j] {
				t.Fatalf("run %d, answer %d: %s\nand: %s", i, j, a[i][j], b[i][j])
			}
		}
	}
}

// When a source is chosen, its score is its ranking's, and below MinPeerScore it holds
// one lease at a time.
func TestInvariant19SourceThatOnlySucceedsHoldsSeveralLeases(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ranking, now := peers.NewRanking(peers.RankingConfig{}), time.Unix(1000, 0)
		for _, what := range rapid.SliceOfN(rapid.IntRange(0, 3), 0, 60).Draw(t, "history") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3600).Draw(t, "seconds")) * time.Second)
			switch what {
			case 0:
				ranking.Lied("p", false, now)
			case 1:
				ranking.Lied("p", true, now)
			case 2:
				ranking.Missed("p", now)
			case 3:
				ranking.Measured("p", 1, time.Minute, now)
			}
		}
		m := New(Config{}, Plan{Layout: even{8, mib}, Epoch: 1}, now)
		m.AddSource("p", now)
		m.SetHave("p", share.FullSet(8), now)
		if until, banned := ranking.Banned("p", now); banned {
			m.Rank("p", ranking.Score("p", now), true, now)
			if got, _ := m.Acquire("p", 1, now); len(got) > 0 {
				t.Fatal("a banned source was granted a lease")
			}
			now = until
		}
		m.Rank("p", ranking.Score("p", now), false, now)
		got, _ := m.Acquire("p", 1, now)
		if len(got) != 1 {
			t.Fatalf("with score %v it is not even tried", ranking.Score("p", now))
		}
		m.Verified(got[0].Piece, now, got[0].Token)
		ranking.Verified("p", mib, now)
		m.Rank("p", ranking.Score("p", now), false, now)
		if got, _ := m.Acquire("p", 3, now); len(got) != 3 {
			t.Fatalf("after one good MiB: score %v, %d leases", ranking.Score("p", now), len(got))
		}
	})
}

// Each source that waits is named first in its share of the wake-ups, however good
// the others are.
func TestInvariant21EverySourceIsExplored(t *testing.T) {
	t.Parallel()
	const n = 4000
	waiting := []peers.ID{"a", "b", "c", "low", "best"}
	first := map[peers.ID]int{}
	for seed := range uint64(n) {
		now := time.Unix(1, 0)
		m := New(Config{HedgeFloor: -1, HedgeShare: -1}, Plan{Layout: even{1, mib}, Seed: seed}, now)
		for i, id := range append(waiting, "holder") {
			m.AddSource(id, now)
			m.SetHave(id, share.FullSet(1), now)
			m.Measured(id, float64(i+1)*1e6, 0, now)
		}
		m.Rank("low", 0.1, false, now)
		m.Rank("best", 3, false, now)
		m.Acquire("holder", 1, now)
		for _, id := range waiting {
			m.Acquire(id, 1, now)
		}
		first[m.RemoveSource("holder", now).Wake[0]]++
	}
	fair := 0.05 / float64(len(waiting)) // Config.Explore
	for _, id := range waiting {
		share := float64(first[id]) / n
		if id == "best" && share < 0.95 || id != "best" && (share < 0.5*fair || share > 1.6*fair) {
			t.Errorf("%s came first in %.4f of the wake-ups, want about %.4f", id, share, fair)
		}
	}
}
