package renewal

import (
	"testing"
	"time"
)

// A depot answers one renewal after the other, each a moment later. What is done for an answer is the same for any number of leases there. Leases that
// lapse, and were for many requests, are counted, as a look at one of them allocates.
func TestWhatAnAnswerCostsIsTheSameForAnyNumberOfLeases(t *testing.T) {
	cost := func(n int) float64 {
		s, now, was := New(Config{}, 1), epoch, make([]int64, 16)
		s.Want(Want{ID: 1, Share: shareID(0), Bytes: 1, Depots: abc[:1]}, now)
		for i := range n {
			s.add(Hold{Key: Key{"a", shareID(i + 1)}, Bytes: 1, Expires: now.Add(30 * day), Granted: 31 * day, State: Stable, Lapses: true, Also: was}, now)
		}
		return testing.AllocsPerRun(10, func() {
			now = now.Add(time.Second)
			s.Renewed("a", Heard{Share: shareID(0), State: Stable, Bytes: 1, Left: 31 * day, Added: time.Second}, now)
		})
	}
	if few, many := cost(10), cost(1000); many > few+100 {
		t.Errorf("with 10 leases there it allocates %.0f times, and with 1000 %.0f times", few, many)
	}
}
