package actors

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/peers"
)

// A peer ID costs nothing, so a peer that only asks gets no account.
func TestStrangersThatHoldNothingGetNoAccount(t *testing.T) {
	db := ledgerOf(t)
	d := &depotActor{cfg: DepotConfig{Ledger: db, Open: &depot.Terms{Quota: 1000, MaxLease: time.Hour}}}
	for i := range 20 {
		var refused *depot.Refusal
		if _, err := d.account(t.Context(), time.Unix(1e9, 0), peers.ID(fmt.Sprint("peer", i)), false); !errors.As(err, &refused) || refused.Reason != depot.UnknownAccount {
			t.Errorf("%v", err)
		}
	}
	if all, err := db.Accounts(t.Context(), time.Unix(1e9, 0)); err != nil || len(all) != 1 { // the starter's
		t.Errorf("%d accounts, %v", len(all), err)
	}
}
