package vfs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Nearest returns a folder of this machine, or the nearest one above it that exists. [NotDir] says of the error
// that something else than a folder is there.
func Nearest(dir string) (at string, err error) {
	for at = dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		_, link := os.Readlink(at)
		switch {
		case errors.Is(err, fs.ErrNotExist) && link == nil:
			return at, &fs.PathError{Op: "open", Path: at, Err: errNotDir} // a link that leads nowhere
		case err == nil && !info.IsDir():
			return at, &fs.PathError{Op: "open", Path: at, Err: errNotDir}
		case err == nil, !errors.Is(err, fs.ErrNotExist) && !NotDir(err), at == filepath.Dir(at):
			return at, err
		}
	}
}
