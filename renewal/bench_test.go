package renewal

import (
	"fmt"
	"testing"
	"time"

	"github.com/piecelease/fetcher/peers"
)

func BenchmarkHoldsOfOneDepot(b *testing.B) {
	s := New(Config{}, 1)
	for i := range 3000 {
		hold(s, Hold{Key: Key{"d", shareID(i)}, Bytes: 1, Expires: epoch.Add(30 * day), State: Stable}, epoch)
	}
	for b.Loop() {
		s.Holds(epoch)
	}
}

// A node with many holds at two depots starts, finds one of them away, and then has all leases there renewed:
// the time for each hold is to be the same for any number.
func BenchmarkManyHolds(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		book := Book{Accounts: []Account{{Depot: "d", Paid: true}, {Depot: "e"}}}
		for i := range n {
			x, at := shareID(i), []peers.ID{"d", "e"}
			book.Wants = append(book.Wants, Want{ID: int64(i + 1), Share: x, Bytes: 1, Depots: at, At: at, Fleet: true})
			for _, id := range at {
				book.Holds = append(book.Holds, Hold{Key: Key{id, x}, Want: int64(i + 1), Since: epoch, Bytes: 1, Expires: epoch.Add(4 * day), State: Stable})
			}
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				s := New(Config{}, 1)
				s.Resume(book, epoch)
				now := epoch.Add(3 * day)
				s.Due(now)
				s.Failed("d", "away", now)
				now = now.Add(time.Hour)
				s.Due(now)
				var said []Heard
				for i := range n {
					said = append(said, Heard{Share: shareID(i), State: Stable, Bytes: 1, Left: day})
				}
				for _, task := range s.Visited("d", said, now) {
					renewed(s, Key{"d", task.Share}, task.Length, now)
					s.Due(now) // as the actor does after each answer
					now = now.Add(time.Millisecond)
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e6/float64(b.N*n), "µs/hold")
		})
	}
}
