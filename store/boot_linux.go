package store

import (
	"os"
	"strings"
	"sync"
)

// bootID names the present boot of the system.
var bootID = sync.OnceValue(func() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
})
