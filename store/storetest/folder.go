package storetest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"path"
	"slices"
	"strings"

	"github.com/piecelease/fetcher/share"
	"github.com/piecelease/fetcher/store/vfs"
)

// folder is an open folder.
type folder struct {
	d    *Disk
	n    *node
	at   string // from the root
	life int

	closed bool // guarded by d.mu
}

// in finds the folder that name is in, and its last part. It does not follow links.
func (f *folder) in(op, name string) (*node, string, error) {
	fail := func(err error) (*node, string, error) {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: err}
	}
	if !fs.ValidPath(name) {
		return fail(fs.ErrInvalid)
	}
	dir, base := path.Split(name)
	n := f.n
	for part := range strings.SplitSeq(strings.TrimSuffix(dir, "/"), "/") {
		if part == "" {
			continue
		}
		next := n.names[f.d.fold(n, part)]
		if next == nil {
			return fail(fs.ErrNotExist)
		}
		if !next.typ.IsDir() {
			return fail(fs.ErrInvalid)
		}
		n = next
	}
	return n, f.d.fold(n, base), nil
}

// fold is the name under which base stands in n, base itself if it does not.
func (d *Disk) fold(n *node, base string) string {
	if !d.FoldCase || n.names[base] != nil {
		return base
	}
	for _, name := range sorted(n.names) {
		if strings.EqualFold(name, base) {
			return name
		}
	}
	return base
}

// find returns what stands under name.
func (f *folder) find(op, name string) (*node, error) {
	if name == "." {
		return f.n, nil
	}
	dir, base, err := f.in(op, name)
	if err != nil {
		return nil, err
	}
	n := dir.names[base]
	if n == nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	return n, nil
}

func (f *folder) begin(kind, name string) error {
	err := f.d.begin(kind, path.Join(f.at, name), f.life)
	if err == nil && f.closed {
		err = &fs.PathError{Op: kind, Path: name, Err: fs.ErrClosed}
	}
	return err
}

// add puts a new node under a name that must be free.
func (f *folder) add(op, name string, n *node) error {
	dir, base, err := f.in(op, name)
	if err != nil {
		return err
	}
	if dir.names[base] != nil {
		return &fs.PathError{Op: op, Path: name, Err: fs.ErrExist}
	}
	if f.d.free < 0 {
		return &fs.PathError{Op: op, Path: name, Err: share.ErrDiskFull}
	}
	dir.names[base] = n
	f.d.changes = append(f.d.changes, change{dir, func() { dir.durableNames[base] = n }})
	return nil
}

func (f *folder) file(kind, name string, write bool) (vfs.File, error) {
	defer f.d.mu.Unlock()
	if err := f.begin(kind, name); err != nil {
		return nil, err
	}
	n, err := f.find(kind, name)
	if err != nil {
		return nil, err
	}
	if n.typ != 0 {
		return nil, &fs.PathError{Op: kind, Path: name, Err: fs.ErrInvalid}
	}
	f.d.opened()
	return &file{d: f.d, n: n, name: path.Join(f.at, name), life: f.life, write: write}, nil
}

func (f *folder) Open(name string) (vfs.File, error) { return f.file("open", name, false) }
func (f *folder) Edit(name string) (vfs.File, error) { return f.file("edit", name, true) }

func (f *folder) Create(name string, exec bool) (vfs.File, error) {
	defer f.d.mu.Unlock()
	if err := f.begin("create", name); err != nil {
		return nil, err
	}
	n := f.d.node(0)
	n.exec = exec
	if err := f.add("create", name, n); err != nil {
		return nil, err
	}
	f.d.opened()
	return &file{d: f.d, n: n, name: path.Join(f.at, name), life: f.life, write: true}, nil
}

func (n *node) info() vfs.Info {
	return vfs.Info{Type: n.typ, Size: n.size, MTime: n.mtime, CTime: n.ctime, Inode: n.inode, Exec: n.exec, Room: n.used * PageSize}
}

func (f *folder) Lstat(name string) (vfs.Info, error) {
	defer f.d.mu.Unlock()
	if err := f.begin("lstat", name); err != nil {
		return vfs.Info{}, err
	}
	n, err := f.find("lstat", name)
	if err != nil {
		return vfs.Info{}, err
	}
	return n.info(), nil
}

func (f *folder) ReadDir(name string) ([]vfs.DirEntry, error) {
	defer f.d.mu.Unlock()
	if err := f.begin("readdir", name); err != nil {
		return nil, err
	}
	n, err := f.find("readdir", name)
	if err != nil {
		return nil, err
	}
	var out []vfs.DirEntry
	for _, name := range sorted(n.names) {
		out = append(out, vfs.DirEntry{Name: name, Type: n.names[name].typ})
	}
	return out, nil
}

func (f *folder) Readlink(name string) (string, error) {
	defer f.d.mu.Unlock()
	if err := f.begin("readlink", name); err != nil {
		return "", err
	}
	n, err := f.find("readlink", name)
	if err == nil && n.typ != fs.ModeSymlink {
		err = &fs.PathError{Op: "readlink", Path: name, Err: fs.ErrInvalid}
	}
	if err != nil {
		return "", err
	}
	return n.target, nil
}

func (f *folder) Mkdir(name string) error {
	defer f.d.mu.Unlock()
	if err := f.begin("mkdir", name); err != nil {
		return err
	}
	return f.add("mkdir", name, f.d.node(fs.ModeDir))
}

func (f *folder) Symlink(target, name string) error {
	defer f.d.mu.Unlock()
	if err := f.begin("symlink", name); err != nil {
		return err
	}
	n := f.d.node(fs.ModeSymlink)
	n.target = target
	return f.add("symlink", name, n)
}

