package store

import (
	"errors"
	"io/fs"
	"path"
)

// handles keeps files and folders below one folder open, so that a file deep in
// a tree costs one system call to open and not one for each folder above it.
type handles struct {
	top   FS
	files cache[int, File]  // by entry of the manifest
	dirs  cache[string, FS] // by path; never "."

	made func(dir string) // told of each folder that gets a new one inside; may be nil
}

// DefaultMaxOpen is how many files a share keeps open, and how many folders. Where
// the process may not have so many, a share does with fewer.
const DefaultMaxOpen = 128

func newHandles(top FS, maxOpen int) *handles {
	if maxOpen <= 0 {
		maxOpen = DefaultMaxOpen
	}
	h := &handles{top: top, files: cache[int, File]{max: maxOpen}, dirs: cache[string, FS]{max: maxOpen}}
	h.files.makeWay, h.dirs.makeWay = h.makeWay, h.makeWay
	return h
}

// makeWay closes what is not in use: the process has too many files open.
func (h *handles) makeWay() {
	h.files.shrink()
	h.dirs.shrink()
}

// in calls f with the folder dir.
func (h *handles) in(dir string, create bool, f func(FS) error) error {
	if dir == "." || dir == "" {
		return f(h.top)
	}
	d, err := h.dirs.get(dir, func() (sub FS, err error) {
		err = h.in(path.Dir(dir), create, func(parent FS) (err error) {
			base := path.Base(dir)
			sub, err = parent.Sub(base)
			if !create || !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			switch err = parent.Mkdir(base); {
			case err == nil:
				h.made(path.Dir(dir))
			case !errors.Is(err, fs.ErrExist):
				return err
			}
			sub, err = parent.Sub(base)
			return err
		})
		return sub, err
	})
	if err != nil {
		return err
	}
	defer h.dirs.put(d)
	return f(d.v)
}

// lstat describes the file at name.
func (h *handles) lstat(name string) (info Info, err error) {
	err = h.in(path.Dir(name), false, func(d FS) (err error) {
		info, err = d.Lstat(path.Base(name))
		return err
	})
	return info, err
}

// open opens the file at name for reading.
func (h *handles) open(name string) (File, error) {
	return h.files.tryOpen(func() (f File, err error) {
		err = h.in(path.Dir(name), false, func(d FS) (err error) {
			f, err = d.Open(path.Base(name))
			return err
		})
		return f, err
	})
}

func (h *handles) close() error {
	h.files.clear()
	h.dirs.clear()
	return h.top.Close()
}
