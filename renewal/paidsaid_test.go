package renewal

import "testing"

// What is due, and what lapses for want of a budget, is of the size that a share has, and not of one that its depot says: nobody is told to buy
// more passes than a renewal may cost.
func TestADepotDoesNotSayWhatIsDue(t *testing.T) {
	s, k := paying(1 << 30)
	s.Hurry("d", epoch)
	s.Due(epoch)
	s.Visited("d", []Heard{{Share: k.Share, State: Stable, Bytes: 1 << 40, Left: 12 * day}}, epoch)
	dues := s.Dues(epoch.Add(3*day), epoch)
	if len(dues) != 1 || dues[0].Units > 1<<10 {
		t.Errorf("of 1,024 units at most: %+v", dues)
	}
	s.SetBudget("d", 2<<10, epoch)
	if l := s.Lapses(epoch); len(l) > 0 {
		t.Errorf("a budget that pays for it: %+v", l)
	}
}
