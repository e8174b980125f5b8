package leasedb

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

const day = 24 * time.Hour

var start = time.Unix(1_000_000_000, 0)

// rig is a database with two accounts of 1,000 bytes, complete, and collecting.
type rig struct {
	testing.TB
	*DB
	path string
	disk disk
	n    int
}

func nth(i int) share.ID { return share.IDOf(binary.AppendVarint(nil, int64(i))) }

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{TB: t, path: filepath.Join(t.TempDir(), "leases.db"), disk: disk{}}
	r.open()
	t.Cleanup(func() { r.DB.Close() })
	for _, a := range people {
		if _, err := r.AddAccount(t.Context(), start, fmt.Sprint("p", a), depot.Terms{Quota: 1000, MaxLease: 31 * day}); err != nil {
			t.Fatal(err)
		}
	}
	r.ok(r.CycleDone(t.Context(), start, "", depot.Cycle{}))
	r.ok(r.SetGC(t.Context(), true))
	return r
}

func (r *rig) open() (aside string) {
	r.Helper()
	if r.DB != nil {
		r.DB.Close()
	}
	var err error
	r.DB, aside, err = Open(r.Context(), r.path, &r.disk)
	r.ok(err)
	return aside
}

func (r *rig) ok(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) ask(a depot.Account, id share.ID, bytes int64) depot.Ask {
	r.n++
	return depot.Ask{Account: a, Share: id, Request: fmt.Sprint("r", r.n), Bytes: bytes, Until: start.Add(10 * day), Space: depot.Space{Free: 1 << 40}}
}

// stable makes a share that account 2 holds for ten days.
func (r *rig) stable(id share.ID) {
	r.Helper()
	_, err := r.Hold(r.Context(), start, r.ask(2, id, 100))
	r.ok(err)
	r.complete(id)
}

func (r *rig) complete(id share.ID) {
	r.Helper()
	_, err := r.Measure(r.Context(), start, id, 100)
	r.ok(err)
	r.ok(r.Complete(r.Context(), start, id))
}

func (r *rig) state(id share.ID, want depot.State) {
	r.Helper()
	s, err := r.Share(r.Context(), id)
	if err != nil || s.State != want {
		r.Fatalf("%v, %v; want %v", s.State, err, want)
	}
}

func (r *rig) used(now time.Time, a depot.Account, want int64) {
	r.Helper()
	if u, err := r.Usage(r.Context(), now, a); err != nil || u.Used != want {
		r.Fatalf("usage %+v, %v; want %d", u, err, want)
	}
}

func refused(t testing.TB, err error, want depot.Reason) *depot.Refusal {
	t.Helper()
	var r *depot.Refusal
	if !errors.As(err, &r) || r.Reason != want {
		t.Fatalf("%v, want %v", err, want)
	}
	return r
}

func TestInvariant38NothingGoesThatIsLeasedOrInItsGrace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	end := start.Add(10 * day)
	r.stable(ids[0])
	_, err := r.Hold(t.Context(), start, r.ask(3, ids[1], 100)) // COMING counts like any lease
	r.ok(err)
	clear(r.disk) // only the database still has the leases
	for _, id := range ids[:2] {
		for _, now := range []time.Time{start, end.Add(-1), end, end.Add(depot.Grace - 1)} {
			if err := r.Collect(t.Context(), now, id); !errors.Is(err, depot.ErrKept) {
				t.Fatalf("%v after its lease: %v", now.Sub(end), err)
			}
		}
		r.ok(r.Collect(t.Context(), end.Add(depot.Grace), id))
		r.state(id, depot.Going)
	}
}

// The grace is what the depot's owner says, and it decides what a rehearsal reports.
func TestGraceIsAsLongAsItsOwnerSays(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Grace = time.Hour
	end := start.Add(10 * day)
	r.stable(ids[0])
	for at, want := range map[time.Duration]int{time.Hour - time.Second: 0, time.Hour: 1} {
		if would, _, err := r.Candidates(t.Context(), end.Add(at), share.ID{}, 10); err != nil || len(would) != want {
			t.Errorf("%v after the lease %d may go: %v", at, len(would), err)
		}
	}
	if err := r.Collect(t.Context(), end.Add(time.Hour-1), ids[0]); !errors.Is(err, depot.ErrKept) {
		t.Error(err)
	}
	r.ok(r.Collect(t.Context(), end.Add(time.Hour), ids[0]))
}

