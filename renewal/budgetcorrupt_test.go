package renewal

import (
	"testing"
	"time"
)

// A budget goes to the leases that end first, also if the depot has lost some of the share; what is said to lapse is another.
func TestABudgetGoesToACorruptLeaseThatEndsFirst(t *testing.T) {
	t.Parallel()
	ends := []time.Duration{5 * day, 9 * day}
	s := budgeted(26, ends...) // which pays for either
	lapses := s.Lapses(epoch)
	if len(lapses) != 1 || lapses[0].Share != shareID(1) {
		t.Fatalf("%+v", lapses)
	}
	s.Due(epoch)
	left := int64(26)
	for _, task := range s.Visited("d", []Heard{
		{Share: shareID(0), State: Corrupt, Bytes: 31 << 20, Left: ends[0]},
		{Share: shareID(1), State: Stable, Bytes: 31 << 20, Left: ends[1]},
	}, epoch) {
		k := Key{"d", task.Share}
		if err := s.InBudget("d", task.Units, epoch); err != nil {
			s.Refused(k, err.Error(), epoch)
			if task.Share != lapses[0].Share {
				t.Errorf("the lease that ends in %v is not renewed, but the one that was said to lapse: %v", ends[0], err)
			}
			continue
		}
		left -= task.Units
		renewed(s, k, task.Length, epoch)
	}
	if left < 0 {
		t.Errorf("%d passes more than the budget were paid", -left)
	}
}
