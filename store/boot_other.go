//go:build !linux

package store

// bootID is not known here: after a crash the durable bits alone are believed.
func bootID() string { return "" }
