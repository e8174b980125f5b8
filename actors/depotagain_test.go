package actors

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/leasedb"
	"github.com/piecelease/fetcher/share"
)

// Shares that cannot be fetched, however many, do not keep another from being fetched: one
// that fails goes behind those that have waited longer.
func TestWhoeverWaitsLongestIsFetchedFirst(t *testing.T) {
	now := time.Unix(1e9, 0)
	d := &depotActor{arrivals: map[share.ID]*arrival{}}
	var first share.ID
	for i := range 50 {
		first = share.IDOf([]byte{byte(i)})
		d.rest(first, &arrival{running: true}, now.Add(-time.Minute))
	}
	d.waiting.set(first, now.Add(-time.Hour))
	if id, _, _ := d.waiting.first(); id != first {
		t.Errorf("%v is fetched before %v, which waits longer", id, first)
	}
}

// readyKeep is a disk that is mounted.
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

// If a share was given up because nobody held it, and was held again before it was removed,
// it is fetched after all.
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
	r := &remover{surveyor{l: db, keep: readyKeep{}, t: at}, &sync.Mutex{}, func(share.ID) { t.Error("it was withdrawn") }}
	notes, err := r.remove(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if len(notes) != 1 || !notes[0].held || notes[0].id != id || notes[0].state != depot.Coming {
		t.Errorf("nobody is told to fetch it: %+v", notes)
	}
}

// What the crawler saw for a ledger that has been found damaged does not make the next ledger
// complete, which knows nothing of it.
func TestACrawlEndsWithItsLedger(t *testing.T) {
	db := ledgerOf(t)
	at := &depotTimes{reading: func() depot.Reading { return depot.Reading{Boot: "1", Wall: time.Unix(1e9, 0), Synced: true} }}
	v := surveyor{l: db, t: at, of: &crawler{self: "before"}}
	if err := v.store(t.Context(), crawlPlace{}, true); !errors.Is(err, depot.ErrAnew) {
		t.Error(err)
	}
	if m, err := db.Meta(t.Context()); err != nil || !m.CompleteSince.IsZero() || m.Place != nil {
		t.Errorf("%+v, %v", m, err)
	}
	v.of = newCrawler(depot.Meta{})
	if err := v.store(t.Context(), crawlPlace{}, true); err != nil {
		t.Error(err)
	}
	if m, err := db.Meta(t.Context()); err != nil || m.CompleteSince.IsZero() {
		t.Errorf("%+v, %v", m, err)
	}
}

// Shares that are being fetched while others wait give way when their turn is over, each once.
func TestArrivalsTakeTurns(t *testing.T) {
	now := time.Unix(1e9, 0)
	d := &depotActor{arrivals: map[share.ID]*arrival{}}
	ids := []share.ID{share.IDOf([]byte("a")), share.IDOf([]byte("b"))}
	for i, id := range ids {
		d.arrivals[id] = &arrival{since: now.Add(time.Duration(i) * time.Minute)}
		d.running = append(d.running, id)
	}
	for _, x := range []struct {
		at   time.Duration
		over share.ID
		next time.Duration
	}{
		{arrivalTurn - 1, share.ID{}, arrivalTurn},
		{arrivalTurn, ids[0], 0},
		{arrivalTurn, share.ID{}, arrivalTurn + time.Minute},
		{arrivalTurn + time.Minute, ids[1], 0},
		{arrivalTurn + time.Minute, share.ID{}, arrivalTurn + time.Minute + everyHour},
	} {
		over, next := d.turn(now.Add(x.at))
		if over != x.over || x.over.IsZero() && !next.Equal(now.Add(x.next)) {
			t.Errorf("at %v: %v has to end, and then %v; want %v, %v", x.at, over, next.Sub(now), x.over, x.next)
		}
	}
}

// How much of the coming shares is on the disk is known without counting, whatever becomes of them.
func TestWhatIsHereOfArrivalsIsCounted(t *testing.T) {
	d := &depotActor{arrivals: map[share.ID]*arrival{}}
	a, b, c := share.IDOf([]byte("a")), share.IDOf([]byte("b")), share.IDOf([]byte("c"))
	for i, id := range []share.ID{a, b, c} {
		d.arrivals[id] = &arrival{running: true}
		d.heard(nil, arrivalEvent{id, Progress{Verified: int64(100 << i)}})
	}
	d.want(b, true) // what is repaired was booked before
	if d.here != 100+400 {
		t.Error(d.here)
	}
	d.forget(c, d.arrivals[c])
	if d.here != 100 {
		t.Error(d.here)
	}
}
