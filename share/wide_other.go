//go:build !amd64

package share

import "lukechampine.com/blake3/guts"

const wide = false

func wideNode([]byte, uint64) guts.Node { panic("share: not on this processor") }
