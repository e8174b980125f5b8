package actors

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/share"
)

// A share that cannot be had, of which there are many, does not keep another from coming:
// whoever fails goes behind those that have waited longer.
func TestWhoeverWaitsLongestIsFetchedFirst(t *testing.T) {
	now := time.Unix(1e9, 0)
	d := &depotActor{arrivals: map[share.ID]*arrival{}}
	var first share.ID
	for i := range 50 {
		id := share.IDOf([]byte{byte(i)})
		d.arrivals[id] = &arrival{next: now.Add(-time.Minute)}
		first = id
	}
	d.arrivals[first].next = now.Add(-time.Hour)
	if id := d.waiting()[0]; id != first {
		t.Errorf("%v is fetched before %v, which waits longer", id, first)
	}
}
