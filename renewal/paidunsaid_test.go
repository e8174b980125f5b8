package renewal

import "testing"

// What a depot was paid counts in its month, also if it granted a lease for that before this node knew: its answer was lost, and the
// payment is sent again in a later visit.
func TestAPaymentThatIsKnownLateCountsInTheMonth(t *testing.T) {
	s, k := paying(60 << 20)
	s.SetBudget("d", 100, epoch)
	visit := func(said ...Heard) []Task {
		s.Hurry("d", epoch)
		s.Due(epoch)
		return s.Visited("d", said, epoch)
	}
	if tasks := visit(); len(tasks) != 1 || tasks[0].Units != 60 {
		t.Fatalf("%+v", tasks)
	}
	// 60 units are paid, and the depot has them; the purse does not say so yet
	s.Renewed("d", Heard{Share: k.Share, State: Stable, Bytes: 60 << 20, Left: 31 * day, Added: 31 * day}, epoch)
	visit(Heard{Share: k.Share, State: Stable, Bytes: 60 << 20, Left: 31 * day})
	s.Bank(Key{Depot: "d"}, 60, epoch) // now it does
	if b := s.Budgets(epoch)["d"]; b.Left != 40 {
		t.Errorf("60 of %d units were paid, and %d are left", b.Units, b.Left)
	}
}
