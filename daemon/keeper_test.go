package daemon

import (
	"sync"
	"testing"

	"github.com/piecelease/fetcher/api"
)

// What is published last of an entry is how it stands, whoever publishes it and when:
// who follows the events is never left with what was.
func TestTheLastEventIsTheLatest(t *testing.T) {
	d := begun(t, t.TempDir())
	k := &keeper{d: d, id: 7}
	for i := range 3000 {
		cursor := d.Feed().From("")
		var all sync.WaitGroup
		for range 8 {
			all.Go(k.tell)
		}
		all.Go(func() { k.show([]string{api.Fetching, api.Paused}[i%2], "") })
		all.Wait()
		var last api.Event
		for e, ok, _, _ := cursor.Next(); ok; e, ok, _, _ = cursor.Next() {
			last = e
		}
		if want := k.view().State; last.Entry == nil || last.Entry.State != want {
			t.Fatalf("the last event says %+v, and it is %s", last.Entry, want)
		}
	}
}
