package daemon

import (
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/piecelease/fetcher/depot"
)

// bootID names the present boot of the system.
var bootID = sync.OnceValue(func() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
})

// reading returns what the system says about the time: CLOCK_BOOTTIME counts suspension too.
func reading() depot.Reading {
	r := depot.Reading{Boot: bootID(), Wall: time.Now().Round(0)}
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err == nil {
		r.Passed = time.Duration(ts.Nano())
	}
	var tx unix.Timex
	if state, err := unix.Adjtimex(&tx); err == nil {
		r.Synced = state != unix.TIME_ERROR
	}
	return r
}
