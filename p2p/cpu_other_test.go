//go:build !unix

package p2p

import "time"

// cpu is not known here.
func cpu() time.Duration { return 0 }
