//go:build unix && !solaris && !illumos && !aix

package vfs

import (
	"os"

	"golang.org/x/sys/unix"
)

func flock(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) }

// unlockFile ends the lock of an open file, of which a process that is just being started may have a copy:
// it has one of each open file from fork to exec.
func unlockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }
