package renewal

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// mixed is a depot with leases that end after times, for wants of them.
func mixed(budget int64, seed uint64, left map[*Want]time.Duration) *spender {
	x := &spender{s: New(Config{}, seed), now: epoch, ends: map[share.ID]time.Time{}, paid: map[time.Time]int64{}}
	for w, left := range left {
		w.Share, w.Depots, w.At = shareID(int(w.ID)), []peers.ID{"d"}, []peers.ID{"d"}
		x.ends[w.Share] = epoch.Add(left)
		x.s.add(Hold{Key: Key{"d", w.Share}, Want: w.ID, Bytes: w.Bytes, Expires: x.ends[w.Share], State: Stable}, epoch)
		x.s.Want(*w, epoch)
	}
	x.s.depots["d"].Paid = true
	x.s.SetBudget("d", budget, epoch)
	return x
}

// A long lease is renewed months before it ends, and so before a short one that ends in weeks. If the budget does not pay for both, the
// short one is said to lapse.
func TestALongLeaseThatTakesTheBudgetOfAShortOneIsSaid(t *testing.T) {
	t.Parallel()
	x := mixed(300, 1, map[*Want]time.Duration{{ID: 1, Bytes: 31 << 20, Length: 366 * day}: 100 * day, {ID: 2, Bytes: 62 << 20}: 20 * day})
	said, lapsed := x.s.Lapses(epoch), x.pass(t, epoch.Add(30*day)) // the one costs 266, the other 42
	if len(said) != 1 || len(lapsed) != 1 || said[0].Share != shareID(2) || lapsed[0] != shareID(2) {
		t.Errorf("%v lapse, and %+v were said to; paid were %v", lapsed, said, x.paid)
	}
}

// Whatever the lengths of leases are, what lapses was said to days before, and what is said to lapse does.
func TestWhatLapsesOfSeveralLengthsIsSaid(t *testing.T) {
	t.Parallel()
	lapses := 0
	for seed := range uint64(16) {
		rng := rand.New(rand.NewPCG(seed, 1))
		wants := map[*Want]time.Duration{}
		for i := range 1 + rng.Int64N(8) {
			w := &Want{ID: i + 1, Bytes: (1 + rng.Int64N(99)) << 20, Length: []time.Duration{31, 62, 366}[rng.IntN(3)] * day}
			wants[w] = 4*day + time.Duration(rng.Int64N(int64(w.Length-4*day)))
		}
		x := mixed(50+rng.Int64N(600), seed, wants)
		said := map[share.ID]Due{} // to lapse; At: when first
		for now := epoch; now.Before(epoch.Add(200 * day)); now = now.Add(6 * time.Hour) {
			for _, id := range x.pass(t, now) {
				if due, ok := said[id]; !ok || due.Expires.Sub(due.At) < 3*day {
					t.Errorf("seed %d: a lease lapses on day %d, and that is said on day %d", seed, x.ends[id].Sub(epoch)/day, due.At.Sub(epoch)/day)
				}
			}
			for id, due := range said {
				if x.ends[id].After(due.Expires) {
					t.Errorf("seed %d: a lease that was said to lapse is renewed by day %d", seed, now.Sub(epoch)/day)
				}
			}
			for _, due := range x.s.Lapses(now) {
				if _, ok := said[due.Share]; !ok {
					due.At = now
					said[due.Share] = due
				}
			}
		}
		lapses += len(said)
	}
	if lapses < 10 {
		t.Errorf("%d leases lapse: nothing was tried", lapses)
	}
}
