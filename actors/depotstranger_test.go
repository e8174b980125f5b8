package actors

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
)

// A peer that got its account without the owner gets it again after the database was lost, or
// after a crash between its account and its key.
func TestAStrangerWithAnAccountAndNoKeyIsNotLockedOut(t *testing.T) {
	db := ledgerOf(t)
	d, now, peer := &depotActor{cfg: DepotConfig{Ledger: db, Open: &depot.Terms{Quota: 1000, MaxLease: time.Hour}}}, time.Unix(1e9, 0), peers.ID("peer")
	id := share.IDOf([]byte("x"))
	if _, err := db.Found(t.Context(), now, id, 100, true, []depot.Promise{{Account: string(peer), Expires: now.Add(time.Hour)}}); err != nil {
		t.Fatal(err)
	}
	a, err := d.account(t.Context(), now, peer, false)
	if err != nil {
		t.Fatal("it can never renew again:", err)
	}
	if held, err := db.Holdings(t.Context(), now, a, share.ID{}, 10); err != nil || len(held) != 1 {
		t.Error(held, err)
	}
	if i, err := db.Info(t.Context(), now, a); err != nil || i.Quota != 1000 {
		t.Error(i, err)
	}
}
