package daemon

import (
	"testing"

	"github.com/piecelease/fetcher"
	"github.com/piecelease/fetcher/peers"
	"github.com/piecelease/fetcher/renewal"
	"github.com/piecelease/fetcher/share"
)

// Only what depots keep for the fleet alone may be paid by another member: for what this node holds itself, at the same depot or at
// another, it is told what is missing.
func TestPassesForAnOwnLeaseAreMissingAlsoIfTheFleetKeepsTheShare(t *testing.T) {
	t.Parallel()
	x := share.IDOf([]byte("x"))
	want := func(id int64, fleet bool, at peers.ID) fetcher.Hold {
		return fetcher.Hold{ID: id, Share: x, Fleet: fleet, Depots: []peers.ID{at}, At: []peers.ID{at}}
	}
	own, fleets, both := want(1, false, "a"), want(2, true, "b"), want(3, true, "a")
	due := func(at peers.ID) renewal.Due {
		return renewal.Due{Key: renewal.Key{Depot: at, Share: x}, Units: 5}
	}
	for name, c := range map[string]struct {
		wants []fetcher.Hold
		due   renewal.Due
		ours  bool
	}{
		"own":                            {[]fetcher.Hold{own}, due("a"), true},
		"the fleet's":                    {[]fetcher.Hold{fleets}, due("b"), false},
		"own, and the fleet's elsewhere": {[]fetcher.Hold{own, fleets}, due("a"), true},
		"the fleet's, and own elsewhere": {[]fetcher.Hold{own, fleets}, due("b"), false},
		"own and the fleet's, the same":  {[]fetcher.Hold{own, both}, due("a"), true},
	} {
		if got := payable(fetcher.HoldList{Wants: c.wants, Dues: []renewal.Due{c.due}}, nil); (len(got) > 0) != c.ours {
			t.Errorf("%s: this node is to pay %+v", name, got)
		}
	}
}
