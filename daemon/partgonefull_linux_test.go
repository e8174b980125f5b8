package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/piecelease/fetcher/api"
)

// What is gone of a part of a share is missing also where there would be no room for it: it is not to be fetched.
func TestWhatIsGoneOfAPartIsMissingAlsoOnAFullDisk(t *testing.T) {
	t.Parallel()
	src, to, dir := t.TempDir(), t.TempDir(), t.TempDir()
	mount(t, to, "film")
	for _, n := range []string{"1", "2", "3"} {
		file(t, strings.Repeat(n, 300_000), src, "tree", n)
	}
	served := added(t, begun(t, t.TempDir()), api.Add{Paths: []string{filepath.Join(src, "tree")}})
	d := begun(t, dir)
	e := until(t, d, added(t, d, api.Add{Ticket: served.Ticket, Dir: to, Only: []string{"1", "2"}}).ID, "here", in(api.Served))
	must(t, d.Close())
	must(t, os.Remove(filepath.Join(e.Path, "2")))
	file(t, strings.Repeat("x", 500_000), to, "another")
	d = begun(t, dir)
	until(t, d, e.ID, "missing", in(api.Missing))
}
