package daemon

import (
	"testing"

	"github.com/piecelease/fetcher/api"
)

// While the catalog cannot be written, nothing is told of an entry that is as it was: a full disk and some thousand entries would fill the
// events every few seconds, and the log.
func TestWhatStillCannotBeWrittenIsNotToldAnew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := begun(t, dir)
	execCatalog(t, dir, `CREATE TRIGGER full BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`)
	e := added(t, d, api.Add{Paths: []string{file(t, "film", t.TempDir(), "film")}})
	until(t, d, e.ID, "served", in(api.Served))
	k, err := d.keeper(e.ID)
	must(t, err)
	must(t, k.settledIn(t.Context()))
	cursor, told := d.Feed().From(""), 0
	for range 10 {
		counted(d)
	}
	for ev, ok, _, _ := cursor.Next(); ok; ev, ok, _, _ = cursor.Next() {
		if ev.Entry != nil && ev.Entry.ID == e.ID {
			told++
		}
	}
	if told > 1 {
		t.Errorf("nothing has changed, and the entry was told of %d times", told)
	}
}
