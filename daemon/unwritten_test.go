package daemon

import (
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/api"
)

// What became of an entry while the catalog could not be written, as on a disk that was full for a moment, is still so once its owner has
// asked for something else.
func TestWhatWasNotWrittenIsNotForgottenByTheNextRequest(t *testing.T) {
	t.Parallel()
	up := int64(1 << 20)
	full := func(dir string, on bool) {
		query := `DROP TRIGGER full`
		if on {
			query = `CREATE TRIGGER full BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`
		}
		execCatalog(t, dir, query)
	}
	src, adir := t.TempDir(), t.TempDir()
	at := file(t, "one", src, "tree", "1")
	a := begun(t, adir)
	e := added(t, a, api.Add{Paths: []string{filepath.Dir(at)}})
	dir := t.TempDir()
	b := begun(t, dir)
	full(dir, true)
	got := until(t, b, added(t, b, api.Add{Ticket: e.Ticket, Dir: t.TempDir()}).ID, "here", in(api.Served))
	full(dir, false)
	if is := set(t, b, got.ID, api.Set{LimitUp: &up}); is.State != api.Served {
		t.Errorf("what was fetched and is served is %q (%s) once a limit of it was set", is.State, is.Reason)
	}
	full(adir, true)
	file(t, "two", src, "tree", "1")
	later := until(t, a, e.ID, "served anew", func(x api.Entry) bool { return x.State == api.Served && x.Share != e.Share })
	full(adir, false)
	if is := set(t, a, e.ID, api.Set{LimitUp: &up}); is.Share != later.Share {
		t.Errorf("the node serves %s, and says that it serves %s", later.Share, is.Share)
	}
}
