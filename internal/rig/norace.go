//go:build !race

package rig

// Raced says that the race detector watches, which makes code ten times slower. What
// computes in one goroutine has nothing for it: tests do less of that then, and all of
// it without.
const Raced = false
