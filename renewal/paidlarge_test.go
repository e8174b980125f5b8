package renewal

import "testing"

// A large share is paid for in several payments, and several visits: what was paid in one counts in the next, and the rest is paid too.
func TestALargeShareIsPaidForInSeveralVisits(t *testing.T) {
	for _, tib := range []int64{10, 30, 100} {
		size := tib << 40
		s, k := paying(size)
		now, due, paid := epoch, tib<<20, int64(0)
		for visit := 0; paid < due; visit++ {
			s.Hurry("d", now)
			s.Due(now)
			tasks := s.Visited("d", nil, now)
			if len(tasks) != 1 || visit == 9 {
				t.Fatalf("%d TiB: visit %d: %+v", tib, visit, tasks)
			}
			units := min(due-paid, due/3+1) // then the line is cut
			if most := s.MayCost(k, tasks[0].Length, now); units > most {
				t.Errorf("%d TiB: %d of %d units are paid, and of the rest %d may be", tib, paid, due, most)
				break
			}
			paid += units
			s.Bank(k, units, now)
			s.Failed("d", "away", now)
			now = now.Add(day / 4)
		}
	}
}
