package leasedb

import (
	"testing"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/renewal"
)

// A depot that can never have a share, or finds that it has another size than was declared, ends its leases, and keeps nothing of what their
// rest has cost: who asks again does not pay each time.
func TestAShareThatCannotBeKeptCostsNothing(t *testing.T) {
	t.Parallel()
	for _, measured := range []bool{false, true} {
		r := newRig(t)
		r.pays(1)
		_, err := r.Hold(t.Context(), start, r.ask(3, nth(1), 100))
		r.ok(err)
		var ended []depot.Account
		if measured {
			ended, err = r.Measure(t.Context(), start.Add(day), nth(1), 200)
		} else {
			ended, err = r.DB.Fail(t.Context(), start.Add(day), nth(1))
		}
		if err != nil || len(ended) != 1 {
			t.Fatal(ended, err)
		}
		r.credit(renewal.Paid(1) - renewal.Credit(day.Seconds())) // it was kept for a day, as far as anybody knew
	}
}

// A lease from before its account had to pay gives no credit.
func TestAShareThatCostNothingGivesNoCredit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.Hold(t.Context(), start, r.ask(3, nth(1), 100))
	r.ok(err)
	r.ok(r.SetAccount(t.Context(), 3, depot.Terms{Quota: 1000, MaxLease: 31 * day, Paid: true}))
	if ended, err := r.DB.Fail(t.Context(), start, nth(1)); err != nil || len(ended) != 1 {
		t.Fatal(ended, err)
	}
	r.credit(0)
}
