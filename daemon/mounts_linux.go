package daemon

import (
	"os"
	"strings"
)

// mountsBelow returns the folders below a path at which something is mounted: a disk, or a folder a second time.
func mountsBelow(top string) (out []string) {
	list, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	escaped := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(string(list)) {
		if f := strings.Fields(line); len(f) > 4 {
			if at := escaped.Replace(f[4]); at != top && within(at, top) {
				out = append(out, at)
			}
		}
	}
	return out
}
