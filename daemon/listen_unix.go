//go:build unix

package daemon

import "golang.org/x/sys/unix"

// ownersAlone gives a socket that is to be bound a mode.
func ownersAlone(fd uintptr) {
	unix.Fchmod(int(fd), 0o600) // a system that knows no mode of it says so
}
