package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

func ctimeOf(fi fs.FileInfo) int64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return st.Ctim.Nano()
	}
	return 0
}

var syncFSTells = sync.OnceValue(func() bool {
	var u unix.Utsname
	return unix.Uname(&u) == nil && atLeast(unix.ByteSliceToString(u.Release[:]), 5, 8)
})

// atLeast says whether the release of a kernel, such as 6.1.0-13-amd64, is at least
// major.minor.
func atLeast(release string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(release, "%d.%d", &a, &b); n < 2 {
		return false
	}
	return a > major || a == major && b >= minor
}

func freeOn(f *os.File) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return 0, os.NewSyscallError("statfs", err)
	}
	return int64(st.Bavail) * st.Bsize, nil
}

// moveNoReplace is the atomic way; file systems without it say so.
func (d dirFS) moveNoReplace(from, to string) error {
	return d.withParents(from, to, func(a *os.File, from string, b *os.File, to string) error {
		err := unix.Renameat2(int(a.Fd()), from, int(b.Fd()), to, unix.RENAME_NOREPLACE)
		if err == unix.EINVAL || err == unix.ENOSYS || err == unix.ENOTSUP {
			return errors.ErrUnsupported
		}
		return err
	})
}
