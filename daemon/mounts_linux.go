package daemon

import (
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// isSubvolume reports whether a folder that seems to be on another disk than the one above, as each subvolume of Btrfs does, is on the same: nothing is
// mounted there. Linux says so since 5.8.
func isSubvolume(at string) bool {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, at, 0, 0, &st)
	return err == nil && st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 && st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0
}

// mountPoints returns the folders at which something is mounted: a disk, or a folder a second time.
func mountPoints() (out []string) {
	list, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	escaped := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(string(list)) {
		if f := strings.Fields(line); len(f) > 4 {
			out = append(out, escaped.Replace(f[4]))
		}
	}
	return out
}
