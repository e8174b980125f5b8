package daemon

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/piecelease/fetcher/catalog"
	"github.com/piecelease/fetcher/internal/rig"
)

// A node has noted a subvolume as a disk that is mounted, under a Linux before 5.8 or before it knew better. It is still there: nothing is away.
func TestASubvolumeThatWasNotedAsADiskIsNoMissingDisk(t *testing.T) {
	t.Parallel()
	top := filepath.Join(rig.Btrfs(t), "served")
	file(t, "one", top, "one")
	must(t, exec.Command("btrfs", "subvolume", "create", filepath.Join(top, "work")).Run())
	file(t, "two", top, "work", "two")
	e := catalog.Entry{Kind: catalog.Serve, Wish: catalog.Wish{Paths: []string{top}}, Status: catalog.Status{Mounts: []string{filepath.Join(top, "work")}}}
	if err := notMounted(e); err != nil {
		t.Error(err)
	}
}
