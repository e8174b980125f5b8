package leasedb

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/share"
)

// pays has account 3 pay for its leases; it has paid that many units.
func (r *rig) pays(units int64) {
	r.Helper()
	r.ok(r.SetAccount(r.Context(), 3, depot.Terms{Quota: 1000, MaxLease: 31 * day, Paid: true}))
	r.paid(units)
}

func (r *rig) paid(units int64) {
	r.Helper()
	p := depot.Payment{Account: 3, Request: [16]byte{1}, Units: units}
	_, _, err := r.Intend(r.Context(), start, p)
	r.ok(err)
	r.ok(r.Deposit(r.Context(), start, p))
}

func (r *rig) credit(want renewal.Credit) {
	r.Helper()
	if a, err := r.Info(r.Context(), start, 3); err != nil || renewal.Credit(a.Credit) != want {
		r.Errorf("the credit is %d, want %d; %v", a.Credit, want, err)
	}
}

// A lease whose transaction failed after it was written beside its share was granted to nobody: it is paid for, and counts in the
// quota, once the crawler enters it from there.
func TestALeaseThatWasNotGrantedIsNotHadForNothing(t *testing.T) {
	t.Parallel()
	for what, known := range map[string]bool{"of a share that is here": true, "of a share that is to be fetched": false} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t)
			if known {
				r.stable(nth(1))
			}
			r.pays(1)
			r.Fault = func(query string) error {
				if query == "COMMIT" {
					return errors.New("the disk is full")
				}
				return nil
			}
			ask := r.ask(3, nth(1), 100)
			if _, err := r.Hold(t.Context(), start, ask); err == nil {
				t.Fatal("it was granted")
			}
			r.Fault = nil
			bytes := int64(100)
			if !known {
				bytes = 0 // its manifest is not here
			}
			_, err := r.Found(t.Context(), start.Add(1e9), nth(1), bytes, known, r.disk[nth(1)]) // as the crawler does for what only the disk knows
			r.ok(err)
			if !known {
				_, err := r.Measure(t.Context(), start.Add(1e9), nth(1), 100)
				r.ok(err)
			}
			r.used(start, 3, 100)
			left := renewal.Paid(1) - renewal.Credit((10 * day).Seconds()) // MiB-seconds
			r.credit(left + 1)                                             // a second of it was over
			_, err = r.Hold(t.Context(), start.Add(1e9), ask)              // asked again, it adds nothing
			r.ok(err)
			r.credit(left + 1)
		})
	}
}

// What another depot has promised was paid for there.
func TestALeaseThatIsImportedIsPaidFor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.pays(1)
	_, err := r.Imported(t.Context(), start, nth(1), 100, true, []depot.Promise{{Account: "p3", Expires: start.Add(day)}})
	r.ok(err)
	r.used(start, 3, 100)
	r.credit(renewal.Paid(1))
}

// Credit that was used up since a snapshot was made does not come back with it, as the leases for which it was used do.
func TestASnapshotGivesNoCreditBackThatWasUsed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok(r.SetIdentity(t.Context(), "ours", "self"))
	r.stable(nth(1))
	r.pays(1)
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	r.ok(r.Snapshot(t.Context(), snapshot))
	ask := r.ask(3, nth(1), 100)
	ask.Until = start.Add(31 * day)
	_, err := r.Hold(t.Context(), start, ask)
	r.ok(err)
	r.ok(r.DB.Close())
	r.DB = nil
	_, err = Restore(t.Context(), snapshot, r.path, "ours")
	r.ok(err)
	r.open()
	_, err = r.Found(t.Context(), start, nth(1), 100, true, r.disk[nth(1)])
	r.ok(err)
	r.ok(r.CycleDone(t.Context(), start, "", depot.Cycle{}))
	r.credit(0)
	r.stable(nth(2))
	ask = r.ask(3, nth(2), 100)
	ask.Until = start.Add(31 * day)
	if _, err := r.Hold(t.Context(), start, ask); err == nil {
		all, _ := r.Holdings(t.Context(), start, 3, share.ID{}, 9)
		t.Errorf("one unit paid for two leases of 31 days: %d live", len(all))
	}
}
