package issuer

import (
	"errors"
	"testing"

	"github.com/piecelease/fetcher/passes"
	"github.com/piecelease/fetcher/store/storetest"
)

// A new half year begins while the disk is full.
func TestABookThatCannotBeRewrittenIsAnErrorEachTime(t *testing.T) {
	for at := range 12 {
		d := storetest.New(1 << 24)
		i := opened(t, d, now)
		must[passes.Listing](t)(i.Listing(now))
		n := 0
		full := errors.New("full")
		d.Fault = func(op storetest.Op) error {
			if op.Changes() {
				if n++; n > at {
					return full
				}
			}
			return nil
		}
		later := now.Add(2 * epoch)
		_, err := i.Listing(later)
		d.Fault = nil
		if _, err2 := i.Sell(1, later); err != nil && err2 == nil {
			t.Logf("fault %d: goes on after %v", at, err)
		}
		i.Close()
	}
}