func (f *folder) SetExec(name string) error {
	defer f.d.mu.Unlock()
	if err := f.begin("setexec", name); err != nil {
		return err
	}
	n, err := f.find("setexec", name)
	if err == nil && !n.exec {
		n.exec = true
		f.d.changed(n)
	}
	return err
}

func (f *folder) Remove(name string) error {
	defer f.d.mu.Unlock()
	if err := f.begin("remove", name); err != nil {
		return err
	}
	dir, base, err := f.in("remove", name)
	if err != nil {
		return err
	}
	n := dir.names[base]
	switch {
	case n == nil:
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	case len(n.names) > 0:
		return &fs.PathError{Op: "remove", Path: name, Err: errors.New("folder is not empty")}
	}
	delete(dir.names, base)
	f.d.changed(n)
	f.d.free += n.used * PageSize
	f.d.changes = append(f.d.changes, change{dir, func() { delete(dir.durableNames, base) }})
	return nil
}

func (f *folder) rename(op, from, to string, replace bool) error {
	defer f.d.mu.Unlock()
	if err := f.begin(op, from); err != nil {
		return err
	}
	a, old, err := f.in(op, from)
	if err != nil {
		return err
	}
	b, new, err := f.in(op, to)
	if err != nil {
		return err
	}
	n := a.names[old]
	if n == nil {
		return &fs.PathError{Op: op, Path: from, Err: fs.ErrNotExist}
	}
	if there := b.names[new]; there != nil {
		if !replace {
			return &fs.PathError{Op: op, Path: to, Err: fs.ErrExist}
		}
		if there.typ.IsDir() || n.typ.IsDir() {
			return &fs.PathError{Op: op, Path: to, Err: fs.ErrInvalid}
		}
		f.d.free += there.used * PageSize
	}
	delete(a.names, old)
	b.names[new] = n
	f.d.changed(n)
	f.d.changes = append(f.d.changes, change{b, func() {
		if a.durableNames[old] == n {
			delete(a.durableNames, old)
		}
		b.durableNames[new] = n
	}})
	return nil
}

func (f *folder) Rename(from, to string) error { return f.rename("rename", from, to, true) }
func (f *folder) Move(from, to string) error   { return f.rename("move", from, to, false) }

func (f *folder) SyncDir(name string) error {
	defer f.d.mu.Unlock()
	if err := f.begin("syncdir", name); err != nil {
		return err
	}
	n, err := f.find("syncdir", name)
	if err != nil {
		return err
	}
	f.d.changes = slices.DeleteFunc(f.d.changes, func(c change) bool {
		if c.dir != n {
			return false
		}
		c.apply()
		return true
	})
	return nil
}

// SameDisk is for [vfs.SameDisk].
func (f *folder) SameDisk(as vfs.FS) bool {
	x, ok := as.(*folder)
	return ok && f.d == x.d
}

func (f *folder) SyncAll() error {
	defer f.d.mu.Unlock()
	err := f.begin("syncall", ".")
	if errors.Is(err, ErrPower) {
		return err
	}
	if f.d.NoSyncAll {
		return fmt.Errorf("syncall: %w", errors.ErrUnsupported)
	}
	f.d.syncBelow(f.d.root, err == nil)
	if err != nil {
		return err
	}
	for _, c := range f.d.changes {
		c.apply()
	}
	f.d.changes = nil
	return nil
}

func (d *Disk) syncBelow(n *node, well bool) {
	if !n.typ.IsDir() {
		n.sync(well)
	}
	for _, c := range n.names {
		d.syncBelow(c, well)
	}
}

// sync makes the bytes durable, or does not and believes it did.
func (n *node) sync(well bool) {
	if well {
		n.durableSize = n.size
	}
	for _, c := range n.unsynced {
		for ; c.dirty != 0; c.dirty &= c.dirty - 1 {
			if i := bits.TrailingZeros64(c.dirty); well {
				c.durable[i] = c.pages[i]
			}
		}
	}
	clear(n.unsynced)
}

func (f *folder) Sub(name string) (vfs.FS, error) {
	defer f.d.mu.Unlock()
	if err := f.begin("sub", name); err != nil {
		return nil, err
	}
	n, err := f.find("sub", name)
	if err != nil {
		return nil, err
	}
	if !n.typ.IsDir() {
		return nil, &fs.PathError{Op: "sub", Path: name, Err: fs.ErrInvalid}
	}
	f.d.opened()
	return &folder{d: f.d, n: n, at: path.Join(f.at, name), life: f.life}, nil
}

// lock is a held lock file.
type lock struct {
	d    *Disk
	n    *node
	life int
}

func (l *lock) Close() error {
	l.d.mu.Lock()
	defer l.d.mu.Unlock()
	if l.life == l.d.life {
		l.n.locked = false
	}
	return nil
}

func (f *folder) Lock(name string) (io.Closer, error) {
	defer f.d.mu.Unlock()
	if err := f.begin("lock", name); err != nil {
		return nil, err
	}
	n, err := f.find("lock", name)
	if errors.Is(err, fs.ErrNotExist) {
		n = f.d.node(0)
		err = f.add("lock", name, n)
	}
	if err != nil {
		return nil, err
	}
	if n.locked {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: share.ErrHeld}
	}
	n.locked = true
	return &lock{f.d, n, f.life}, nil
}

func (f *folder) Free() (int64, error) {
	defer f.d.mu.Unlock()
	if err := f.begin("free", "."); err != nil {
		return 0, err
	}
	return max(0, f.d.free), nil
}

func (f *folder) Close() error {
	defer f.d.mu.Unlock()
	err := f.begin("close", ".")
	if f.closed {
		return fs.ErrClosed
	}
	f.closed = true
	if f.life == f.d.life {
		f.d.open--
	}
	return err
}
