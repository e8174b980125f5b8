package purse

import (
	"errors"
	"testing"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/wire"
)

// A payment is sent again, for the lease for which it was begun, until it is counted; then no more, also if the disk fails before its
// passes are dropped.
func TestAPaymentIsSentUntilItIsCounted(t *testing.T) {
	t.Parallel()
	for what, fails := range map[string]func(*kept){
		"not written":            func(k *kept) { k.before = errDisk },
		"written, and not known": func(k *kept) { k.after = errDisk },
	} {
		m, k := onDisk(t, 3)
		x, payments := share.IDOf([]byte("x")), map[[wire.PaymentID]byte]bool{}
		for _, lease := range []share.ID{x, share.IDOf([]byte("y"))} {
			q, err := m.purse.Pay(t.Context(), seller, lease, 3, nil)
			if err != nil {
				t.Fatal(what, err)
			}
			payments[q.ID] = true
			if of, n, err := m.purse.Paid(t.Context(), seller.ID, wire.Paid{ID: q.ID}); of != x || n != 3 || err != nil || len(payments) > 1 {
				t.Fatalf("%s: %d units were paid for %v, %v", what, n, of, err)
			}
			m.purse.wallet = nil // as after a restart
		}
		var counted [][wire.PaymentID]byte
		for id := range payments {
			counted = append(counted, id)
		}
		fails(k)
		if err := m.purse.Counted(t.Context(), counted); !errors.Is(err, errDisk) {
			t.Fatal(what, err)
		}
		if q, err := m.purse.Pay(t.Context(), seller, x, 0, counted); err != nil || len(q.Passes) > 0 {
			t.Errorf("%s: it is counted, and sent again, %v", what, err)
		}
		if err := m.purse.Counted(t.Context(), counted); err != nil || len(k.All()) > 0 {
			t.Errorf("%s: %d passes are left, %v", what, len(k.All()), err)
		}
	}
}
