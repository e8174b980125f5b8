package renewal

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// A depot that ends a lease because it can never keep the share gives the rest of it back as credit. When that is used up it takes passes as
// before, and what its other leases will cost is said a week ahead.
func TestADepotThatGaveCreditBackStillTakesPasses(t *testing.T) {
	s, _ := paying(100 << 20)
	other := Key{"d", shareID(2)}
	s.Want(Want{ID: 2, Share: other.Share, Bytes: 100 << 20, Depots: []peers.ID{"d"}}, epoch)
	s.Due(epoch)
	for _, task := range s.Visited("d", nil, epoch) {
		renewed(s, Key{"d", task.Share}, task.Length, epoch)
	}
	visit := func(now time.Time, left time.Duration) []Task {
		s.Hurry("d", now)
		s.Due(now)
		return s.Visited("d", []Heard{{Share: other.Share, State: Stable, Bytes: 100 << 20, Left: left}}, now)
	}
	now := epoch.Add(day)
	visit(now, 30*day) // it has ended that of k, and has credit for 30 days of it
	s.Failed("d", "away", now)
	s.Unwant(1, now)
	now = epoch.Add(25 * day)
	for _, task := range visit(now, 6*day) { // the credit pays
		s.Renewed("d", Heard{Share: task.Share, State: Stable, Bytes: 100 << 20, Left: 31 * day, Added: 25 * day}, now)
	}
	now = now.Add(16 * day) // five days are left until it is renewed next, and of the credit those of five days
	visit(now, 15*day)
	if n := len(s.Dues(now.Add(7*day), now)); n != 1 {
		t.Errorf("%d renewals are said to be due within a week", n)
	}
}
