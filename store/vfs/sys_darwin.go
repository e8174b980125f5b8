package vfs

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func ctimeOf(fi fs.FileInfo) int64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return st.Ctimespec.Nano()
	}
	return 0
}

func freeOn(f *os.File) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return 0, os.NewSyscallError("statfs", err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

// moveNoReplace is the atomic way; file systems without it say so.
func (d dirFS) moveNoReplace(from, to string) error {
	return d.withParents(from, to, func(a *os.File, from string, b *os.File, to string) error {
		err := unix.RenameatxNp(int(a.Fd()), from, int(b.Fd()), to, unix.RENAME_EXCL)
		if err == unix.EINVAL || err == unix.ENOSYS || err == unix.ENOTSUP {
			return errors.ErrUnsupported
		}
		return err
	})
}

func flush(f *os.File) error { return unix.Fsync(int(f.Fd())) }
