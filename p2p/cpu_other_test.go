//go:build !unix

package p2p

import "time"

// cpu is not known on this system.
func cpu() time.Duration { return 0 }
