package actors

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/leasedb"
	"github.com/piecelease/fetcher/share"
)

// A share that cannot be had, of which there are many, does not keep another from coming:
// whoever fails goes behind those that have waited longer.
func TestWhoeverWaitsLongestIsFetchedFirst(t *testing.T) {
	now := time.Unix(1e9, 0)
	d := &depotActor{arrivals: map[share.ID]*arrival{}}
	var first share.ID
	for i := range 50 {
		id := share.IDOf([]byte{byte(i)})
		d.arrivals[id] = &arrival{next: now.Add(-time.Minute)}
		first = id
	}
	d.arrivals[first].next = now.Add(-time.Hour)
	if id := d.waiting()[0]; id != first {
		t.Errorf("%v is fetched before %v, which waits longer", id, first)
	}
}

// readyKeep is a disk that is there.
type readyKeep struct{ Keep }

func (readyKeep) Ready(context.Context, Ledger) error { return nil }

func ledgerOf(t *testing.T) *leasedb.DB {
	t.Helper()
	db, _, err := leasedb.Open(t.Context(), filepath.Join(t.TempDir(), "leases.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// A share that was given up, as nobody held it, and was held again before it was removed,
// comes after all.
func TestAShareThatIsHeldAgainInTimeComes(t *testing.T) {
	db, now, id := ledgerOf(t), time.Unix(1e9, 0), share.IDOf([]byte("x"))
	a, err := db.AddAccount(t.Context(), now, "a", depot.Terms{Quota: 1 << 20, MaxLease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	hold := depot.Ask{Account: a, Request: "r", Share: id, Bytes: 5000, Until: now.Add(time.Hour), Space: depot.Space{Free: 1 << 30}}
	if _, err := db.Hold(t.Context(), now, hold); err != nil {
		t.Fatal(err)
	}
	at := &depotTimes{reading: func() depot.Reading { return depot.Reading{Boot: "1", Wall: now, Synced: true} }}
	r := &remover{db, readyKeep{}, at, &door{}, func(share.ID) { t.Error("it was withdrawn") }}
	notes, err := r.remove(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if len(notes) != 1 || !notes[0].held || notes[0].id != id || notes[0].state != depot.Coming {
		t.Errorf("nobody is told to fetch it: %+v", notes)
	}
}

// What the crawler saw for a ledger that is damaged by now does not make the next one
// complete: it knows nothing of it.
func TestACrawlEndsWithItsLedger(t *testing.T) {
	db := ledgerOf(t)
	at := &depotTimes{reading: func() depot.Reading { return depot.Reading{Boot: "1", Wall: time.Unix(1e9, 0), Synced: true} }}
	v := surveyor{l: db, t: at, door: &door{}}
	v.door.ledger.Add(1)
	if err := v.store(t.Context(), crawlPlace{}, true); !errors.Is(err, errAnew) {
		t.Error(err)
	}
	if m, err := db.Meta(t.Context()); err != nil || !m.CompleteSince.IsZero() || m.Place != nil {
		t.Errorf("%+v, %v", m, err)
	}
	v.of = v.door.ledger.Load()
	if err := v.store(t.Context(), crawlPlace{}, true); err != nil {
		t.Error(err)
	}
	if m, err := db.Meta(t.Context()); err != nil || m.CompleteSince.IsZero() {
		t.Errorf("%+v, %v", m, err)
	}
}
