package daemon

import (
	"testing"

	"github.com/piecelease/fetcher/catalog"
)

// Of as many entries as a catalog takes, it is known where each stands in the queue: a list of them says it of each.
func TestWhereEachStandsInAFullQueueIsKnown(t *testing.T) {
	t.Parallel()
	q := newQueue(0)
	for i := range catalog.MaxEntries {
		q.enter(&waiting{id: catalog.ID(i)}, 0)
	}
	for i := range catalog.MaxEntries {
		if n, waits := q.before(catalog.ID(i)); n != i || !waits {
			t.Fatalf("%d are before entry %d", n, i)
		}
	}
}
