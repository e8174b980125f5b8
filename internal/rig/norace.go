//go:build !race

package rig

// Raced says that the race detector is on, which makes code ten times slower. It finds
// nothing in computations of one goroutine: tests do less of those then, and all of them
// without it.
const Raced = false
