//go:build unix

package leasemgr

import (
	"syscall"
	"time"
)

// cpuTime is what this process has used, so that a benchmark on a busy machine
// tells what the code costs.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
