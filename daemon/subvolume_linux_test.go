package daemon

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/api"
	"github.com/piecelease/fetcher/internal/rig"
)

// A subvolume of Btrfs has a device number of its own, and is a folder like others: nothing was mounted there, and once it is removed that is a new version.
func TestASubvolumeThatWasRemovedIsNoMissingDisk(t *testing.T) {
	t.Parallel()
	top := filepath.Join(rig.Btrfs(t), "served")
	file(t, "one", top, "one")
	must(t, exec.Command("btrfs", "subvolume", "create", filepath.Join(top, "work")).Run())
	file(t, "two", top, "work", "two")
	d := begun(t, t.TempDir())
	e := added(t, d, api.Add{Paths: []string{top}})
	must(t, os.RemoveAll(filepath.Join(top, "work")))
	set(t, d, e.ID, api.Set{Rescan: true})
	v := until(t, d, e.ID, "looked at", func(v api.Entry) bool { return v.State == api.Missing || v.State == api.Served && v.Share != e.Share })
	if v.State != api.Served {
		t.Errorf("%s: %s", v.State, v.Reason)
	}
}
