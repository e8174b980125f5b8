package leasedb

import (
	"testing"

	"github.com/piecelease/fetcher/renewal"
)

// A depot that can never have a share ends its leases, and keeps nothing of what they cost: nobody was kept anything for it, and who asks
// again does not pay each time.
func TestAShareThatCannotBeKeptCostsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.pays(1)
	_, err := r.Hold(t.Context(), start, r.ask(3, nth(1), 100))
	r.ok(err)
	if ended, err := r.DB.Fail(t.Context(), start, nth(1)); err != nil || len(ended) != 1 {
		t.Fatal(ended, err)
	}
	r.credit(renewal.Paid(1))
}
