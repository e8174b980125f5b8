package leasedb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/share"
)

// together makes calls wait in this order, and lets them go at once.
func (r *rig) together(all ...func() error) (errs []error) {
	r.Helper()
	errs = make([]error, len(all))
	r.line.turn <- struct{}{}
	var done sync.WaitGroup
	for i, f := range all {
		done.Go(func() {
			defer func() {
				if v := recover(); v != nil {
					errs[i] = fmt.Errorf("panic: %v", v)
				}
			}()
			errs[i] = f()
		})
		for waiting := 0; waiting <= i; time.Sleep(100 * time.Microsecond) {
			r.line.mu.Lock()
			waiting = len(r.line.waiting)
			r.line.mu.Unlock()
		}
	}
	<-r.line.turn
	done.Wait()
	return errs
}

func (r *rig) holds(a depot.Account, id share.ID, bytes int64) func() error {
	ask := r.ask(a, id, bytes)
	return func() error {
		_, err := r.Hold(r.Context(), start, ask)
		return err
	}
}

func (r *rig) commits() *int {
	n := 0
	r.Fault = func(query string) error {
		if query == "COMMIT" {
			n++
		}
		return nil
	}
	return &n
}

// Holds that wait are one transaction, of which one that is refused is no part.
func TestCallsThatWaitShareATransaction(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	payer, err := r.AddAccount(t.Context(), start, "payer", depot.Terms{Quota: 1000, MaxLease: day, Paid: true})
	r.ok(err)
	n := r.commits()
	over := r.ask(2, ids[2], 100) // it would fit, did the first not count
	over.Space = depot.Space{Free: 150}
	fits := r.ask(3, ids[3], 300) // as long as the payer's does not count
	fits.Space = depot.Space{Free: 400}
	gone, cancel := context.WithCancel(t.Context())
	defer cancel()
	cancelled := r.ask(3, nth(101), 100)
	errs := r.together(r.holds(2, ids[0], 100), r.holds(3, ids[1], 2000), func() error {
		_, err := r.Hold(r.Context(), start, over)
		return err
	}, r.holds(payer, nth(100), 100), func() error {
		_, err := r.Hold(r.Context(), start, fits)
		return err
	}, func() error {
		return r.write(r.Context(), start, func(*tx) error {
			cancel()
			return nil
		})
	}, func() error {
		_, err := r.Hold(gone, start, cancelled)
		return err
	})
	if errs[0] != nil || errs[4] != nil {
		t.Fatal(errs)
	}
	refused(t, errs[3], depot.Unpaid) // its lease was made before
	if !errors.Is(errs[6], context.Canceled) {
		t.Error(errs[6])
	}
	refused(t, errs[1], depot.OverQuota)
	refused(t, errs[2], depot.NoSpace)
	if *n != 1 {
		t.Errorf("%d transactions", *n)
	}
	r.used(start, 2, 100)
	r.used(start, 3, 300)
	r.used(start, payer, 0)
	for i, want := range []int{1, 0, 0, 1} {
		if got := r.disk[ids[i]]; len(got) != want {
			t.Errorf("beside share %d lie %v", i, got)
		}
	}
	if states, err := r.States(t.Context(), start); err != nil || states[depot.Coming].Shares != 2 {
		t.Error(states, err)
	}
}

// Many more than fit in a transaction wait, and each is answered.
func TestALongLineIsServedWhole(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	n := r.commits()
	var all []func() error
	for i := range 3*most + 5 {
		all = append(all, r.holds(2, nth(i), 1))
	}
	if errs := r.together(all...); errors.Join(errs...) != nil {
		t.Fatal(errs)
	}
	r.used(start, 2, int64(len(all)))
	if *n < 4 || *n > 10 {
		t.Errorf("%d transactions of %d calls", *n, len(all))
	}
}

// stuck is a disk on which nothing can be written beside one share.
type stuck struct {
	*disk
	id share.ID
}

func (s stuck) Write(all []depot.Promised) error {
	if slices.ContainsFunc(all, func(p depot.Promised) bool { return p.Share == s.id }) {
		return errCrash
	}
	return s.disk.Write(all)
}

func TestWhatFailsForOneFailsForNoOther(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.beside = stuck{&r.disk, ids[1]}
	errs := r.together(r.holds(2, ids[0], 100), r.holds(3, ids[1], 100), r.holds(3, ids[3], 100))
	if errs[0] != nil || !errors.Is(errs[1], errCrash) || errs[2] != nil {
		t.Error(errs)
	}
	r.used(start, 2, 100)
	r.used(start, 3, 100)
	bad := []func(*tx) error{
		func(*tx) error { panic("a fault of the program") },
		func(t *tx) error { // as SQLite does when the disk is full
			return errors.Join(errCrash, sqlitex.Execute(t.c, "ROLLBACK", nil))
		},
	}
	for i, f := range bad {
		id := nth(100 + i)
		errs = r.together(r.holds(2, id, 10), func() error { return r.write(t.Context(), start, f) }, r.holds(3, id, 10))
		if errs[1] == nil || errs[2] != nil {
			t.Error(i, errs)
		}
		if len(r.disk[id]) != 2 && errs[0] == nil {
			t.Errorf("%d: beside it lie %v", i, r.disk[id])
		}
	}
}

