package daemon

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/catalog"
)

// Of as many entries as a catalog takes, where each stands in the queue is known in a moment: a list of them says it of each.
func TestWhereEachStandsInAFullQueueIsKnownInAMoment(t *testing.T) {
	t.Parallel()
	q := newQueue(0)
	for i := range catalog.MaxEntries {
		q.enter(&waiting{id: catalog.ID(i)}, 0)
	}
	began := time.Now()
	for i := range catalog.MaxEntries {
		if n, waits := q.before(catalog.ID(i)); n != i || !waits {
			t.Fatalf("%d are before entry %d", n, i)
		}
		if took := time.Since(began); took > time.Second {
			t.Fatalf("of %d entries it took %v", i+1, took)
		}
	}
}
