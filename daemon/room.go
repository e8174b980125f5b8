package daemon

import (
	"fmt"
	"path/filepath"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// LeastFree is how many bytes should be free on a disk that a node uses.
const LeastFree = 256 << 20

// nearlyFull says that few bytes are free on a disk; empty: enough are, or it is not known.
func nearlyFull(free int64) string {
	if free < 0 || free >= LeastFree {
		return ""
	}
	return fmt.Sprintf("only %s is free on the disk", share.Size(free))
}

// free returns the free bytes on the disk of a folder, or of the one in which it will be made;
// -1 if not known.
func free(dir string) int64 {
	for {
		if fsys, err := vfs.Dir(dir); err == nil {
			defer fsys.Close()
			if n, err := fsys.Free(); err == nil {
				return n
			}
			return -1
		}
		up := filepath.Dir(dir)
		if up == dir {
			return -1
		}
		dir = up
	}
}

// watchRoom logs that the disk that shares are put on has become nearly full, or is not any more,
// and returns which of the two.
func watchRoom(d *Daemon, was bool) (full bool) {
	into := d.setting().Into
	n := free(into)
	if full = nearlyFull(n) != ""; full && !was {
		d.log.Warn("the disk is nearly full", "dir", into, "free_bytes", n)
	} else if was && !full {
		d.log.Info("there is room on the disk again", "dir", into, "free_bytes", n)
	}
	return full
}
