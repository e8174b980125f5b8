package leasedb

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// What is stored under the number of an account, such as who watches it, never passes to a
// later account.
func TestNumbersOfAccountsAreNotUsedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a, err := r.AddAccount(t.Context(), start, "a", depot.Terms{MaxLease: day})
	r.ok(err)
	r.ok(r.RemoveAccount(t.Context(), start, a, false))
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

// The number of strangers' accounts is limited: those that hold nothing are removed, the others
// are not, and neither is any account that the owner has let in.
func TestStrangersGiveWay(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	terms := depot.Terms{Quota: 1 << 20, MaxLease: day}
	owned, err := r.AddAccount(t.Context(), start, "owned", terms)
	r.ok(err)
	admit := func(peer peers.ID, most int64) (depot.Account, error) {
		return r.Admit(t.Context(), start, peer, terms, most)
	}
	holds, err := admit("holds", 3)
	r.ok(err)
	_, err = r.Hold(t.Context(), start, depot.Ask{Account: holds, Request: "r", Share: share.IDOf([]byte("x")), Bytes: 5000, Until: start.Add(time.Hour), Space: depot.Space{Free: 1 << 30}})
	r.ok(err)
	trusted, err := admit("trusted", 3)
	r.ok(err)
	r.ok(r.SetAccount(t.Context(), trusted, terms))
	for _, peer := range []peers.ID{"a", "b", "c", "d", "e"} {
		first, err := admit(peer, 3)
		r.ok(err)
		if again, err := admit(peer, 0); err != nil || again != first {
			t.Errorf("%s has %d, and then %d: %v", peer, first, again, err)
		}
	}
	all, err := r.Accounts(t.Context(), start)
	r.ok(err)
	var names []string
	for _, a := range all {
		names = append(names, a.Name)
	}
	slices.Sort(names)
	if want := []string{"e", "holds", "owned", "p2", "p3", "starter", "trusted"}; !slices.Equal(names, want) {
		t.Errorf("%v are left, want %v (%d)", names, want, owned)
	}
	var refused *depot.Refusal
	if _, err := admit("f", 1); !errors.As(err, &refused) || refused.Reason != depot.TooManyRequests {
		t.Errorf("beside one that holds something: %v", err)
	}
	if _, err := admit("g", 0); !errors.As(err, &refused) || refused.Reason != depot.UnknownAccount {
		t.Errorf("no new ones: %v", err)
	}
}

// A share that goes within a transaction does not keep other shares' leases from being written.
func TestLeasesLieBesideEachShareThatWasTouched(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	id := share.IDOf([]byte("x"))
	_, err := r.Hold(t.Context(), start, depot.Ask{Account: people[0], Request: "r", Share: id, Bytes: 900, Until: start.Add(time.Hour), Space: depot.Space{Free: 1 << 30}})
	r.ok(err)
	delete(r.disk, id)
	r.ok(r.write(t.Context(), start, func(t *tx) error {
		s, err := t.share(id)
		t.touch(1 << 40)
		t.touch(s.id)
		return err
	}))
	if ps := r.disk[id]; len(ps) != 1 {
		t.Errorf("%v lie beside it", ps)
	}
}
