//go:build !linux

package vfs

import "os"

// bootID is not known here: after a crash the durable bits alone are believed.
func bootID(*os.File) string { return "" }
