package vfs

import "golang.org/x/sys/unix"

var _ interface{ BeginFlush() } = &file{}

// BeginFlush implements vfs.BeginFlush. Without a flag to wait, the call neither reports nor
// clears an error of an earlier write: the next Sync does.
func (f *file) BeginFlush() {
	f.use("sync_file_range", func(fd int) error { return unix.SyncFileRange(fd, 0, 0, unix.SYNC_FILE_RANGE_WRITE) })
}
