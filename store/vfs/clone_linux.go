package vfs

import (
	"errors"

	"golang.org/x/sys/unix"
)

// CloneRange is FICLONERANGE; see ioctl_ficlonerange(2).
func (f *file) CloneRange(off int64, from File, fromOff, n int64) error {
	src, ok := from.(*file)
	if !ok {
		return errors.ErrUnsupported
	}
	return f.use("ficlonerange", func(fd int) error {
		return src.use("ficlonerange", func(from int) error {
			err := unix.IoctlFileCloneRange(fd, &unix.FileCloneRange{
				Src_fd: int64(from), Src_offset: uint64(fromOff), Src_length: uint64(n), Dest_offset: uint64(off),
			})
			switch err {
			case unix.EINVAL, unix.EOPNOTSUPP, unix.ENOTTY, unix.EXDEV, unix.ENOSYS, unix.EPERM, unix.ETXTBSY:
				return errors.ErrUnsupported
			}
			return err
		})
	})
}
