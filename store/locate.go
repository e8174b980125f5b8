package store

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/piecelease/fetcher/store/vfs"
)

// location is where a share lies on disk.
type location struct {
	dir  vfs.FS // the folder, or the one that holds the single file; owned
	base string // the single file's name in dir; "" for a folder
	name string // what the share is called
	path string // the whole path, for the import cache
}

// file is where an entry of the share lies below dir.
func (p *location) file(entry string) string {
	if p.base != "" {
		return p.base
	}
	return entry
}

// locate finds what is to be shared.
func locate(p string, d vfs.FS) (location, error) {
	if d == nil {
		return locateHere(p)
	}
	p = path.Clean(p)
	info, err := d.Lstat(p)
	if err != nil {
		return location{}, err
	}
	at := location{name: path.Base(p), path: "/" + p}
	if info.Type.IsDir() {
		at.dir, err = d.Sub(p)
		return at, err
	}
	at.base = path.Base(p)
	at.dir, err = d.Sub(path.Dir(p))
	return at, err
}

// realPath is where a path leads through symbolic links. The error about one that leads back to itself is the system's, which names it.
func realPath(abs string) (string, error) {
	real, err := filepath.EvalSymlinks(abs)
	if err != nil && !errors.As(err, new(*fs.PathError)) {
		if _, at := os.Stat(abs); at != nil {
			err = at
		}
	}
	return real, err
}

func locateHere(p string) (location, error) {
	abs, err := filepath.Abs(p)
	if err != nil {
		return location{}, err
	}
	at := location{name: filepath.Base(abs)}
	if at.path, err = realPath(abs); err != nil {
		return location{}, err
	}
	parent, err := vfs.Dir(filepath.Dir(at.path))
	if err != nil {
		// The folder above may not be ours to read, and need not be.
		at.dir, err = vfs.Dir(at.path)
		return at, err
	}
	defer func() {
		if at.base == "" {
			parent.Close()
		}
	}()
	base := filepath.Base(at.path)
	if at.path == filepath.Dir(at.path) {
		base = "."
	}
	info, err := parent.Lstat(base)
	if err != nil {
		return location{}, err
	}
	if info.Type.IsDir() {
		at.dir, err = parent.Sub(base)
		return at, err
	}
	at.base, at.dir = base, parent
	return at, nil
}
