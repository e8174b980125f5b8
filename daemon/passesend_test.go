package daemon

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/passes/purse"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/share"
)

// Passes that end before a lease is renewed do not pay for that. What is missing then is said in time: a week before.
func TestPassesThatEndBeforeARenewalAreMissing(t *testing.T) {
	t.Parallel()
	const day, at = 24 * time.Hour, peers.ID("a")
	now, x := time.Unix(1e9, 0), share.IDOf([]byte("x"))
	s := renewal.New(renewal.Config{}, 1)
	s.Know(renewal.Account{Depot: at, Paid: true}, now)
	s.Want(renewal.Want{ID: 1, Share: x, Bytes: 5 << 20, Depots: []peers.ID{at}}, now)
	s.Due(now)
	s.Visited(at, []renewal.Heard{{Share: x, State: renewal.Stable, Bytes: 5 << 20, Left: 16 * day}}, now)
	dues := s.Dues(now.Add(7*day), now) // it is renewed in five days
	if len(dues) != 1 {
		t.Fatalf("%+v", dues)
	}
	for _, c := range []struct {
		stock   purse.Stock
		missing int64
	}{
		{purse.Stock{Units: 9, Until: now.Add(day)}, dues[0].Units},
		{purse.Stock{Units: 9, Until: now.Add(day), Later: 2}, dues[0].Units - 2},
		{purse.Stock{Units: 9, Until: now.Add(day), Later: 2, Ordered: 7}, 0},
		{purse.Stock{Units: 9, Until: now.Add(6 * day)}, 0},
	} {
		c.stock.Depot = at
		var missing int64
		for _, due := range lacking(dues, []purse.Stock{c.stock}) {
			missing += due.Units
		}
		if missing != c.missing {
			t.Errorf("with %+v, %d are missing, not %d", c.stock, missing, c.missing)
		}
	}
}
