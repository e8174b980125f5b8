package purse

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/wire"
)

// Whoever redeems a voucher gets its passes, and hears how that went: not how it went with an order from before, which is over.
func TestAnOrderThatIsOverKeepsNoOtherUp(t *testing.T) {
	t.Parallel()
	for seed := range byte(4) { // orders are sent by ID: before the next one, or after it
		m := newMarket(t, rand.NewChaCha8([32]byte{seed}))
		ask, errAway := m.purse.cfg.Fresh, errors.New("away")
		m.purse.cfg.Fresh = func(ctx context.Context, at peers.Addr, q any) (any, error) {
			if _, ok := q.(wire.Redeem); ok {
				return nil, errAway
			}
			return ask(ctx, at, q)
		}
		first, err := m.issuer.Sell(3, now)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.purse.Redeem(t.Context(), seller, first, 3); !errors.Is(err, errAway) {
			t.Fatal(err)
		}
		other := newMarket(t, rand.NewChaCha8([32]byte{99})) // somebody else has the code, too
		other.issuer = m.issuer
		if err := other.purse.Redeem(t.Context(), seller, first, 3); err != nil {
			t.Fatal(err)
		}
		m.purse.cfg.Fresh = ask
		next, err := m.issuer.Sell(2, now)
		if err != nil {
			t.Fatal(err)
		}
		err = m.purse.Redeem(t.Context(), seller, next, 2)
		if units := m.wallet.Units(string(seller.ID), now); err != nil || units != 2 {
			t.Errorf("seed %d: a voucher that is good: %v; %d of its 2 passes are in the wallet", seed, err, units)
		}
	}
}
