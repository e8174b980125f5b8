//go:build unix

package daemon

import "golang.org/x/sys/unix"

// ownersAlone sets the mode of a socket that is about to be bound.
func ownersAlone(fd uintptr) {
	unix.Fchmod(int(fd), 0o600) // fails on a system where an unbound socket has no mode
}
