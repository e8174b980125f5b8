//go:build unix

package vfs

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/piecelease/fetcher/share"
)

const (
	noWait     = unix.O_NONBLOCK // to open a named pipe waits for nobody
	onlyFolder = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_DIRECTORY
)

// Device names the file system that a file or folder is on; 0 if that is not known.
func Device(fi fs.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Dev)
	}
	return 0
}

func inodeOf(fi fs.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino)
	}
	return 0
}

func linksOf(fi fs.FileInfo) int {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return int(st.Nlink)
	}
	return 0
}

func roomOf(fi fs.FileInfo) int64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return int64(st.Blocks) * 512
	}
	return 0
}

func isFull(err error) bool { return errors.Is(err, unix.EDQUOT) }

// lockFile takes an advisory lock that ends with the open file, or with unlockFile.
func lockFile(f *os.File) error {
	for {
		switch err := flock(int(f.Fd())); err {
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			return share.ErrHeld
		default:
			return err
		}
	}
}

// TooManyOpen says that the process, or the machine, has as many files open as it may.
func TooManyOpen(err error) bool { return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) }

const errNotDir = unix.ENOTDIR

// NotDir says whether an error means that something else than a folder is on the way.
func NotDir(err error) bool { return errors.Is(err, unix.ENOTDIR) }

// OtherDisk says that something could not be moved because it would have to go to another file system.
func OtherDisk(err error) bool { return errors.Is(err, unix.EXDEV) }
