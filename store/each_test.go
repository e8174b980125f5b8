package store

import (
	"fmt"
	"sync/atomic"
	"testing"
)

func TestEachOfVisitsAllAndReturnsTheFirstError(t *testing.T) {
	for _, n := range []int{0, 1, 256, 5000} {
		for _, workers := range []int{1, 4} {
			seen := make([]atomic.Int32, n)
			err := eachOf(n, workers, func(i int) error {
				if seen[i].Add(1); i%1000 == 700 {
					return fmt.Errorf("%d", i)
				}
				return nil
			})
			if want := n > 700; (err != nil) != want || want && err.Error() != "700" {
				t.Errorf("%d by %d: %v", n, workers, err)
			}
			for i := range seen {
				if got := seen[i].Load(); got != 1 {
					t.Fatalf("%d by %d: %d was visited %d times", n, workers, i, got)
				}
			}
		}
	}
}
