package actors

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/leasedb"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// Strangers are admitted, and there is an end to them: a peer ID costs nothing.
func TestThereIsAnEndToStrangers(t *testing.T) {
	db, _, err := leasedb.Open(t.Context(), filepath.Join(t.TempDir(), "leases.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	d := &depotActor{cfg: DepotConfig{Ledger: db, Open: &depot.Terms{Quota: 1000, MaxLease: time.Hour}}}
	for i := range 2000 {
		if _, err := d.account(t.Context(), time.Unix(1e9, 0), peers.ID(fmt.Sprint("peer", i))); err != nil {
			return
		}
	}
	all, err := db.Accounts(t.Context(), time.Unix(1e9, 0))
	t.Errorf("%d accounts of strangers that hold nothing, %v", len(all), err)
}

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
