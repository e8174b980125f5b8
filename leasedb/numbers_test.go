package leasedb

import (
	"testing"

	"github.com/piecelease/fetcher/depot"
)

// What is known under the number of an account, such as who watches it, is not the next
// account's.
func TestNumbersOfAccountsAreNotUsedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, err := r.AddAccount(t.Context(), start, "a", depot.Terms{MaxLease: day})
	r.ok(err)
	r.ok(r.RemoveAccount(t.Context(), start, a))
	b, err := r.AddAccount(t.Context(), start, "b", depot.Terms{MaxLease: day})
	r.ok(err)
	if a == b {
		t.Error(a, b)
	}
}

// An account of no bytes holds nothing: each share takes folders, files and rows.
func TestAShareOfNoBytesIsNotHeld(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	poor, err := r.AddAccount(t.Context(), start, "poor", depot.Terms{Quota: 0, MaxLease: day})
	r.ok(err)
	n := 0
	for i := range 100 {
		if _, err := r.Hold(t.Context(), start, r.ask(poor, nth(i), 0)); err == nil {
			n++
		}
	}
	if n > 0 {
		t.Errorf("an account with no quota holds %d shares", n)
	}
}
