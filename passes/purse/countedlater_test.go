package purse

import (
	"context"
	"errors"
	"testing"

	"github.com/piecelease/fetcher/passes"
	"github.com/piecelease/fetcher/wire"
)

// unread is a disk that cannot be read for a while, or by whoever has no time left.
type unread struct {
	disk
	fails *error
}

func (d unread) Wallet(ctx context.Context) (*passes.Wallet, error) {
	if *d.fails != nil {
		return nil, *d.fails
	}
	return d.disk.Wallet(ctx)
}

// A payment that was written counts, though the disk that does not say so can neither be read just then: it is not sent again, and so would never count.
func TestAPaymentCountsIfTheDiskFailsForAWhile(t *testing.T) {
	t.Parallel()
	m, k := onDisk(t, 3)
	var fails error
	m.purse.cfg.Store = unread{disk{k}, &fails}
	q := m.send(3)
	k.after, fails = errDisk, errDisk
	counted, err := m.purse.Paid(t.Context(), seller.ID, wire.Paid{ID: q.ID})
	if !errors.Is(err, errDisk) {
		t.Fatal(err)
	}
	fails = nil
	for range 2 { // the answer may come again, and the payment be sent again
		if n, err := m.purse.Paid(t.Context(), seller.ID, wire.Paid{ID: q.ID}); err == nil {
			counted += n
		}
		if again := m.send(0); len(again.Passes) > 0 {
			n, _ := m.purse.Paid(t.Context(), seller.ID, wire.Paid{ID: again.ID})
			counted += n
		}
	}
	if counted != 3 {
		t.Errorf("3 units were paid, and %d count", counted)
	}
}
