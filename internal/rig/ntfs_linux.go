package rig

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// NTFS mounts a file system that another program is behind (FUSE), and that keeps no permissions, for the rest of the test, and returns
// where. It needs root and NTFS-3G.
func NTFS(t testing.TB) string {
	t.Helper()
	at, image := t.TempDir(), filepath.Join(t.TempDir(), "image")
	err := os.WriteFile(image, nil, 0o600)
	if err == nil {
		err = os.Truncate(image, 64<<20)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"mkntfs", "-q", "-F", "-Q", image}, {"ntfs-3g", image, at}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Skipf("NOT TESTED: %s: %v: %s", args[0], err, out)
		}
	}
	t.Cleanup(func() { syscall.Unmount(at, syscall.MNT_DETACH) })
	return at
}
