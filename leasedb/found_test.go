package leasedb

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
)

// A lease that the crawler found before the manifest came does not end when it comes: its
// account declared the right size, and nobody stored that.
func TestALeaseThatWasFoundIsMeasured(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.Hold(t.Context(), start, r.ask(2, ids[0], 100))
	r.ok(err)
	r.lose()
	_, err = r.Found(t.Context(), start, ids[0], 0, false, r.disk[ids[0]]) // no manifest yet
	r.ok(err)
	ended, err := r.Measure(t.Context(), start, ids[0], 100)
	if err != nil || len(ended) > 0 {
		t.Errorf("ended: %v, %v", ended, err)
	}
	r.used(start, 2, 100)
}

// A lease that was found and is not measured yet counts 0 bytes: an account that pays renews it once its cost is known, another at once.
func TestAFoundLeaseIsNotRenewedForNothing(t *testing.T) {
	t.Parallel()
	for verb, ask := range map[string]func(r *rig, a depot.Ask) error{
		"renew": func(r *rig, a depot.Ask) error { _, err := r.Renew(r.Context(), start, a); return err },
		"hold":  func(r *rig, a depot.Ask) error { _, err := r.Hold(r.Context(), start, a); return err },
		"hold of 0 bytes": func(r *rig, a depot.Ask) error {
			a.Bytes = 0
			_, err := r.Hold(r.Context(), start, a)
			return err
		},
	} {
		r := newRig(t)
		_, err := r.Hold(t.Context(), start, r.ask(2, ids[0], 100))
		r.ok(err)
		r.lose()
		_, err = r.Found(t.Context(), start, ids[0], 0, false, r.disk[ids[0]]) // no manifest yet
		r.ok(err)
		me, err := r.Named(t.Context(), "p2")
		r.ok(err)
		if verb == "renew" {
			r.ok(ask(r, r.ask(me, ids[0], 100)))
		}
		r.ok(r.SetAccount(t.Context(), me, depot.Terms{Quota: 1 << 40, MaxLease: 31 * day, Paid: true}))
		a := r.ask(me, ids[0], 100)
		a.Until = start.Add(31 * day)
		if refusal := refused(t, ask(r, a), depot.Away); refusal.Retry == 0 {
			t.Errorf("%s: %+v", verb, refusal)
		}
		_, err = r.Measure(t.Context(), start, ids[0], 100)
		r.ok(err)
		if verb != "hold of 0 bytes" {
			refused(t, ask(r, a), depot.Unpaid)
		}
	}
}

// What another account declares for a share says nothing of a lease that is found.
func TestAFoundLeaseDoesNotEndByWhatAnotherDeclared(t *testing.T) {
	t.Parallel()
	for _, bytes := range []int64{0, 100} { // that the crawler knows of
		r := newRig(t)
		_, err := r.Hold(t.Context(), start, r.ask(2, ids[0], 100))
		r.ok(err)
		promised := slices.Clone(r.disk[ids[0]])
		r.lose()
		p2, err := r.Named(t.Context(), "p2")
		r.ok(err)
		p3, err := r.Named(t.Context(), "p3")
		r.ok(err)
		_, err = r.Hold(t.Context(), start, r.ask(p3, ids[0], 1))
		r.ok(err)
		_, err = r.Found(t.Context(), start, ids[0], bytes, false, promised)
		r.ok(err)
		if ended, err := r.Measure(t.Context(), start, ids[0], 100); err != nil || !slices.Equal(ended, []depot.Account{p3}) {
			t.Errorf("%d bytes: ended: %v, %v", bytes, ended, err)
		}
		r.used(start, p2, 100)
	}
}

// A lease on the disk that is older than the one in the database does not shorten it.
func TestAnOlderLeaseOnTheDiskEndsNoneSooner(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	g, err := r.Hold(t.Context(), start, r.ask(2, ids[0], 100))
	r.ok(err)
	older := slices.Clone(r.disk[ids[0]])
	for i := range older {
		older[i].Expires = g.Expires.Add(-time.Minute)
	}
	_, err = r.Found(t.Context(), start, ids[0], 100, true, older)
	r.ok(err)
	if all, err := r.Leases(t.Context(), start, ids[0]); err != nil || len(all) != 1 || !all[0].Expires.Equal(g.Expires) {
		t.Errorf("%+v, want until %v; %v", all, g.Expires, err)
	}
}

// A share that lost its data lost the leases beside it too, or it lost those alone: they are written again as soon as that is seen.
func TestLeasesThatWereLostAreWrittenAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stable(ids[0])
	for _, whole := range []bool{false, true} {
		clear(r.disk)
		_, err := r.Found(t.Context(), start, ids[0], 100, whole, nil)
		r.ok(err)
		if !r.leased(ids[0], "p2") {
			t.Errorf("whole: %v; on the disk are %v", whole, r.disk[ids[0]])
		}
	}
}

// The crawler reads the leases beside a share before it looks at all of its files, and enters them after that. What its
// account has ended meanwhile stays ended.
func TestALeaseThatEndedWhileTheCrawlerLookedDoesNotComeBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stable(ids[0])
	seen := slices.Clone(r.disk[ids[0]])
	_, err := r.Release(t.Context(), start, r.ask(2, ids[0], 0))
	r.ok(err)
	_, err = r.Found(t.Context(), start, ids[0], 100, true, seen)
	r.ok(err)
	if r.leased(ids[0], "p2") {
		t.Errorf("on the disk are %v", r.disk[ids[0]])
	}
	r.used(start, 2, 0)
	_, err = r.Imported(t.Context(), start, ids[0], 100, true, seen) // it comes from elsewhere, and counts
	r.ok(err)
	r.used(start, 2, 100)
}

// A stranger whose key the owner has taken away does not get it back because the account is still there and bears its
// name. One whose account was made of leases that were found does.
func TestAKeyThatWasTakenAwayIsNotGivenBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	terms := depot.Terms{Quota: 1 << 20, MaxLease: day}
	for _, peer := range []peers.ID{"stranger", "changed"} {
		a, err := r.Admit(t.Context(), start, peer, terms, 10)
		r.ok(err)
		_, err = r.Hold(t.Context(), start, r.ask(a, ids[0], 100))
		r.ok(err)
		if peer == "changed" {
			r.ok(r.SetAccount(t.Context(), a, depot.Terms{Quota: 5, MaxLease: day}))
		}
		r.ok(r.RemoveKey(t.Context(), peer))
		_, err = r.Admit(t.Context(), start, peer, terms, 10)
		refused(t, err, depot.UnknownAccount)
		if _, err := r.AccountOf(t.Context(), peer); !errors.Is(err, depot.ErrNoKey) {
			t.Error(peer, err)
		}
	}
	_, err := r.Found(t.Context(), start, ids[1], 100, true, []depot.Promise{{Account: "found", Expires: start.Add(day)}})
	r.ok(err)
	a, err := r.Admit(t.Context(), start, "found", terms, 10)
	r.ok(err)
	if i, err := r.Info(t.Context(), start, a); err != nil || i.Terms != terms || i.Used != 100 {
		t.Errorf("%+v, %v", i, err)
	}
}