// The check and the mark are one transaction: if it is killed at any statement, the share is
// as it was, and a hold that comes then is granted.
func TestInvariant39HoldBeforeGoingPreventsIt(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	late := start.Add(12 * day)
	r.stable(ids[0])
	for n := 1; ; n++ {
		at := n
		r.Fault = func(string) error {
			if at--; at == 0 {
				return errCrash
			}
			return nil
		}
		err := r.Collect(t.Context(), late, ids[0])
		if err == nil {
			break // with fewer statements than n
		}
		if !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		r.open()
		r.state(ids[0], depot.Stable)
	}
	r.open()
	r.state(ids[0], depot.Going)
	for _, why := range []string{"hold", "replace"} {
		a := r.ask(3, ids[0], 100)
		a.Until = late.Add(day)
		_, err := r.Hold(t.Context(), late, a)
		if why == "replace" {
			_, err = r.Replace(t.Context(), late, depot.Replace{Ask: a, Name: "x"})
		}
		if f := refused(t, err, depot.Leaving); f.Retry != depot.Retry {
			t.Error(why, f)
		}
	}
	r.stable(ids[1])
	a := r.ask(3, ids[1], 100)
	a.Until = late.Add(day)
	_, err := r.Hold(t.Context(), late, a)
	r.ok(err)
	if err := r.Collect(t.Context(), late, ids[1]); !errors.Is(err, depot.ErrKept) {
		t.Error(err)
	}
}

func TestInvariant40NothingIsMadeWhileGoing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	late := start.Add(12 * day)
	r.stable(ids[0])
	r.ok(r.Collect(t.Context(), late, ids[0]))
	state, err := r.Found(t.Context(), late, ids[0], 100, true, nil)
	if err != nil || state != depot.Going {
		t.Error(state, err)
	}
	for name, err := range map[string]error{"complete": r.Complete(t.Context(), late, ids[0]), "mended": r.Mended(t.Context(), late, ids[0]),
		"collect": r.Collect(t.Context(), late, ids[0])} {
		var e *depot.EdgeError
		if !errors.As(err, &e) || e.From != depot.Going {
			t.Error(name, err)
		}
	}
	r.state(ids[0], depot.Going)
}

func TestInvariant41WhatComesOrGoesArrivesSomewhere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i, end := range []func(id share.ID){
		func(id share.ID) { // failed for good
			ended, err := r.DB.Fail(t.Context(), start, id)
			if err != nil || !reflect.DeepEqual(ended, []depot.Account{2}) {
				t.Fatal(ended, err)
			}
		},
		func(id share.ID) { // given up
			_, err := r.Release(t.Context(), start, r.ask(2, id, 0))
			r.ok(err)
		},
	} {
		_, err := r.Hold(t.Context(), start, r.ask(2, ids[i], 100))
		r.ok(err)
		end(ids[i])
		r.used(start, 2, 0)
		r.ok(r.Collect(t.Context(), start, ids[i])) // at once: there is no grace for leases that were ended
		r.open()
		may, err := r.Removable(t.Context(), start, ids[i])
		if err != nil || !may {
			t.Fatal(may, err)
		}
		r.ok(r.Removed(t.Context(), start, ids[i]))
		r.state(ids[i], depot.None)
	}
}

