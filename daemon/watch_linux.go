package daemon

import "golang.org/x/sys/unix"

// folderOf returns which folder is at a path.
func folderOf(at string) (folderID, error) {
	var st unix.Stat_t
	err := unix.Stat(at, &st)
	return folderID{device: uint64(st.Dev), inode: st.Ino}, err
}
