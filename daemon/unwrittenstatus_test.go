package daemon

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/api"
)

// While the catalog cannot be written, as its disk is full, the status says so: what became of the entries would be forgotten by a restart.
func TestTheStatusSaysThatTheCatalogIsNotWritten(t *testing.T) {
	t.Parallel()
	at := file(t, "one", t.TempDir(), "tree", "1")
	dir := t.TempDir()
	d := begun(t, dir)
	e := added(t, d, api.Add{Paths: []string{filepath.Dir(at)}})
	execCatalog(t, dir, `CREATE TRIGGER full BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`)
	file(t, "two", at)
	until(t, d, e.ID, "served anew", func(x api.Entry) bool { return x.State == api.Served && x.Share != e.Share })
	s, err := d.Status(t.Context())
	must(t, err)
	if !slices.ContainsFunc(s.Warnings, func(w string) bool { return strings.Contains(w, "catalog") }) {
		t.Errorf("its warnings: %q", s.Warnings)
	}
}