func TestInvariant42LosingTheDatabaseLosesNothing(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"lost", "damaged"} {
		r := newRig(t)
		r.stable(ids[0])
		promised := r.disk[ids[0]]
		if len(promised) != 1 || promised[0].Account != "p2" || !promised[0].Expires.Equal(start.Add(10*day)) {
			t.Fatal(promised)
		}
		r.DB.Close()
		for _, part := range []string{"", "-wal", "-shm"} {
			if how == "lost" {
				os.Remove(r.path + part)
			}
		}
		if how == "damaged" {
			r.ok(os.WriteFile(r.path, []byte(strings.Repeat("no database", 1000)), 0o600))
		}
		if aside := r.open(); (aside != "") != (how == "damaged") || aside != "" && aside != r.path+".bad-1" {
			t.Error(how, aside)
		}
		found := start.Add(day)
		state, err := r.Found(t.Context(), found, ids[0], 100, true, promised)
		if err != nil || state != depot.Stable {
			t.Fatal(state, err)
		}
		_, err = r.Found(t.Context(), found, ids[1], 100, false, nil)
		r.ok(err)
		r.state(ids[1], depot.Coming)
		r.ok(r.SetGC(t.Context(), true))
		late := found.Add(depot.Starter + depot.Grace)
		if u, err := r.Usage(t.Context(), found, depot.StarterAccount); err != nil || u.Complete || u.Used != 200 {
			t.Error(u, err)
		}
		if err := r.Collect(t.Context(), late, ids[0]); !errors.Is(err, depot.ErrIncomplete) {
			t.Error(err)
		}
		r.ok(r.CycleDone(t.Context(), found, "", depot.Cycle{}))
		leases, err := r.Leases(t.Context(), start.Add(10*day-1), ids[0])
		if err != nil || len(leases) != 2 || !leases[0].Expires.Equal(found.Add(depot.Starter)) || !leases[1].Expires.Equal(start.Add(10*day)) {
			t.Error(leases, err)
		}
		for _, id := range ids[:2] {
			if err := r.Collect(t.Context(), late.Add(-1), id); !errors.Is(err, depot.ErrKept) {
				t.Error(err)
			}
			r.ok(r.Collect(t.Context(), late, id))
		}
	}
}

// A database that is lost again and again keeps nothing for ever.
func TestStarterLeaseIsGivenOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.Found(t.Context(), start, ids[0], 100, true, nil)
	r.ok(err)
	r.DB.Close()
	os.Remove(r.path)
	os.Remove(r.path + "-wal")
	r.open()
	_, err = r.Found(t.Context(), start.Add(60*day), ids[0], 100, true, r.disk[ids[0]])
	r.ok(err)
	leases, err := r.Leases(t.Context(), start.Add(60*day), ids[0])
	if err != nil || len(leases) != 1 || !leases[0].Expires.Equal(start.Add(depot.Starter)) {
		t.Error(leases, err)
	}
}

// A database restored from an old backup ends nothing that was promised since.
func TestDatabaseOlderThanTheDisk(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	late := start.Add(12 * day)
	r.stable(ids[0])
	r.stable(ids[1])
	r.ok(r.Collect(t.Context(), late, ids[1]))
	r.DB.Close()
	backup, err := os.ReadFile(r.path)
	r.ok(err)
	r.open()
	renewed := r.ask(2, ids[0], 0)
	renewed.Until = start.Add(30 * day)
	_, err = r.Renew(t.Context(), start.Add(9*day), renewed)
	r.ok(err)
	r.ok(r.Removed(t.Context(), late, ids[1])) // and held again
	again := r.ask(3, ids[1], 100)
	again.Until = start.Add(30 * day)
	_, err = r.Hold(t.Context(), late, again)
	r.ok(err)
	r.DB.Close()
	r.ok(os.WriteFile(r.path, backup, 0o600))
	r.open()
	r.state(ids[1], depot.Going)
	if err := r.Collect(t.Context(), late, ids[0]); !errors.Is(err, depot.ErrKept) {
		t.Error(err)
	}
	if may, err := r.Removable(t.Context(), late, ids[1]); may || err != nil {
		t.Error(may, err)
	}
	r.state(ids[1], depot.Going) // also if it is stopped now
	for _, id := range ids[:2] {
		_, err := r.Found(t.Context(), late, id, 100, true, r.disk[id])
		r.ok(err)
		r.state(id, depot.Stable)
	}
	r.used(late, 2, 100)
	r.used(late, 3, 100)
}

func TestInvariant43OneLeaseForEachAccountAndShareAndUsageIsTheirSum(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for range 3 {
		_, err := r.Hold(t.Context(), start, r.ask(2, ids[0], 100))
		r.ok(err)
	}
	_, err := r.Hold(t.Context(), start, r.ask(3, ids[0], 100)) // counts in full for each
	r.ok(err)
	r.used(start, 2, 100)
	r.used(start, 3, 100)
	end := start.Add(10 * day)
	r.used(end.Add(-1), 2, 100)
	r.used(end, 2, 0) // swept or not
	if n, done, err := r.Sweep(t.Context(), end, 1); n != 1 || done || err != nil {
		t.Error(n, done, err)
	}
	r.used(end, 2, 0)
	if n, done, err := r.Sweep(t.Context(), end, 1); n != 1 || !done || err != nil {
		t.Error(n, done, err)
	}
	r.sums()
}

