package vfs

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"

	"github.com/piecelease/fetcher/share"
)

// What opening might wait for is not among files here.
const (
	noWait     = 0
	onlyFolder = os.O_RDONLY
)

// Not in what a listing tells; size and time must do.
func Device(fs.FileInfo) uint64  { return 0 }
func inodeOf(fs.FileInfo) uint64 { return 0 }
func ctimeOf(fs.FileInfo) int64  { return 0 }
func linksOf(fs.FileInfo) int    { return 0 }
func roomOf(fs.FileInfo) int64   { return 0 }

func isFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL)
}

func freeOn(f *os.File) (int64, error) {
	name, err := windows.UTF16PtrFromString(f.Name())
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return 0, os.NewSyscallError("GetDiskFreeSpaceEx", err)
	}
	return int64(min(free, 1<<62)), nil
}

func (d dirFS) moveNoReplace(from, to string) error { return errors.ErrUnsupported }

func lockFile(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{})
	if err == windows.ERROR_LOCK_VIOLATION || err == windows.ERROR_IO_PENDING {
		return share.ErrHeld
	}
	return err
}

// unlockFile has nothing to do: no other process gets the handle, and the lock ends with it.
func unlockFile(*os.File) error { return nil }

// TooManyOpen says that the process has as many files open as it may.
func TooManyOpen(err error) bool { return errors.Is(err, windows.ERROR_TOO_MANY_OPEN_FILES) }

const errNotDir = windows.ERROR_DIRECTORY

// NotDir says whether an error means that something else than a folder is on the way.
func NotDir(err error) bool { return errors.Is(err, windows.ERROR_DIRECTORY) }

// OtherDisk says that something could not be moved because it would have to go to another file system.
func OtherDisk(err error) bool { return errors.Is(err, windows.ERROR_NOT_SAME_DEVICE) }

func flush(*os.File) error { return nil } // a sync wants more than reading
