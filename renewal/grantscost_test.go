package renewal

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
)

// A depot that grants 31 days of the 366 that are asked for is paid for 31: that is what the next renewal costs, for the warnings of passes
// that are missing and of what the budget does not pay for, and for the member of a fleet that has to afford it to have the turn.
func TestARenewalCostsWhatTheDepotGrants(t *testing.T) {
	t.Parallel()
	s := New(Config{}, 1)
	k := Key{"d", shareID(1)}
	const units = 62 // for 31 days
	s.Want(Want{ID: 1, Share: k.Share, Bytes: units << 20, Length: 366 * day, Depots: []peers.ID{"d"}}, epoch)
	s.SetBudget("d", 3*units, epoch)
	s.Due(epoch)
	s.Visited("d", nil, epoch)
	s.Bank(k, units, epoch)
	s.Renewed("d", Heard{Share: k.Share, State: Stable, Bytes: units << 20, Left: 31 * day, Added: 31 * day}, epoch)

	if lapse := s.Lapses(epoch); len(lapse) > 0 {
		t.Errorf("a budget of %d does not pay for a renewal that costs %d at most: it is said to cost %d", 3*units, units, lapse[0].Units)
	}
	if dues := s.Dues(epoch.Add(31*day), epoch); len(dues) != 1 || dues[0].Units > units {
		t.Errorf("a renewal that costs %d at most is said to be due as %+v", units, dues)
	}
	for now := epoch; ; now = s.Wake() {
		left := epoch.Add(31 * day).Sub(now)
		if left < time.Hour {
			t.Fatal("the lease was not to be renewed")
		}
		if len(s.Due(now)) == 0 {
			continue
		}
		if tasks := s.Visited("d", []Heard{{Share: k.Share, State: Stable, Bytes: units << 20, Left: left}}, now); len(tasks) > 0 {
			if tasks[0].Units > units {
				t.Errorf("who has to pay %d at most is asked whether it can pay %d", units, tasks[0].Units)
			}
			return
		}
	}
}