// sums fails unless the counters of all accounts are right.
func (r *rig) sums() { r.Helper(); r.ok(sums(r.Context(), r.DB)) }

func sums(ctx context.Context, d *DB) error {
	return d.db.Read(ctx, func(c *sqlite.Conn) error {
		return sqlitex.Execute(c, `SELECT id FROM accounts WHERE used <> (SELECT coalesce(sum(bytes), 0) FROM leases WHERE account = accounts.id)
		  OR asked <> (SELECT count(*) FROM requests WHERE account = accounts.id)`, &sqlitex.ExecOptions{
			ResultFunc: func(s *sqlite.Stmt) error {
				return fmt.Errorf("the counters of account %d are wrong", s.ColumnInt64(0))
			}})
	})
}

func TestInvariant44OffMeansNothingGoesAndADryRunSaysWhatWould(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stable(ids[0])
	r.stable(ids[1])
	_, err := r.Renew(t.Context(), start, depot.Ask{Account: 2, Share: ids[1], Request: "x", Until: start.Add(20 * day)})
	r.ok(err)
	late := start.Add(12 * day)
	r.ok(r.SetGC(t.Context(), false))
	would, last, err := r.Candidates(t.Context(), late, share.ID{}, 10)
	if err != nil || len(would) != 1 || would[0].Share != ids[0] || would[0].Bytes != 100 || !last.IsZero() {
		t.Error(would, last, err)
	}
	for i, set := range []func() error{
		func() error { return nil },
		func() error { return r.SetGC(t.Context(), true) },
		func() error { return r.SetClock(t.Context(), start, []byte("c"), true) },
	} {
		r.ok(set())
		want := []error{depot.ErrOff, nil, depot.ErrFrozen}[i]
		if want == nil {
			continue
		}
		if err := r.Collect(t.Context(), late, ids[0]); !errors.Is(err, want) {
			t.Error(err, "want", want)
		}
	}
	if n, done, err := r.Sweep(t.Context(), late, 10); n != 0 || !done || err != nil {
		t.Error("swept while frozen:", n, done, err)
	}
	r.ok(r.SetClock(t.Context(), start, nil, false))
	r.ok(r.Collect(t.Context(), late, ids[0]))
	if err := r.Collect(t.Context(), late, ids[1]); !errors.Is(err, depot.ErrKept) {
		t.Error(err)
	}
	r.ok(r.SetGC(t.Context(), false)) // also between the mark and the removal
	if may, err := r.Removable(t.Context(), late, ids[0]); may || !errors.Is(err, depot.ErrOff) {
		t.Error(may, err)
	}
}

// Invariant 45 knows expiry by age and by cut-off dates, which do not exist here: a lease ends
// at the second that was granted, and no setting makes it end earlier or later.
func TestInvariant45OverriddenTheLengthGrantedIsThePolicy(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stable(ids[0])
	end := start.Add(10 * day)
	for _, longest := range []time.Duration{time.Second, 3650 * day} {
		r.ok(r.SetAccount(t.Context(), 2, depot.Terms{Quota: 0, MaxLease: longest}))
		if err := r.Collect(t.Context(), end.Add(depot.Grace-1), ids[0]); !errors.Is(err, depot.ErrKept) {
			t.Errorf("longest lease %v: %v", longest, err)
		}
		would, _, err := r.Candidates(t.Context(), end.Add(depot.Grace), share.ID{}, 10)
		if err != nil || len(would) != 1 {
			t.Errorf("longest lease %v: %v, %v", longest, would, err)
		}
	}
	r.ok(r.SetAccount(t.Context(), 3, depot.Terms{Quota: 1000, MaxLease: day}))
	g, err := r.Hold(t.Context(), start, r.ask(3, ids[1], 100))
	if err != nil || !g.Expires.Equal(start.Add(day)) || g.Added != day {
		t.Error("longer than the longest lease is shortened:", g, err)
	}
}

