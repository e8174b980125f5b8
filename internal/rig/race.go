//go:build race

package rig

// Raced says that the race detector watches.
const Raced = true
