package purse

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/piecelease/fetcher/depot"
	"github.com/piecelease/fetcher/passes"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// Passes that have ended by the clock of their depot, and not yet by that of the wallet, keep none back that are good.
func TestPassesThatHaveEndedAtTheDepotKeepNoOthersBack(t *testing.T) {
	t.Parallel()
	m := newMarket(t, rand.NewChaCha8([32]byte{8}))
	at, behind := now, time.Duration(0) // the depot's time, and by how much the wallet's is behind
	m.purse.cfg.Now = func() time.Time { return at.Add(-behind) }
	m.purse.cfg.Fresh = func(_ context.Context, to peers.Addr, q any) (any, error) {
		switch q := q.(type) {
		case wire.PassKeys:
			keys, err := m.issuer.Keys(at)
			return wire.PassKeyList{Keys: keys}, err
		case wire.Redeem:
			s, err := m.issuer.Redeem(q, at)
			return wire.Signed{Signed: s}, err
		}
		panic("another question")
	}
	m.purse.cfg.Known = m.purse.cfg.Fresh
	pay := func(units int64) (n int64) {
		q, err := m.purse.Pay(t.Context(), seller, share.ID{}, units, nil)
		if err != nil {
			t.Log(err)
			return 0
		}
		a := wire.Paid{ID: q.ID}
		if _, err := m.issuer.Spend(seller.ID, account, q, [16]byte(q.ID), units, at); err != nil {
			a.Refused = uint8(depot.BadPasses)
		}
		if _, n, err = m.purse.Paid(t.Context(), seller.ID, a); err != nil {
			t.Log(err)
			return 0
		}
		if err := m.purse.Counted(t.Context(), [][wire.PaymentID]byte{q.ID}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	end := passes.EpochAt(now).End()
	m.buy(2)
	at = end.Add(-time.Hour)
	m.buy(2) // of the next key
	if pay(1) != 1 {
		t.Fatal("nothing is paid")
	}
	at, behind = end.Add(20*24*time.Hour), 21*24*time.Hour
	for range 9 {
		if pay(2) == 2 {
			return
		}
	}
	t.Error("2 passes are good, and in nine visits nothing is paid")
}
