package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync"

	"github.com/piecelease/fetcher/share"
)

// Handles keeps files and folders below one folder open, so that a file deep in
// a tree costs one system call to open and not one for each folder above it.
type Handles struct {
	Top   FS
	Files Cache[int, File]  // by entry of the manifest
	dirs  Cache[string, FS] // by path; never "."

	Made  func(dir string)      // called for each folder that gets a new one inside; may be nil
	Exact func(dir string) bool // says which folders are opened only by the very name that the one above lists; nil: none; see exactly

	mu     sync.Mutex
	listed map[string]map[string]bool // by folder: what is in it of Exact, as it was listed, or made, since LookAgain
}

// DefaultMaxOpen is how many files a share keeps open, and how many folders. Where
// the process may not have that many, a share makes do with fewer.
const DefaultMaxOpen = 128

// NewHandles keeps at most maxOpen files and as many folders below top open; 0 is
// [DefaultMaxOpen]. top is closed with it.
func NewHandles(top FS, maxOpen int) *Handles {
	if maxOpen <= 0 {
		maxOpen = DefaultMaxOpen
	}
	return &Handles{Top: top, Files: Cache[int, File]{max: maxOpen}, dirs: Cache[string, FS]{max: maxOpen}}
}

// makeWayTries is how often files are closed to make room for one to be opened: others may
// take what was freed.
const makeWayTries = 4

// In calls f with the folder dir, and again if the process had too many files open and
// some that nobody uses were closed. Only here is an open retried: the folders on the way
// are opened through in.
func (h *Handles) In(dir string, create bool, f func(FS) error) (err error) {
	for range makeWayTries {
		if err = h.in(dir, create, f); err == nil || !TooManyOpen(err) {
			return err
		}
		h.Files.shrink()
		h.dirs.shrink()
	}
	return h.in(dir, create, f)
}

func (h *Handles) in(dir string, create bool, f func(FS) error) error {
	if dir == "." || dir == "" {
		return f(h.Top)
	}
	d, err := h.dirs.Get(dir, func() (sub FS, err error) {
		err = h.in(path.Dir(dir), create, func(parent FS) (err error) {
			if sub, err = h.sub(parent, dir); !create || !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			switch err = h.mkdir(parent, dir); {
			case err == nil:
				h.Made(path.Dir(dir))
			case !errors.Is(err, fs.ErrExist):
				return err
			}
			sub, err = h.sub(parent, dir)
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

// sub opens the folder dir in the one above it, by its very name if Exact says so: as whoever makes a share decides how many
// of these there are, what is in the folder above is listed once for all of them.
func (h *Handles) sub(parent FS, dir string) (FS, error) {
	sub, err := parent.Sub(path.Base(dir))
	if err != nil || h.Exact == nil || !h.Exact(dir) {
		return sub, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	names := h.listed[path.Dir(dir)]
	if names == nil {
		if names, err = h.list(parent, path.Dir(dir)); err != nil {
			sub.Close()
			return nil, err
		}
	}
	if !names[path.Base(dir)] {
		sub.Close()
		return nil, otherName(dir)
	}
	return sub, nil
}

// list notes what is in a folder of which Exact says that it is opened only by its very name; mu is held.
func (h *Handles) list(d FS, dir string) (map[string]bool, error) {
	list, err := d.ReadDir(".")
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, e := range list {
		if e.Type != 0 && h.Exact(path.Join(dir, e.Name)) {
			names[e.Name] = true
		}
	}
	if h.listed == nil {
		h.listed = map[string]map[string]bool{}
	}
	h.listed[dir] = names
	return names, nil
}

// mkdir makes the folder dir in the one above it.
func (h *Handles) mkdir(parent FS, dir string) error {
	if h.Exact == nil || !h.Exact(dir) {
		return parent.Mkdir(path.Base(dir))
	}
	h.mu.Lock() // so that it is in the list, whenever that is made
	defer h.mu.Unlock()
	err := parent.Mkdir(path.Base(dir))
	if names := h.listed[path.Dir(dir)]; err == nil && names != nil {
		names[path.Base(dir)] = true
	}
	return err
}

// exactly fails if a folder does not list a name, path, as it is, though it leads somewhere: a file system to which capitals do not
// matter, or that writes letters in its own way, has it under another name, which may be meant for something else.
func exactly(d FS, name, path string) error {
	list, err := d.ReadDir(".")
	if err == nil && !slices.ContainsFunc(list, func(e DirEntry) bool { return e.Name == name }) {
		err = otherName(path)
	}
	return err
}

func otherName(path string) error {
	return fmt.Errorf("%w: this file system has %q under another name", share.ErrPath, path)
}

// Exactly fails if what is at name has another name in its folder, or one of the folders above it has; see Exact.
func (h *Handles) Exactly(name string) (err error) {
	for at := name; at != "." && err == nil; at = path.Dir(at) {
		err = h.In(path.Dir(at), false, func(d FS) error { return exactly(d, path.Base(at), at) })
	}
	return err
}

// Lstat describes the file at name.
func (h *Handles) Lstat(name string) (info Info, err error) {
	err = h.In(path.Dir(name), false, func(d FS) (err error) {
		info, err = d.Lstat(path.Base(name))
		return err
	})
	return info, err
}

// OpenSeen opens a file for reading that the caller has seen at name. What is opened must be
// compared with that, by its Stat, before what is read of it is believed: it may be a different
// one by then.
func (h *Handles) OpenSeen(name string) (f File, err error) {
	err = h.In(path.Dir(name), false, func(d FS) (err error) {
		if s, ok := d.(interface{ openSeen(string) (File, error) }); ok {
			f, err = s.openSeen(path.Base(name))
		} else {
			f, err = d.Open(path.Base(name))
		}
		return err
	})
	return f, err
}

// Blocked says whether something that is not a folder is in the path above name.
func Blocked(in interface{ Lstat(string) (Info, error) }, name string) bool {
	for i := range name {
		if name[i] != '/' {
			continue
		}
		info, err := in.Lstat(name[:i])
		if err != nil {
			return false
		}
		if !info.Type.IsDir() {
			return true
		}
	}
	return false
}

// LookAgain makes each folder be reopened when it is needed next: an open folder stays
// the same wherever it is moved, and whatever takes its name.
func (h *Handles) LookAgain() {
	h.dirs.Clear()
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.listed)
}

// Close closes everything, the folder itself too.
func (h *Handles) Close() error {
	h.Files.Clear()
	h.dirs.Clear()
	return h.Top.Close()
}
