package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/catalog"
)

// A change beside a served path, in the same folder, is no reason to read it again.
func TestOnlyWhatIsServedIsWatched(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	served := filepath.Dir(file(t, "x", dir, "served", "f"))
	told := false
	h := &watch{changed: func(catalog.ID, bool) { told = true }, dirs: map[string]map[catalog.ID]bool{}, paths: map[catalog.ID][]string{7: {served}}}
	for _, at := range []string{dir, served} {
		h.dirs[at] = map[catalog.ID]bool{7: true}
	}
	must(t, os.MkdirAll(filepath.Join(served, "a.partial"), 0o700))
	file(t, "x", served, "b.partial")
	for name, want := range map[string]bool{filepath.Join(served, "a.partial"): false, filepath.Join(served, "b.partial"): true, "": true, dir: true, served: true, filepath.Join(served, "f"): true, filepath.Join(served, "new"): true,
		filepath.Join(dir, "other"): false, filepath.Join(dir, "served-too"): false, filepath.Join(dir, "serv"): false} {
		told = false
		h.tell(name, false)
		if told != want {
			t.Errorf("%q: told: %v", name, told)
		}
	}
}
