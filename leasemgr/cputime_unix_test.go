//go:build unix

package leasemgr

import (
	"syscall"
	"time"
)

// cpuTime is the processor time that this process has used, so that a benchmark on a
// busy machine shows what the code costs.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
