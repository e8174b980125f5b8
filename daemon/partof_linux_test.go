package daemon

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/piecelease/fetcher/api"
)

// What another entry serves stays, also if only a folder of it is mounted a second time, and served there, or above that.
func TestRemoveLeavesWhatASecondMountOfAPartServes(t *testing.T) {
	t.Parallel()
	_, ticket := photos(t)
	for how, c := range map[string]struct{ part, below string }{"a part": {"photos", ""}, "a part below": {"photos", "in"}, "it below": {"", "in"}} {
		b := begun(t, t.TempDir())
		got := until(t, b, added(t, b, api.Add{Ticket: ticket}).ID, "here", in(api.Served))
		again := t.TempDir()
		at := filepath.Dir(file(t, "x", again, c.below, "x"))
		if err := syscall.Mount(filepath.Join(got.Path, c.part), at, "", syscall.MS_BIND, ""); err != nil {
			t.Skip("NOT TESTED: a mount needs root:", err)
		}
		t.Cleanup(func() { syscall.Unmount(at, syscall.MNT_DETACH) })
		until(t, b, added(t, b, api.Add{Paths: []string{again}}).ID, "served", in(api.Served))
		r, err := b.Remove(t.Context(), got.ID, true)
		must(t, err)
		if same(t, filepath.Join(got.Path, "photos", "2"), "two"); !strings.Contains(r.Kept, "too") {
			t.Errorf("%s: removed: %v; %s", how, r.Data, r.Kept)
		}
	}
}