// A request that was used and now asks for another end is another: the old answer would be taken for the new end.
func TestARequestForAnotherEndIsAnother(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stable(ids[0])
	a := r.ask(2, ids[0], 100)
	for name, f := range map[string]func(context.Context, time.Time, depot.Ask) (depot.Granted, error){"hold": r.Hold, "renew": r.Renew} {
		a.Request, a.Until = name, start.Add(20*day)
		was, err := f(t.Context(), start, a)
		r.ok(err)
		again, err := f(t.Context(), start, a)
		if err != nil || again != was {
			t.Errorf("%s, repeated: %+v, %v; was %+v", name, again, err, was)
		}
		a.Until = start.Add(21 * day)
		_, err = f(t.Context(), start, a)
		refused(t, err, depot.BadRequest)
	}
	a.Request = "release"
	_, err := r.Release(t.Context(), start, a)
	r.ok(err)
	a.Until = a.Until.Add(day) // a Release has no end
	_, err = r.Release(t.Context(), start, a)
	r.ok(err)
}

func TestHoldsAtOnceNeverExceedTheQuota(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	granted := 0
	for i := range 100 {
		a := depot.Ask{Account: 2, Share: nth(i), Request: fmt.Sprint(i), Bytes: 30, Until: start.Add(day), Space: depot.Space{Free: 10000}}
		wg.Go(func() {
			_, err := r.Hold(t.Context(), start, a)
			mu.Lock()
			defer mu.Unlock()
			var f *depot.Refusal
			if err == nil {
				granted++
			} else if !errors.As(err, &f) || f.Reason != depot.OverQuota {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if granted != 33 {
		t.Error(granted, "of 30 bytes are granted in 1,000")
	}
	r.used(start, 2, 990)
}

func TestStrangerWhoDeclaresOneByteEndsNobodysLease(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := r.Hold(t.Context(), start, r.ask(3, ids[0], 1))
	r.ok(err)
	_, err = r.Hold(t.Context(), start, r.ask(2, ids[0], 100))
	r.ok(err)
	ended, err := r.Measure(t.Context(), start, ids[0], 100)
	if err != nil || !reflect.DeepEqual(ended, []depot.Account{3}) {
		t.Fatal(ended, err)
	}
	r.used(start, 2, 100)
	r.used(start, 3, 0)
	_, err = r.Hold(t.Context(), start, r.ask(3, ids[0], 1))
	if f := refused(t, err, depot.WrongBytes); f.Room != 100 {
		t.Error(f)
	}
}

func TestRequestIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	a := r.ask(2, ids[0], 100)
	first, err := r.Hold(t.Context(), start, a)
	r.ok(err)
	r.complete(ids[0])
	r.open()
	again, err := r.Hold(t.Context(), start.Add(day), a)
	if err != nil || again != first {
		t.Error(again, err)
	}
	other := a
	other.Share = ids[1]
	_, err = r.Hold(t.Context(), start, other)
	refused(t, err, depot.BadRequest)
	_, err = r.Renew(t.Context(), start, a)
	refused(t, err, depot.BadRequest)
	for _, bad := range []string{"", strings.Repeat("x", 33)} {
		other.Request = bad
		_, err = r.Hold(t.Context(), start, other)
		refused(t, err, depot.BadRequest)
	}
	r.asked = 2
	_, err = r.Renew(t.Context(), start, depot.Ask{Account: 2, Share: ids[0], Request: "two", Until: start.Add(11 * day)})
	r.ok(err)
	_, err = r.Renew(t.Context(), start, depot.Ask{Account: 2, Share: ids[0], Request: "three", Until: start.Add(12 * day)})
	if f := refused(t, err, depot.TooManyRequests); f.Retry != 10*day {
		t.Error(f)
	}
	_, err = r.Renew(t.Context(), start.Add(10*day), depot.Ask{Account: 2, Share: ids[0], Request: "three", Until: start.Add(12 * day)})
	r.ok(err)
	r.sums()
}

func TestLeasesBesideTheDataAreWrittenFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stable(ids[0])
	broken := &failing{}
	r.beside = broken
	_, err := r.Hold(t.Context(), start, r.ask(3, ids[0], 100))
	if !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	r.used(start, 3, 0) // not committed, and the database is as it was
	if err := r.Collect(t.Context(), start.Add(12*day), ids[0]); !errors.Is(err, errCrash) {
		t.Error("collected without knowing what the disk says:", err)
	}
	r.state(ids[0], depot.Stable)
}

// failing is a disk that fails.
type failing struct{}

func (failing) Write([]depot.Promised) error     { return errCrash }
func (failing) Grows(share.ID) bool              { return false }
func (failing) Last(share.ID) (time.Time, error) { return time.Time{}, errCrash }
func (failing) Promises(share.ID) ([]depot.Promise, error) {
	return nil, errCrash
}

func TestNamesMoveWhenTheNextIsHere(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	replace := func(expect, next, supersedes share.ID) error {
		t.Helper()
		_, err := r.Replace(t.Context(), start, depot.Replace{Ask: r.ask(2, next, 100), Name: "n", Expect: expect, Supersedes: supersedes})
		return err
	}
	names := func(want ...named) {
		t.Helper()
		if got, err := r.Names(t.Context(), start, 2); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatal(got, err, "want", want)
		}
	}
	none := share.ID{}
	r.ok(replace(none, ids[0], none))
	r.complete(ids[0])
	names(named{Name: "n", Share: ids[0], Coming: none})
	r.ok(replace(ids[0], ids[1], none))
	names(named{Name: "n", Share: ids[0], Coming: ids[1]})
	r.used(start, 2, 200) // both versions count
	if f := refused(t, replace(ids[0], ids[2], none), depot.NameMoved); f.Current != ids[0] || f.Coming != ids[1] {
		t.Error(f)
	}
	refused(t, replace(ids[1], ids[2], none), depot.NameMoved)
	r.ok(replace(ids[0], ids[2], ids[1])) // supersedes
	names(named{Name: "n", Share: ids[0], Coming: ids[2]})
	r.used(start, 2, 200)
	_, err := r.Release(t.Context(), start, r.ask(2, ids[2], 0)) // clears it
	r.ok(err)
	names(named{Name: "n", Share: ids[0], Coming: none})
	r.ok(replace(ids[0], ids[3], none))
	r.complete(ids[3])
	names(named{Name: "n", Share: ids[3], Coming: none})
	r.used(start, 2, 100) // and the old version's lease has ended
	r.ok(r.Collect(t.Context(), start, ids[0]))
	if f := refused(t, replace(none, ids[1], none), depot.NameMoved); f.Current != ids[3] || f.Coming != none {
		t.Error(f)
	}
	for _, at := range []time.Time{start, start.Add(depot.StrikeGap)} {
		_, err := r.Looked(t.Context(), start, at, ids[3], share.FullSet(pieces))
		r.ok(err)
	}
	r.ok(replace(ids[3], ids[3], none)) // it is the name's share already, and is not to come, not even when CORRUPT
	names(named{Name: "n", Share: ids[3], Coming: none})
}

func TestAccountsAndKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := t.Context()
	r.ok(r.AddKey(ctx, 2, "a"))
	r.ok(r.AddKey(ctx, 2, "b"))
	r.ok(r.MoveKey(ctx, "b", "c"))
	for name, got := range map[string]struct{ err, want error }{
		"key of two":         {r.AddKey(ctx, 3, "a"), depot.ErrTaken},
		"key of nobody":      {r.AddKey(ctx, 99, "z"), depot.ErrNoAccount},
		"key of the starter": {r.AddKey(ctx, depot.StarterAccount, "z"), depot.ErrNoAccount},
		"move to a taken":    {r.MoveKey(ctx, "a", "c"), depot.ErrTaken},
		"move of none":       {r.MoveKey(ctx, "b", "z"), depot.ErrNoKey},
		"remove of none":     {r.RemoveKey(ctx, "b"), depot.ErrNoKey},
		"set the starter":    {r.SetAccount(ctx, depot.StarterAccount, depot.Terms{Quota: 1, MaxLease: day}), depot.ErrNoAccount},
		"remove the starter": {r.RemoveAccount(ctx, start, depot.StarterAccount, false), depot.ErrNoAccount},
	} {
		if !errors.Is(got.err, got.want) {
			t.Errorf("%s: %v", name, got.err)
		}
	}
	if id, err := r.AccountOf(ctx, "c"); err != nil || id != 2 {
		t.Error(id, err)
	}
	if _, err := r.AddAccount(ctx, start, "p2", depot.Terms{Quota: 1, MaxLease: day}); !errors.Is(err, depot.ErrTaken) {
		t.Error(err)
	}
	for _, bad := range []depot.Terms{{Quota: -1, MaxLease: day}, {Quota: depot.MaxBytes + 1, MaxLease: day}, {Quota: 1, MaxLease: 0}, {Quota: 1, MaxLease: 4000 * day}} {
		if _, err := r.AddAccount(ctx, start, "bad", bad); err == nil {
			t.Error(bad)
		}
	}
	_, err := r.Hold(ctx, start, r.ask(depot.StarterAccount, ids[0], 1))
	refused(t, err, depot.BadRequest)
	_, err = r.Hold(ctx, start, r.ask(99, ids[0], 1))
	refused(t, err, depot.UnknownAccount)
	r.stable(ids[0])
	if err := r.RemoveAccount(ctx, start, 2, false); !errors.Is(err, depot.ErrInUse) {
		t.Error(err)
	}
	p := depot.Payment{Account: 2, Request: [16]byte{1}, Units: 64}
	_, _, err = r.Intend(ctx, start, p)
	r.ok(err)
	if err := r.RemoveAccount(ctx, start.Add(11*day), 2, false); !errors.Is(err, depot.ErrPaying) {
		t.Error(err)
	}
	r.ok(r.Deposit(ctx, start, p))
	if err := r.RemoveAccount(ctx, start.Add(11*day), 2, false); !errors.Is(err, depot.ErrCredit) {
		t.Error("64 passes that were paid are gone, and nobody was asked:", err)
	}
	r.ok(r.RemoveAccount(ctx, start.Add(11*day), 2, true))
	if _, err := r.AccountOf(ctx, "a"); !errors.Is(err, depot.ErrNoKey) {
		t.Error(err)
	}
	all, err := r.Accounts(ctx, start)
	if err != nil || len(all) != 2 || all[0].Name != "starter" || all[1].Name != "p3" || all[1].Terms != (depot.Terms{Quota: 1000, MaxLease: 31 * day}) || !all[1].Complete {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestTenReportsAndThePlaceAreKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok(r.SetPlace(t.Context(), "", []byte("here")))
	r.ok(r.SetClock(t.Context(), start, []byte("clock"), true))
	r.open()
	m, err := r.Meta(t.Context())
	if err != nil || string(m.Place) != "here" || string(m.Clock) != "clock" || !m.Frozen || !m.GC || !m.CompleteSince.Equal(start) {
		t.Errorf("%+v, %v", m, err)
	}
	for i := range 12 {
		r.ok(r.CycleDone(t.Context(), start.Add(day), "", depot.Cycle{Cycle: int64(i), Report: []byte(fmt.Sprint(i))}))
	}
	all, err := r.Crawls(t.Context())
	if err != nil || len(all) != 10 || all[0].Cycle != 11 || string(all[9].Report) != "2" {
		t.Error(all, err)
	}
	if m, err = r.Meta(t.Context()); err != nil || m.Place != nil || !m.CompleteSince.Equal(start) {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestListsAreOfLiveLeasesAndOfOneState(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, id := range ids[:3] {
		r.stable(id)
	}
	got, err := r.Holdings(t.Context(), start, 2, ids[0], 1)
	want := depot.Lease{Share: ids[1], Account: 2, Name: "p2", State: depot.Stable, Bytes: 100, Granted: start, Renewed: start, Expires: start.Add(10 * day)}
	if err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := r.Holdings(t.Context(), start.Add(10*day), 2, share.ID{}, 10); err != nil || len(got) != 0 {
		t.Error(got, err)
	}
	in, err := r.In(t.Context(), depot.Stable, ids[0], 1)
	if err != nil || len(in) != 1 || in[0] != (depot.Kept{Share: ids[1], State: depot.Stable, Bytes: 100, Since: start}) {
		t.Errorf("%+v, %v", in, err)
	}
	would, last, err := r.Candidates(t.Context(), start.Add(12*day), ids[0], 2)
	if err != nil || len(would) != 2 || last != ids[2] {
		t.Error(would, last, err)
	}
}

// The grace counts from the end of what has expired, whichever call removed the lease.
func TestGraceOutlivesTheLease(t *testing.T) {
	t.Parallel()
	end := start.Add(10 * day)
	for name, remove := range map[string]func(r *rig) error{
		"swept": func(r *rig) error {
			_, _, err := r.Sweep(t.Context(), end, 1)
			return err
		},
		"settled with its share": func(r *rig) error { return r.Mended(t.Context(), end, ids[0]) },
	} {
		r := newRig(t)
		r.stable(ids[0])
		for _, at := range []time.Time{start, start.Add(depot.StrikeGap)} {
			_, err := r.Looked(t.Context(), start, at, ids[0], share.FullSet(pieces))
			r.ok(err)
		}
		r.state(ids[0], depot.Corrupt) // gone whole: its lease stands
		r.used(start, 2, 100)
		clear(r.disk)
		r.ok(remove(r))
		r.used(start, 2, 0)
		if err := r.Collect(t.Context(), end.Add(depot.Grace-1), ids[0]); !errors.Is(err, depot.ErrKept) {
			t.Errorf("%s: %v", name, err)
		}
		r.ok(r.Collect(t.Context(), end.Add(depot.Grace), ids[0]))
	}
}

func TestShareHeldForItselfStaysWhenANameMoves(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stable(ids[0])
	_, err := r.Replace(t.Context(), start, depot.Replace{Ask: r.ask(2, ids[0], 100), Name: "n"})
	r.ok(err)
	_, err = r.Replace(t.Context(), start, depot.Replace{Ask: r.ask(2, ids[1], 100), Name: "n", Expect: ids[0]})
	r.ok(err)
	r.complete(ids[1])
	r.used(start, 2, 200)
	if err := r.Collect(t.Context(), start, ids[0]); !errors.Is(err, depot.ErrKept) {
		t.Error(err)
	}
}

func TestMissingPiecesAddUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stable(ids[0])
	for p := range share.Piece(2) {
		bad := share.NewSet(pieces)
		bad.Add(p)
		for look := range 2 {
			_, err := r.Looked(t.Context(), start, start.Add(time.Duration(look)*depot.StrikeGap), ids[0], bad)
			r.ok(err)
		}
		if missing, err := r.Missing(t.Context(), ids[0], pieces); err != nil || missing.Count() != int(p)+1 {
			t.Error(missing, err)
		}
	}
	r.state(ids[0], depot.Corrupt)
}

func TestDatabaseKnowsWhoseItIs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.ok(r.CycleDone(t.Context(), start, "", depot.Cycle{Cycle: 1}))
	r.ok(r.SetIdentity(t.Context(), "d", "s"))
	for _, err := range []error{r.CycleDone(t.Context(), start, "", depot.Cycle{Cycle: 2}), r.SetPlace(t.Context(), "", nil)} {
		if !errors.Is(err, depot.ErrAnew) { // the cycle began under another name
			t.Error(err)
		}
	}
	if m, err := r.Meta(t.Context()); err != nil || m.Depot != "d" || m.Self != "s" || !m.CompleteSince.IsZero() {
		t.Errorf("%+v, %v", m, err)
	}
	r.ok(r.AddKey(t.Context(), 2, "b"))
	r.ok(r.AddKey(t.Context(), 2, "a"))
	if keys, err := r.Keys(t.Context(), 2); err != nil || !slices.Equal(keys, []peers.ID{"a", "b"}) {
		t.Error(keys, err)
	}
	a, err := r.Info(t.Context(), start, 2)
	if err != nil || a.ID != 2 || a.Quota != 1000 {
		t.Errorf("%+v, %v", a, err)
	}
	if id, err := r.Named(t.Context(), a.Name); err != nil || id != 2 {
		t.Error(id, err)
	}
	if _, err := r.Named(t.Context(), "nobody"); !errors.Is(err, depot.ErrNoAccount) {
		t.Error(err)
	}
	if _, err := r.Info(t.Context(), start, 99); !errors.Is(err, depot.ErrNoAccount) {
		t.Error(err)
	}
}

// If a share disappeared with its manifest, one piece is found missing: earlier notes about
// its pieces are no error.
func TestDamageOfAnUnknownNumberOfPieces(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.stable(ids[0])
	at := start
	for _, n := range []int{40, 40, 1, 1, 40, 40} {
		_, err := r.Looked(t.Context(), start, at, ids[0], share.FullSet(n))
		r.ok(err)
		at = at.Add(depot.StrikeGap)
	}
	if m, err := r.Missing(t.Context(), ids[0], 40); err != nil || m.Count() != 40 {
		t.Error(m, err)
	}
	all, err := r.Shares(t.Context(), share.ID{}, 10)
	if err != nil || len(all) != 1 || all[0].State != depot.Corrupt || !all[0].Struck {
		t.Errorf("%+v, %v", all, err)
	}
}
