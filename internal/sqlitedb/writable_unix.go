//go:build unix

package sqlitedb

import "golang.org/x/sys/unix"

// writable is why the file cannot be written, such as that its disk is mounted for reading. It does not open the file: to close
// it would end the locks of this process.
func writable(path string) error { return unix.Access(path, unix.W_OK) }
