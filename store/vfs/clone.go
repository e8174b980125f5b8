package vfs

import "errors"

// cloner is a file that can take bytes of another without copying them.
type cloner interface {
	// CloneRange makes n bytes at off those of from at fromOff, or wraps errors.ErrUnsupported.
	CloneRange(off int64, from File, fromOff, n int64) error
}

// Clone makes n bytes of to, from off on, those of from at fromOff, in a way that takes
// no room until one of them is changed: a reflink. The error wraps errors.ErrUnsupported
// where the system, the file system or the two files do not allow that.
func Clone(to File, off int64, from File, fromOff, n int64) error {
	if c, ok := to.(cloner); ok {
		return c.CloneRange(off, from, fromOff, n)
	}
	return errors.ErrUnsupported
}
