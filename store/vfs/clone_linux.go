package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// CloneRange is FICLONERANGE; see ioctl_ficlonerange(2).
func (f osFile) CloneRange(off int64, from File, fromOff, n int64) error {
	src, ok := from.(osFile)
	if !ok {
		return errors.ErrUnsupported
	}
	err := unix.IoctlFileCloneRange(int(f.Fd()), &unix.FileCloneRange{
		Src_fd: int64(src.Fd()), Src_offset: uint64(fromOff), Src_length: uint64(n), Dest_offset: uint64(off),
	})
	switch err {
	case nil:
		return nil
	case unix.EINVAL, unix.EOPNOTSUPP, unix.ENOTTY, unix.EXDEV, unix.ENOSYS, unix.EPERM, unix.ETXTBSY:
		return errors.ErrUnsupported
	}
	return full(os.NewSyscallError("ficlonerange", err))
}
