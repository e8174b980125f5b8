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
	return mounted(t, 64<<20, []string{"mkntfs", "-q", "-F", "-Q"}, "ntfs-3g")
}

// ExFAT is NTFS with a file system that does not tell names of different case apart, and makes the numbers of inodes up. forget returns when
// a file that is not open has another number.
func ExFAT(t testing.TB) (at string, forget func(file string)) {
	t.Helper()
	at = mounted(t, 64<<20, []string{"mkfs.exfat"}, "mount", "-t", "exfat-fuse", "-o", "loop")
	inode := func(file string) uint64 {
		t.Helper()
		var st syscall.Stat_t
		if err := syscall.Stat(file, &st); err != nil {
			t.Fatal(err)
		}
		return st.Ino
	}
	return at, func(file string) {
		t.Helper()
		was := inode(file)
		for tries := 0; inode(file) == was; tries++ { // it may not be quite closed yet
			if tries == 10_000 {
				t.Fatalf("%s has the same inode still", file)
			}
			if err := syscall.Mount("", at, "", syscall.MS_REMOUNT|syscall.MS_NOSUID|syscall.MS_NODEV, ""); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Btrfs mounts one for the rest of the test, and returns where. It needs root and the tools of Btrfs.
func Btrfs(t testing.TB) string {
	t.Helper()
	return mounted(t, 160<<20, []string{"mkfs.btrfs", "-q"}, "mount", "-o", "loop")
}

// mounted makes an image of some bytes a file system with one command, and mounts it with another.
func mounted(t testing.TB, size int64, mk []string, mount ...string) string {
	t.Helper()
	Slow(t)
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: a mount needs root")
	}
	at, image := t.TempDir(), filepath.Join(t.TempDir(), "image")
	run := func(args ...string) {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		if err != nil {
			t.Skipf("NOT TESTED: %s: %v: %s", args[0], err, out)
		}
	}
	err := os.WriteFile(image, nil, 0o600)
	if err == nil {
		err = os.Truncate(image, size)
	}
	if err != nil {
		t.Fatal(err)
	}
	run(append(mk, image)...)
	run(append(mount, image, at)...)
	t.Cleanup(func() { syscall.Unmount(at, syscall.MNT_DETACH) })
	return at
}
