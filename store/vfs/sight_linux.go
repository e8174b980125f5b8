package vfs

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sight is what can be believed of files on the file system that a folder is on, and those below it that are on the same.
type sight struct {
	device uint64 // that names it; 0 if that is not known
	kind   kind
	blind  atomic.Bool // times do not show every change
}

func sightOf(root *os.Root) *sight {
	s := new(sight)
	f, err := root.OpenFile(".", onlyFolder, 0)
	if err != nil {
		return s
	}
	defer f.Close()
	if fi, err := f.Stat(); err == nil {
		s.device = Device(fi)
	}
	s.kind = kindOf(int(f.Fd()))
	s.blind.Store(s.kind == inMemory)
	return s
}

// below is the sight of a folder below, open as root, on which another file system may be mounted.
func (s *sight) below(fi fs.FileInfo, root *os.Root) *sight {
	if Device(fi) == s.device {
		return s
	}
	return sightOf(root)
}

func (s *sight) same(as *sight) bool { return s.device != 0 && s.device == as.device }

// of returns what can be believed of a file.
func (s *sight) of(i Info) Info {
	if s.kind == fat {
		i.Exec, i.NoExec = false, true
	}
	if s.blind.Load() {
		i = i.Unseen()
	}
	return i
}

// see learns from a file that can be written to, which is on the file system that an overlay keeps changes on.
func (s *sight) see(f *os.File) {
	if s.kind == overlay && again(func() error { return extents(int(f.Fd()), false) }) != nil {
		s.blind.Store(true)
	}
}

// kind is what a file system is, as far as that matters.
type kind int

const (
	onDisk   kind = iota
	inMemory      // changes through a mapping are never written out, and after the first one do not show in times
	overlay       // a file is on another one in truth, and so its times are what they are there
	fat           // no permissions: every file can be executed, or those with certain names
	fuse          // another program is behind it, which learns of changes through a mapping when they are written out, and sets the times then
)

func kindOf(fd int) kind {
	switch magicOf(fd) {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.HUGETLBFS_MAGIC:
		return inMemory
	case unix.OVERLAYFS_SUPER_MAGIC:
		return overlay
	case unix.MSDOS_SUPER_MAGIC, unix.EXFAT_SUPER_MAGIC:
		return fat
	case unix.FUSE_SUPER_MAGIC:
		return fuse
	}
	return onDisk
}

// magicOf is the number by which Linux names a kind of file system; 0 if it is not known.
func magicOf(fd int) int64 {
	var st unix.Statfs_t
	if err := again(func() error { return unix.Fstatfs(fd, &st) }); err != nil {
		return 0
	}
	return int64(st.Type)
}

// syncAll works where syncfs(2) is known to make everything durable, and on kernels that report when it failed. It does not
// reach a program that is behind a file system (FUSE), or another machine, and succeeds all the same; FAT leaves what it has written in the disk's own cache.
func (s *sight) syncAll(f *os.File) error {
	fd := int(f.Fd())
	switch magicOf(fd) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC:
	case unix.OVERLAYFS_SUPER_MAGIC: // a sync is passed on to the one below, which see has learned of
		if s.kind != overlay || s.blind.Load() {
			return errors.ErrUnsupported
		}
	default:
		return errors.ErrUnsupported
	}
	if !syncFSTells() {
		return errors.ErrUnsupported
	}
	return os.NewSyscallError("syncfs", unix.Syncfs(fd))
}

// Flush leaves the disk's own cache alone, which syncing each of many files would
// not. From then on Stat says whether the times of this file can be relied on.
func (f *file) Flush() error {
	return f.use("sync_file_range", func(fd int) error {
		switch kindOf(fd) {
		case inMemory:
			f.blind.Store(true)
			return nil
		case overlay:
			return f.flushBelow(fd)
		}
		err := unix.SyncFileRange(fd, 0, 0, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
		if err == unix.ENOSYS || err == unix.EINVAL || err == unix.ESPIPE {
			err = unix.Fsync(fd)
		}
		return err
	})
}

// flushBelow writes out a file that is on an overlay, which has no bytes of its own, so that to write out what it has does
// nothing. The question where the bytes lie on the disk is passed on to the file system that has them, and it writes them
// out for that; one that keeps them in memory knows no answer. fsync(2) is passed on as well, but not by an overlay that was
// mounted as volatile, and it waits for the disk's cache.
func (f *file) flushBelow(fd int) error {
	passed := syncFSTells() // since Linux 5.8, too
	switch err := extents(fd, passed); err {
	case nil:
	case unix.EOPNOTSUPP, unix.ENOTTY, unix.ENOSYS, unix.EINVAL, unix.EPERM:
		f.blind.Store(true)
		return nil
	default:
		return err
	}
	if !passed {
		return unix.Fsync(fd)
	}
	return nil
}

// extents asks where a file lies on the disk; see fiemap.rst of Linux. With flush it is written out before.
func extents(fd int, flush bool) error {
	const fiemap, sync = 0xc020660b, 1 // FS_IOC_FIEMAP, FIEMAP_FLAG_SYNC
	ask := struct {
		start, length          uint64
		flags, mapped, n, zero uint32
		first                  [7]uint64
	}{length: math.MaxUint64, n: 1}
	if flush {
		ask.flags = sync
	}
	if _, _, err := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), fiemap, uintptr(unsafe.Pointer(&ask))); err != 0 {
		return err
	}
	return nil
}
