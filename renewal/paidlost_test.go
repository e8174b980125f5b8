package renewal

import (
	"testing"

	"github.com/piecelease/fetcher/peers"
)

// A depot took the passes for a large share, refused to keep it, and was put back from a backup: that payment is lost. The small lease that it keeps is
// renewed all the same, for what that costs.
func TestASmallLeaseIsRenewedWhereALargePaymentWasLost(t *testing.T) {
	const small = 10 << 20
	s, k := paying(small)
	large := Key{"d", shareID(2)}
	ends, lapsed := epoch, 0
	for now := epoch; now.Before(epoch.Add(200 * day)); now = now.Add(day) {
		switch now {
		case epoch.Add(5 * day):
			s.Want(Want{ID: 2, Share: large.Share, Bytes: 1 << 30, Depots: []peers.ID{"d"}}, now)
		case epoch.Add(6 * day):
			s.Unwant(2, now)
		}
		s.Hurry("d", now)
		s.Due(now)
		var said []Heard
		if ends.After(now) {
			said = []Heard{{Share: k.Share, State: Stable, Bytes: small, Left: ends.Sub(now)}}
		} else if now.After(epoch) {
			lapsed++
		}
		for _, task := range s.Visited("d", said, now) {
			switch cost, _ := Cost(task.Bytes, Added(ends, now.Add(task.Length), now), 0); {
			case task.Share == large.Share:
				s.Bank(large, s.MayCost(large, task.Length, now), now)
				s.Refused(large, "no space", now)
			case cost > s.MayCost(k, task.Length, now):
				s.Refused(k, "more passes", now)
			default:
				added := Added(ends, now.Add(task.Length), now)
				ends = now.Add(task.Length)
				s.Bank(k, cost, now)
				s.Renewed("d", Heard{Share: k.Share, State: Stable, Bytes: small, Left: task.Length, Added: added}, now)
			}
		}
	}
	if lapsed > 0 {
		t.Errorf("it had lapsed on %d of 200 days; the last to know of it says %v", lapsed, s.Holds(epoch.Add(200 * day))[0].Why)
	}
}
