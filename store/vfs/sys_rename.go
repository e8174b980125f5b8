//go:build linux || darwin

package vfs

import (
	"os"
	"path"
)

// withParents calls f with the open folders of two names, and their last parts.
func (d dirFS) withParents(from, to string, f func(a *os.File, from string, b *os.File, to string) error) error {
	return d.withDir(path.Dir(from), func(a *os.File) error {
		return d.withDir(path.Dir(to), func(b *os.File) error {
			if err := f(a, path.Base(from), b, path.Base(to)); err != nil {
				return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
			}
			return nil
		})
	})
}
