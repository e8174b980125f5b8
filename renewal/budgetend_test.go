package renewal

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/share"
)

// A lease that ends hours after the month ends in which a budget is used up is renewed then.
func TestABudgetThatOpensAgainPaysInTime(t *testing.T) {
	t.Parallel()
	for before := 30 * time.Minute; before < 7*time.Hour; before += 30 * time.Minute {
		id := shareID(0)
		ends := epoch.Add(9 * day)
		x := &spender{s: New(Config{}, 1), now: epoch, ends: map[share.ID]time.Time{id: ends}, paid: map[time.Time]int64{}}
		hold(x.s, Hold{Key: Key{"d", id}, Bytes: 31 << 20, Expires: ends, State: Stable}, epoch)
		x.s.SetBudget("d", 100, epoch)
		d := x.s.depots["d"]
		d.Paid, d.Month, d.Spent = true, ends.Add(-before).Add(-UnitTime), 100
		if said, lapsed := x.s.Lapses(epoch), x.pass(t, ends.Add(day)); len(said)+len(lapsed) > 0 {
			t.Errorf("the budget opens %v before the end of a lease: %d lapse, and %d were said to", before, len(lapsed), len(said))
		}
	}
}
