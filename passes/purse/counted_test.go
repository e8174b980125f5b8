package purse

import (
	"errors"
	"testing"

	"github.com/piecelease/fetcher/wire"
)

// A payment whose answer could not be written is sent again, and what it paid counts once: in the credit, and in the budget of the depot.
func TestAPaymentCountsOnceIfTheDiskFails(t *testing.T) {
	t.Parallel()
	for what, fails := range map[string]func(*kept){
		"not written":            func(k *kept) { k.before = errDisk },
		"written, and not known": func(k *kept) { k.after = errDisk },
	} {
		m, k := onDisk(t, 3)
		q := m.send(3)
		fails(k)
		counted, err := m.purse.Paid(t.Context(), seller.ID, wire.Paid{ID: q.ID})
		if !errors.Is(err, errDisk) {
			t.Fatal(what, err)
		}
		if again := m.send(0); len(again.Passes) > 0 {
			n, err := m.purse.Paid(t.Context(), seller.ID, wire.Paid{ID: again.ID})
			if err != nil || again.ID != q.ID {
				t.Fatal(what, again.ID, err)
			}
			counted += n
		}
		if counted != 3 {
			t.Errorf("%s: 3 units were paid, and %d count", what, counted)
		}
	}
}

func (m *market) send(units int64) wire.Pay {
	m.Helper()
	q, err := m.purse.Pay(m.Context(), seller, units)
	if err != nil {
		m.Fatal(err)
	}
	return q
}
