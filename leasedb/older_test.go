package leasedb

import (
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
)

// lose makes the rig start with an empty database, as after the loss of the old one; the owner
// has entered both accounts again.
func (r *rig) lose() {
	r.Helper()
	r.DB.Close()
	for _, part := range []string{"", "-wal", "-shm"} {
		os.Remove(r.path + part)
	}
	r.open()
	for _, name := range []string{"p2", "p3"} {
		_, err := r.AddAccount(r.Context(), start, name, depot.Terms{Quota: 1000, MaxLease: 31 * day})
		r.ok(err)
	}
	r.ok(r.SetGC(r.Context(), true))
}

func (r *rig) leased(id share.ID, account string) bool {
	return slices.ContainsFunc(r.disk[id], func(p depot.Promise) bool { return p.Account == account && p.Expires.Equal(start.Add(10*day)) })
}

// The first to ask after a loss wipes out no lease that only the disk knows.
func TestAHoldBeforeTheCrawlerComesKeepsTheLeasesOnTheDisk(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stable(ids[0]) // p2 holds it for ten days
	r.lose()
	short := r.ask(3, ids[0], 100)
	short.Until = start.Add(time.Hour)
	_, err := r.Hold(t.Context(), start, short)
	r.ok(err)
	if !r.leased(ids[0], "p2") {
		t.Errorf("the lease of p2 is gone; on the disk are %v", r.disk[ids[0]])
	}
	_, err = r.Found(t.Context(), start, ids[0], 100, true, r.disk[ids[0]]) // the crawler comes
	r.ok(err)
	r.ok(r.CycleDone(t.Context(), start, "", depot.Cycle{}))
	if err := r.Collect(t.Context(), start.Add(2*day), ids[0]); !errors.Is(err, depot.ErrKept) {
		t.Errorf("a share that p2 holds for eight days more is collected: %v", err)
	}
}

// A backup of the same database does not know what came after it.
func TestARenewalInAnOldDatabaseKeepsTheLeasesOnTheDisk(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	short := r.ask(3, ids[0], 100)
	short.Until = start.Add(day)
	_, err := r.Hold(t.Context(), start, short)
	r.ok(err)
	r.complete(ids[0])
	r.DB.Close()
	backup, err := os.ReadFile(r.path)
	r.ok(err)
	r.open()
	_, err = r.Hold(t.Context(), start, r.ask(2, ids[0], 100))
	r.ok(err)
	r.DB.Close()
	r.ok(os.WriteFile(r.path, backup, 0o600))
	r.open()
	renew := r.ask(3, ids[0], 0)
	renew.Until = start.Add(day + time.Hour)
	_, err = r.Renew(t.Context(), start, renew)
	r.ok(err)
	if err := r.Collect(t.Context(), start.Add(3*day), ids[0]); !errors.Is(err, depot.ErrKept) {
		t.Errorf("a share that p2 holds for a week more is collected: %v", err)
	}
}

// A lease that only the disk knows, as the database is an older copy, is not given to whoever gets the account's name next: until the
// crawler has been round, no account is removed.
func TestALeaseOnTheDiskIsNotGivenToTheNextOfItsName(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stable(ids[0])
	promised := slices.Clone(r.disk[ids[0]])
	r.lose()
	p2, err := r.Named(t.Context(), "p2")
	r.ok(err)
	if err := r.RemoveAccount(t.Context(), start, p2, false); !errors.Is(err, depot.ErrIncomplete) {
		t.Errorf("before the crawler has been round: %v", err)
	}
	_, err = r.Found(t.Context(), start, ids[0], 100, true, promised)
	r.ok(err)
	r.ok(r.CycleDone(t.Context(), start, "", depot.Cycle{}))
	if err := r.RemoveAccount(t.Context(), start, p2, false); !errors.Is(err, depot.ErrInUse) {
		t.Errorf("once its lease was found: %v", err)
	}
	r.ok(r.RemoveAccount(t.Context(), start.Add(11*day), p2, false))
}

// An account is made with its key, or not at all.
func TestAnAccountOfATakenKeyIsNotMade(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok(r.AddKey(t.Context(), 2, "key"))
	if _, err := r.AddAccount(t.Context(), start, "new", depot.Terms{MaxLease: day}, "other", "key"); !errors.Is(err, depot.ErrTaken) {
		t.Error(err)
	}
	if _, err := r.Named(t.Context(), "new"); !errors.Is(err, depot.ErrNoAccount) {
		t.Error(err)
	}
}
