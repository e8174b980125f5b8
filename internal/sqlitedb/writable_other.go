//go:build !unix

package sqlitedb

func writable(string) error { return nil }
