package purse

import (
	"math/rand/v2"
	"testing"

	"github.com/piecelease/fetcher/passes/issuer"
	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/storetest"
)

// An issuer that has lost its keys has others, and its book begins anew. A node that runs meanwhile redeems what it sells then, and
// pays with it, as one does that was started since.
func TestAnIssuerWithNewKeysIsPaid(t *testing.T) {
	t.Parallel()
	m, _ := onDisk(t, 3)
	m.pay(3)
	i, err := issuer.Open(storetest.New(1<<22).FS(), rand.NewChaCha8([32]byte{9}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { i.Close() })
	m.issuer = issuer.Counter{Issuer: i}
	v, err := i.Sell(2, now)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 { // the first may hear of the keys
		if err = m.purse.Redeem(t.Context(), seller, v, 2); err == nil {
			m.pay(2)
			return
		}
		m.purse.Pay(t.Context(), seller, share.ID{}, 2, nil) // the depot is visited
	}
	t.Errorf("a voucher of its new keys is not redeemed: %v", err)
}
