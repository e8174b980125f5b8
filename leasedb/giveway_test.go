package leasedb

import (
	"testing"

	"github.com/piecelease/fetcher/depot"
)

// A stranger that has paid and keeps nothing any more gives way to another, though rounding has left less than a pass of what it paid: else the
// depot lets nobody in any more once it had its number of them.
func TestAStrangerThatPaidGivesWay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	terms := depot.Terms{Quota: 1000, MaxLease: 31 * day, Paid: true}
	id, err := r.Admit(t.Context(), start, "payer", terms, 1)
	r.ok(err)
	p := depot.Payment{Account: id, Request: [16]byte{1}, Units: 1}
	_, _, err = r.Intend(t.Context(), start, p)
	r.ok(err)
	r.ok(r.Deposit(t.Context(), start, p))
	ask := r.ask(id, nth(1), 100)
	ask.Until = start.Add(30 * day)
	_, err = r.Hold(t.Context(), start, ask)
	r.ok(err)
	later := start.Add(200 * day)
	_, _, err = r.Sweep(t.Context(), later, 100)
	r.ok(err)
	if _, err := r.Admit(t.Context(), later, "another", terms, 1); err != nil {
		t.Errorf("half a year after its lease has ended: %v", err)
	}
}
