//go:build !linux

package daemon

// mountPoints returns nothing: elsewhere no folder is mounted a second time, as far as is known.
func mountPoints() []string { return nil }

func isSubvolume(string) bool { return false }
