package daemon

import (
	"path/filepath"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/piecelease/fetcher/api"
)

// What one client changes of an entry while a removal of it by another fails, as that cannot be written, is changed: what is paused then is not served.
func TestWhatIsChangedWhileARemovalFailsStaysChanged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d := begun(t, dir)
	e := added(t, d, api.Add{Paths: []string{file(t, "one", t.TempDir(), "film")}})
	k, err := d.keeper(e.ID)
	must(t, err)
	execCatalog(t, dir, `CREATE TRIGGER full BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`)
	c, err := sqlite.OpenConn(filepath.Join(dir, "catalog.db"), sqlite.OpenReadWrite)
	must(t, err)
	defer c.Close()
	must(t, sqlitex.ExecuteTransient(c, `BEGIN IMMEDIATE`, nil)) // the disk is slow
	removed, changed := make(chan error, 1), make(chan error, 1)
	go func() { _, err := d.Remove(t.Context(), e.ID, false); removed <- err }()
	<-k.done
	time.Sleep(100 * time.Millisecond) // until the removal is to be written
	go func() { _, err := d.Set(t.Context(), e.ID, paused(true)); changed <- err }()
	for held := 0; held < 50; time.Sleep(time.Millisecond) { // until the change is to be written, too
		if held++; k.writing.TryLock() {
			k.writing.Unlock()
			held = 0
		}
	}
	must(t, sqlitex.ExecuteTransient(c, `ROLLBACK`, nil))
	if err := <-removed; err == nil {
		t.Fatal("it was removed, which could not be written")
	}
	must(t, <-changed)
	k, err = d.keeper(e.ID)
	must(t, err)
	must(t, k.settledIn(t.Context()))
	if now, err := d.db.Get(t.Context(), k.id); err != nil || !now.Paused || len(d.node.Shares()) > 0 {
		t.Errorf("in the catalog it is paused: %t; served: %d; %v", now.Paused, len(d.node.Shares()), err)
	}
}
