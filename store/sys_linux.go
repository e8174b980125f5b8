package store

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func syncFS(f *os.File) error {
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return os.NewSyscallError("syncfs", err)
	}
	return nil
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
