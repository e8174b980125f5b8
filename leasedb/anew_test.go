package leasedb

import (
	"testing"

	"github.com/piecelease/fetcher/depot"
)

// If the same damage causes two errors, the second does not set the new database aside.
func TestADatabaseThatWasBegunAnewIsNotBegunAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.bad.Store(true)
	r.ok(r.BeginAnew(t.Context())) // by the first to meet the damage
	a, err := r.AddAccount(t.Context(), start, "a", depot.Terms{Quota: 1, MaxLease: day})
	r.ok(err)
	r.ok(r.BeginAnew(t.Context())) // by another that met it at the same time, but comes later
	if _, err := r.Info(t.Context(), start, a); err != nil {
		t.Errorf("an account that was made meanwhile: %v", err)
	}
}
