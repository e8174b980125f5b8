package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/api"
)

// A start that ended before all was looked at does not make the node forget that the whole was here.
func TestRemoveTakesTheWholeAfterAStartThatWasCutShort(t *testing.T) {
	t.Parallel()
	src := filepath.Join(t.TempDir(), "tree")
	file(t, "one", src, "docs", "1")
	file(t, "two", src, "photos", "2")
	adir := t.TempDir()
	a := begun(t, adir)
	ticket := added(t, a, api.Add{Paths: []string{src}}).Ticket
	dir, to := t.TempDir(), t.TempDir()
	b := begun(t, dir)
	got := until(t, b, added(t, b, api.Add{Ticket: ticket, Dir: to, Only: []string{"docs", "photos"}}).ID, "here", in(api.Served))
	must(t, a.Close())
	for range 2 {
		must(t, b.Close())
		b = begun(t, dir)
		until(t, b, got.ID, "looked at", func(e api.Entry) bool { return e.State != api.Waiting })
	}
	must(t, b.Close())
	begun(t, adir)
	b = begun(t, dir)
	until(t, b, got.ID, "here again", in(api.Served))
	r, err := b.Remove(t.Context(), got.ID, true)
	must(t, err)
	if _, err := os.Stat(filepath.Join(got.Path, "docs")); err == nil || strings.Contains(r.Kept, "before") {
		t.Errorf("removed: %v; %s", r.Data, r.Kept)
	}
}
