package leasedb

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
)

func TestSharesAreCountedByState(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, whole := range []bool{true, true, false} {
		_, err := r.Found(t.Context(), start, nth(i), int64(1000<<i), whole, nil)
		r.ok(err)
	}
	_, err := r.Hold(t.Context(), start, depot.Ask{Account: people[0], Request: "r", Share: nth(9), Bytes: 900, Until: start.Add(time.Hour), Space: depot.Space{Free: 1 << 30}})
	r.ok(err)
	_, err = r.Hold(t.Context(), start, depot.Ask{Account: people[1], Request: "s", Share: nth(0), Bytes: 1000, Until: start.Add(time.Minute), Space: depot.Space{Free: 1 << 30}})
	r.ok(err)
	got, err := r.States(t.Context(), start.Add(time.Minute)) // that lease is over
	r.ok(err)
	want := map[depot.State]depot.Tally{depot.Stable: {Shares: 2, Bytes: 3000, Leases: 2}, depot.Coming: {Shares: 2, Bytes: 4900, Leases: 2}, depot.Corrupt: {}, depot.Going: {}}
	if len(got) != len(want) {
		t.Error(got)
	}
	for s, x := range want {
		if got[s] != x {
			t.Errorf("%v: %+v, want %+v", s, got[s], x)
		}
	}
}
