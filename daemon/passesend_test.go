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
	stock := []purse.Stock{{Depot: at, Units: 9, Until: now.Add(day)}}
	if got := lacking(dues, stock); len(got) != 1 {
		t.Errorf("all passes end in a day, and %+v is due: %+v are missing", dues[0], got)
	}
}
