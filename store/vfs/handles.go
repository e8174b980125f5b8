package vfs

import (
	"errors"
	"io/fs"
	"path"
)

// Handles keeps files and folders below one folder open, so that a file deep in
// a tree costs one system call to open and not one for each folder above it.
type Handles struct {
	Top   FS
	Files Cache[int, File]  // by entry of the manifest
	dirs  Cache[string, FS] // by path; never "."

	Made func(dir string) // told of each folder that gets a new one inside; may be nil
}

// DefaultMaxOpen is how many files a share keeps open, and how many folders. Where
// the process may not have so many, a share does with fewer.
const DefaultMaxOpen = 128

// NewHandles keeps at most maxOpen files and as many folders below top open; 0 is
// [DefaultMaxOpen]. top is closed with it.
func NewHandles(top FS, maxOpen int) *Handles {
	if maxOpen <= 0 {
		maxOpen = DefaultMaxOpen
	}
	h := &Handles{Top: top, Files: Cache[int, File]{max: maxOpen}, dirs: Cache[string, FS]{max: maxOpen}}
	h.Files.makeWay, h.dirs.makeWay = h.makeWay, h.makeWay
	return h
}

// makeWay closes what is not in use: the process has too many files open.
func (h *Handles) makeWay() {
	h.Files.shrink()
	h.dirs.shrink()
}

// In calls f with the folder dir.
func (h *Handles) In(dir string, create bool, f func(FS) error) error {
	if dir == "." || dir == "" {
		return f(h.Top)
	}
	d, err := h.dirs.Get(dir, func() (sub FS, err error) {
		err = h.In(path.Dir(dir), create, func(parent FS) (err error) {
			base := path.Base(dir)
			sub, err = parent.Sub(base)
			if !create || !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			switch err = parent.Mkdir(base); {
			case err == nil:
				h.Made(path.Dir(dir))
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
	defer h.dirs.Put(d)
	return f(d.V)
}

// Lstat describes the file at name.
func (h *Handles) Lstat(name string) (info Info, err error) {
	err = h.In(path.Dir(name), false, func(d FS) (err error) {
		info, err = d.Lstat(path.Base(name))
		return err
	})
	return info, err
}

// Open opens the file at name for reading.
func (h *Handles) Open(name string) (File, error) {
	return h.Files.tryOpen(func() (f File, err error) {
		err = h.In(path.Dir(name), false, func(d FS) (err error) {
			f, err = d.Open(path.Base(name))
			return err
		})
		return f, err
	})
}

// Close closes everything, the folder itself too.
func (h *Handles) Close() error {
	h.Files.Clear()
	h.dirs.Clear()
	return h.Top.Close()
}
