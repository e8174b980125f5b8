package store_test

import (
	"os"
	"syscall"
	"testing"

	testrig "github.com/piecelease/fetcher/internal/rig"
	"github.com/piecelease/fetcher/store"
)

// mount puts another disk at dir, for the rest of the test. It needs root.
func mount(t *testing.T, dir string) {
	t.Helper()
	if err := syscall.Mount("fetcher", dir, "tmpfs", 0, "size=32m"); err != nil {
		t.Skip("NOT TESTED: a mount needs root:", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error("unmount:", err)
		}
	})
}

func TestARealMountPointBelowTheTarget(t *testing.T) {
	testrig.Slow(t)
	x := damaged(t)
	mount(t, x.path("sub"))
	x.write("sub/big", "wrong")
	x.must(os.Symlink("elsewhere", x.path("sub/link")))
	if fetched, replaced := x.repair(store.PartialOptions{}); fetched != 6 || len(replaced) != 2 {
		t.Errorf("fetched %d pieces, replaced %q", fetched, replaced)
	}
	x.check()
}
