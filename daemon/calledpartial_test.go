package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// A change in a folder that is only called like that of a fetch is noticed.
func TestAChangeInAFolderCalledPartialIsNoticed(t *testing.T) {
	rig.Slow(t)
	t.Parallel()
	for _, later := range []bool{false, true} {
		src := t.TempDir()
		file(t, "one", src, "f")
		if !later {
			file(t, "one", src, "mine.partial", "f")
		}
		d := begun(t, t.TempDir())
		e := added(t, d, api.Add{Paths: []string{src}})
		if d.watch == nil {
			t.Skip("this system does not tell of changes")
		}
		if later {
			must(t, os.Rename(filepath.Dir(file(t, "one", t.TempDir(), "mine.partial", "f")), filepath.Join(src, "mine.partial")))
		} else {
			file(t, "two", src, "mine.partial", "g")
		}
		until(t, d, e.ID, "a new version", func(x api.Entry) bool { return x.State == api.Served && x.Share != e.Share })
	}
}
