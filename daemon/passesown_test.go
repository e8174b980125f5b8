package daemon

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/share"
)

// Only what depots keep for the fleet alone may be paid by another member: for what this node holds itself, at the same depot or at
// another, it is told what is missing.
func TestPassesForAnOwnLeaseAreMissingAlsoIfTheFleetKeepsTheShare(t *testing.T) {
	t.Parallel()
	now, x := time.Unix(1e9, 0), share.IDOf([]byte("x"))
	want := func(id int64, fleet bool, at peers.ID) renewal.Want {
		return renewal.Want{ID: id, Share: x, Bytes: 5 << 20, Fleet: fleet, Depots: []peers.ID{at}}
	}
	own, fleets, both := want(1, false, "a"), want(2, true, "b"), want(3, true, "a")
	for name, c := range map[string]struct {
		wants []renewal.Want
		ours  string // the depots that only this node pays
	}{
		"own":                            {[]renewal.Want{own}, "a"},
		"the fleet's":                    {[]renewal.Want{fleets}, ""},
		"own, and the fleet's elsewhere": {[]renewal.Want{own, fleets}, "a"},
		"own and the fleet's, the same":  {[]renewal.Want{own, both}, "a"},
	} {
		s := renewal.New(renewal.Config{}, 1)
		for _, w := range c.wants {
			s.Know(renewal.Account{Depot: w.Depots[0], Paid: true}, now)
			s.Want(w, now)
		}
		for _, at := range s.Due(now) {
			s.Visited(at, []renewal.Heard{{Share: x, State: renewal.Stable, Bytes: 5 << 20, Left: time.Hour}}, now)
		}
		got := ""
		for _, due := range payable(fetcher.HoldList{Dues: s.Dues(now, now)}, nil) {
			got += string(due.Depot)
		}
		if got != c.ours {
			t.Errorf("%s: this node is to pay at %q, not %q", name, got, c.ours)
		}
	}
}
