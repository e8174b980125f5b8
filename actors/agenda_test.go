package actors

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/piecelease/fetcher/share"
)

// Whatever is set and dropped, the first entry is the one that a search through all of them finds.
func TestTheFirstOfAnAgendaIsTheEarliest(t *testing.T) {
	rng, now := rand.New(rand.NewPCG(1, 2)), time.Unix(1e9, 0)
	var a agenda
	all := map[share.ID]time.Time{}
	for range 5000 {
		id := share.IDOf([]byte{byte(rng.IntN(100))})
		if rng.IntN(3) == 0 {
			a.drop(id)
			delete(all, id)
		} else {
			at := now.Add(time.Duration(rng.IntN(20)) * time.Second)
			a.set(id, at)
			all[id] = at
		}
		ids := sortedShares(all)
		slices.SortStableFunc(ids, func(x, y share.ID) int { return all[x].Compare(all[y]) })
		id, at, ok := a.first()
		if ok != (len(ids) > 0) || ok && (id != ids[0] || !at.Equal(all[ids[0]])) {
			t.Fatalf("%v at %v, %v; want the first of %d", id, at, ok, len(ids))
		}
	}
}
