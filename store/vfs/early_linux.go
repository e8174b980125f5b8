package vfs

import "golang.org/x/sys/unix"

var _ interface{ BeginFlush() } = osFile{}

// BeginFlush implements vfs.BeginFlush. Without a flag to wait, the call neither reports nor
// clears an error of an earlier write: the next Sync does.
func (f osFile) BeginFlush() {
	unix.SyncFileRange(int(f.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WRITE)
}
