//go:build race

package rig

// Raced says that the race detector is on.
const Raced = true
