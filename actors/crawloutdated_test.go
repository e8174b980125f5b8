package actors

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/leasedb"
	"github.com/piecelease/fetcher/share"
)

// promisedLater is a disk on which each share has a lease once it ends at some time, and on which a look fails while it has an error.
type promisedLater struct {
	readyKeep
	ends time.Time
	err  error
}

func (*promisedLater) Write([]depot.Promised) error             { return nil }
func (*promisedLater) Grows(share.ID) bool                      { return false }
func (p *promisedLater) Last(share.ID) (time.Time, error)       { return p.ends, nil }
func (*promisedLater) Withdraw(share.ID) bool                   { return false }
func (p *promisedLater) Look(id share.ID) (depot.OnDisk, error) { return depot.OnDisk{}, p.err }
func (p *promisedLater) Promises(share.ID) ([]depot.Promise, error) {
	return []depot.Promise{{Account: "a", Expires: p.ends}}, nil
}

// A share was to be removed, and its leases on the disk are newer than the database: it is looked at, and entered, at once. If that fails, or the depot is
// stopped before it, it stays what is to be removed, so that it is tried again with that, and is not forgotten till the crawler comes to it.
func TestWhatTheLedgerIsOlderThanIsEnteredInsteadOfRemoved(t *testing.T) {
	_, nodes, _ := newWorld(1, "self")
	now, id := time.Unix(1e9, 0), share.IDOf([]byte("x"))
	disk := &promisedLater{err: errors.New("an input/output error")}
	db, _, err := leasedb.Open(t.Context(), filepath.Join(t.TempDir(), "leases.db"), disk)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	a, err := db.AddAccount(t.Context(), now, "a", depot.Terms{Quota: 1 << 20, MaxLease: 48 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	ask := depot.Ask{Account: a, Request: "r", Share: id, Bytes: 5000, Until: now.Add(time.Hour), Space: depot.Space{Free: 1 << 30}}
	_, err = db.Hold(t.Context(), now, ask)
	ask.Request = "s"
	_, err2 := db.Release(t.Context(), now, ask)
	if err := errors.Join(err, err2, db.CycleDone(t.Context(), now, "", depot.Cycle{Cycle: 1, Report: []byte("{}")}), db.SetGC(t.Context(), true), db.Collect(t.Context(), now, id)); err != nil {
		t.Fatal(err)
	}
	disk.ends = now.Add(time.Hour)
	at := &depotTimes{reading: func() depot.Reading { return depot.Reading{Boot: "1", Wall: now, Synced: true} }}
	for _, want := range []depot.State{depot.Going, depot.Coming} { // as it has no manifest
		r := &remover{surveyor{l: db, keep: disk, t: at, s: nodes[0]}, &sync.Mutex{}, nil}
		notes, err := r.remove(t.Context(), id)
		if err != nil || len(notes) != 1 || notes[0].found == nil || notes[0].found.state != want {
			t.Fatalf("%+v, %v", notes, err)
		}
		if k, err := db.Share(t.Context(), id); err != nil || k.State != want {
			t.Errorf("it is %v, not %v; %v", k.State, want, err)
		}
		disk.err = nil
	}
	if all, err := db.Leases(t.Context(), now, id); err != nil || len(all) != 2 { // that of the starter account, too
		t.Errorf("%+v, %v", all, err)
	}
	closeNode(t, nodes[0])
}
