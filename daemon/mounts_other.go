//go:build !linux

package daemon

// mountsBelow returns nothing: elsewhere no folder is mounted a second time, as far as is known.
func mountsBelow(string) []string { return nil }