// Nothing that waited is granted if the transaction ends before its commit.
func TestACrashAtACommitGrantsNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Fault = func(query string) error {
		if query == "COMMIT" {
			return errCrash
		}
		return nil
	}
	for _, err := range r.together(r.holds(2, ids[0], 100), r.holds(3, ids[1], 100)) {
		if !errors.Is(err, errCrash) {
			t.Error(err)
		}
	}
	r.Fault = nil
	r.used(start, 2, 0)
	r.used(start, 3, 0)
}

// A lease that is released and made again, for a shorter time, by two calls that wait together, ends
// when the second says.
func TestAReleaseAndAHoldTogetherComeInOrder(t *testing.T) {
	t.Parallel()
	for i, id := range ids { // the disk takes changes of some of them
		r := newRig(t)
		r.stable(id)
		release, hold := r.ask(2, id, 0), r.ask(2, id, 100)
		hold.Until = start.Add(day)
		errs := r.together(func() error {
			_, err := r.Release(r.Context(), start, release)
			return err
		}, func() error {
			_, err := r.Hold(r.Context(), start, hold)
			return err
		})
		if errors.Join(errs...) != nil {
			t.Fatal(errs)
		}
		if got := r.disk[id]; len(got) != 1 || !got[0].Expires.Equal(hold.Until) {
			t.Errorf("share %d: on the disk are %v", i, got)
		}
	}
}

// An account that is removed in the transaction that ended its lease has none on the disk.
func TestAReleaseAndARemovalTogether(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stable(ids[0])
	release := r.ask(2, ids[0], 0)
	errs := r.together(func() error {
		_, err := r.Release(r.Context(), start, release)
		return err
	}, func() error { return r.RemoveAccount(r.Context(), start, 2, false) })
	if errors.Join(errs...) != nil || len(r.disk[ids[0]]) != 0 {
		t.Error(errs, r.disk[ids[0]])
	}
}

// A release that did not happen, as its commit failed, or as its caller went away when another call's leases could not
// be written, leaves the lease beside the data once the share's leases are next written.
func TestAReleaseThatDidNotHappenLeavesTheLeaseBeside(t *testing.T) {
	t.Parallel()
	for i, id := range ids { // the disk takes changes of some of them
		for _, alone := range []bool{true, false} {
			r := newRig(t)
			r.stable(id)
			r.ok(r.holds(3, id, 100)())
			ctx, cancel := context.WithCancel(t.Context())
			ask := r.ask(2, id, 0)
			release := func() error {
				_, err := r.Release(ctx, start, ask)
				return err
			}
			var err error
			if alone {
				r.Fault = func(query string) error {
					if query == "COMMIT" {
						return errCrash
					}
					return nil
				}
				err = release()
				r.Fault = nil
			} else {
				r.beside = giving{&r.disk, nth(77), cancel}
				err = r.together(release, r.holds(3, nth(77), 50))[0]
			}
			cancel()
			if err == nil {
				t.Fatal("it happened")
			}
			_, err = r.Hold(t.Context(), start.Add(day), r.ask(3, id, 100))
			r.ok(err)
			r.used(start, 2, 100)
			if got := r.disk[id]; len(got) != 2 {
				t.Errorf("share %d, alone: %v: on the disk are %v", i, alone, got)
			}
			if len(r.ended) != 0 {
				t.Error("its leases are written whole for ever")
			}
		}
	}
}

// giving cannot write beside one share, and then the caller of another call goes away.
type giving struct {
	*disk
	bad  share.ID
	then context.CancelFunc
}

func (g giving) Write(all []depot.Promised) error {
	good := slices.DeleteFunc(slices.Clone(all), func(p depot.Promised) bool { return p.Share == g.bad })
	if err := g.disk.Write(good); err != nil || len(good) == len(all) {
		return err
	}
	g.then()
	return errCrash
}

// A call whose time is up while it waits returns, and changes nothing.
func TestAWaitingCallGivesUpInTime(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.line.turn <- struct{}{} // as a call whose sync hangs
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := r.Hold(ctx, start, r.ask(2, ids[0], 100)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-r.line.turn
	r.ok(r.holds(3, ids[1], 100)())
	r.used(start, 2, 0)
}
