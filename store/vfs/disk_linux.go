package vfs

import (
	"encoding/binary"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// diskID names the file system of an open folder by what was written into it when it was made. Only of these is that known:
// others have none, or tell the number of their device, which is another one after the next boot.
func diskID(f *os.File) (id uint64) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return 0
	}
	switch int64(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC: // the first is that of ext2 and ext3 as well
		return uint64(uint32(st.Fsid.Val[0]))<<32 | uint64(uint32(st.Fsid.Val[1]))
	case unix.XFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.EROFS_SUPER_MAGIC_V1:
		return uuidOf(int(f.Fd()))
	}
	return 0
}

// uuidOf is the two halves of the UUID of the file system, one over the other; 0 before Linux 6.9.
func uuidOf(fd int) uint64 {
	const getFSUUID = 0x80111500 // FS_IOC_GETFSUUID
	var is [17]byte              // the length, and the UUID
	if _, _, err := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), getFSUUID, uintptr(unsafe.Pointer(&is))); err != 0 {
		return 0
	}
	return binary.LittleEndian.Uint64(is[1:]) ^ binary.LittleEndian.Uint64(is[9:])
}
