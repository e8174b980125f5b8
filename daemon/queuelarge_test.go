package daemon

import (
	"testing"
	"time"

	"github.com/piecelease/fetcher/catalog"
)

// Of as many entries as a catalog takes, where each stands in the queue is known in a moment: a list of them says it of each.
func TestWhereEachStandsInAFullQueueIsKnownInAMoment(t *testing.T) {
	t.Parallel()
	q := newQueue(1)
	for i := range catalog.MaxEntries {
		q.waits = append(q.waits, &waiting{catalog.ID(i), 0, make(chan struct{})})
	}
	began := time.Now()
	for i := 0; i < catalog.MaxEntries; i += 20 { // of a twentieth, which is enough to see it
		if n, waits := q.before(catalog.ID(i)); n != i || !waits {
			t.Fatalf("%d are before entry %d", n, i)
		}
		if took := time.Since(began); took > time.Second {
			t.Fatalf("of %d entries it took %v", i/20+1, took)
		}
	}
}
