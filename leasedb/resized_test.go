package leasedb

import (
	"testing"

	"github.com/piecelease/fetcher/depot"
)

// A share that an earlier version of the program has measured, and this one says takes more: the leases of it stay as they are until
// their accounts say what it takes now, and new ones count that.
func TestASizeOfAnEarlierVersionStaysInItsLeases(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stable(ids[0])
	_, err := r.Found(t.Context(), start, ids[0], 300, true, r.disk[ids[0]])
	r.ok(err)
	if s, err := r.Share(t.Context(), ids[0]); err != nil || s.Bytes != 300 || s.State != depot.Stable {
		t.Errorf("%+v, %v", s, err)
	}
	_, err = r.Renew(t.Context(), start, r.ask(2, ids[0], 0))
	r.ok(err)
	_, err = r.Hold(t.Context(), start, r.ask(2, ids[0], 100))
	r.ok(err)
	r.used(start, 2, 100)
	_, err = r.Hold(t.Context(), start, r.ask(2, ids[0], 200))
	refused(t, err, depot.WrongBytes)
	_, err = r.Hold(t.Context(), start, r.ask(3, ids[0], 100))
	if f := refused(t, err, depot.WrongBytes); f.Room != 300 {
		t.Errorf("%+v", f)
	}
	_, err = r.Hold(t.Context(), start, r.ask(3, ids[0], 300))
	r.ok(err)
	r.used(start, 3, 300)
	_, err = r.Hold(t.Context(), start, r.ask(2, ids[1], 750))
	r.ok(err)
	_, err = r.Hold(t.Context(), start, r.ask(2, ids[0], 300))
	if f := refused(t, err, depot.OverQuota); f.Room != 150 {
		t.Errorf("%+v", f)
	}
	r.used(start, 2, 850)
	_, err = r.Release(t.Context(), start, r.ask(2, ids[1], 0))
	r.ok(err)
	for range 2 {
		_, err = r.Hold(t.Context(), start, r.ask(2, ids[0], 300))
		r.ok(err)
		r.used(start, 2, 300)
	}
}
