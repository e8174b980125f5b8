package renewal

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// A long lease is renewed months before it ends, and so before a short one that ends in weeks. If the budget does not pay for both, what
// lapses is said.
func TestALongLeaseThatTakesTheBudgetOfAShortOneIsSaid(t *testing.T) {
	t.Parallel()
	long, short := shareID(0), shareID(1)
	x := &spender{s: New(Config{}, 1), now: epoch, ends: map[share.ID]time.Time{long: epoch.Add(100 * day), short: epoch.Add(20 * day)}, paid: map[time.Time]int64{}}
	for id, w := range map[share.ID]Want{long: {ID: 1, Bytes: 31 << 20, Length: 366 * day}, short: {ID: 2, Bytes: 62 << 20}} {
		w.Share, w.Depots, w.At = id, []peers.ID{"d"}, []peers.ID{"d"}
		x.s.add(Hold{Key: Key{"d", id}, Want: w.ID, Bytes: w.Bytes, Expires: x.ends[id], State: Stable}, epoch)
		x.s.Want(w, epoch)
	}
	x.s.depots["d"].Paid = true
	x.s.SetBudget("d", 300, epoch) // in this month or in the next 266 or 297 for the long one, and 42 for the short one
	said := x.s.Lapses(epoch)
	lapsed := x.pass(t, epoch.Add(30*day))
	if len(said) != len(lapsed) {
		t.Errorf("%d leases lapse, and %d were said to; paid were %v", len(lapsed), len(said), x.paid)
	}
}
