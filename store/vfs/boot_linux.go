package vfs

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// bootID names the present boot of the system and the present mount of what f
// lies on: a disk may be pulled out and put back without a boot.
func bootID(f *os.File) string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	for _, mask := range []int{unix.STATX_MNT_ID_UNIQUE, unix.STATX_MNT_ID} { // since Linux 6.8; before, IDs may be reused
		var st unix.Statx_t
		if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, mask, &st); err == nil && st.Mask&uint32(mask) != 0 {
			return fmt.Sprintf("%s/%d", strings.TrimSpace(string(b)), st.Mnt_id)
		}
	}
	return ""
}
