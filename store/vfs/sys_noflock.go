//go:build solaris || illumos || aix

package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

// flock is a record lock here: it does not keep two users in one process apart.
func flock(fd int) error {
	l := unix.Flock_t{Type: unix.F_WRLCK}
	err := unix.FcntlFlock(uintptr(fd), unix.F_SETLK, &l)
	if err == unix.EACCES {
		err = unix.EAGAIN
	}
	return err
}

// unlockFile has nothing to do: the lock is this process's alone, and ends when the file is closed.
func unlockFile(*os.File) error { return nil }
