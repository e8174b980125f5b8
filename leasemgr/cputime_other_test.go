//go:build !unix

package leasemgr

import "time"

func cpuTime() time.Duration { return 0 }
