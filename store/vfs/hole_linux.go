package vfs

import "golang.org/x/sys/unix"

// Hole implements vfs.Hole. It moves the file's own position, which nothing here uses.
func (f osFile) Hole(off, n int64) bool {
	data, err := unix.Seek(int(f.Fd()), off, unix.SEEK_DATA)
	return err == unix.ENXIO || err == nil && data >= off+n
}
