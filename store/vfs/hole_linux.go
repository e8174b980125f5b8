package vfs

import "golang.org/x/sys/unix"

// Hole implements vfs.Hole. It moves the file's own position, which nothing here uses.
func (f *file) Hole(off, n int64) (hole bool) {
	f.use("lseek", func(fd int) error {
		data, err := unix.Seek(fd, off, unix.SEEK_DATA)
		hole = err == unix.ENXIO || err == nil && data >= off+n
		return nil
	})
	return hole
}
